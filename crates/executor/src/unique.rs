//! Unique keys: their holders, and the verdict on a new job.

use crate::entry::{Entry, UniqueSlot};
use crate::executor::Executor;
use crate::rows::{Rows, UniqueHold};
use windlass_core::model::{Name, NewJob, State};
use windlass_core::policy::{Holder, UniqueVerdict};
use windlass_core::{Error, JobId, Result, Timestamp};

impl<R: Rows> Executor<R> {
    /// The current holder of a slot; `freed` is a job that releases it in the same step.
    pub(crate) fn holder(
        &self,
        slot: &UniqueSlot,
        freed: Option<JobId>,
        now: Timestamp,
    ) -> Result<Option<Holder>> {
        let Some(hold) = self.rows.unique(slot)? else { return Ok(None) };
        let holds = match hold.until {
            Some(until) => now < until,
            None => Some(hold.holder) != freed,
        };
        let waiting = self.state(hold.holder)?.is_some_and(State::is_waiting);
        Ok(holds.then_some(Holder { id: hold.holder, waiting }))
    }

    /// Acquires the unique key of a job, if it has one.
    pub(crate) fn take_unique(&mut self, entry: &Entry, now: Timestamp) -> Result<()> {
        let (Some(slot), Some(unique)) = (entry.unique_slot(), &entry.job.header.unique) else {
            return Ok(());
        };
        let until = unique.until.taken_at(now);
        self.rows.set_unique(slot, Some(UniqueHold { holder: entry.id(), until }))
    }

    /// Gives an imported job that is in `state` now the unique key that it still holds.
    pub(crate) fn keep_unique(
        &mut self,
        entry: &Entry,
        state: Option<State>,
        now: Timestamp,
    ) -> Result<()> {
        match entry.kept_unique(state, now) {
            Some((slot, hold)) => self.rows.set_unique(slot, Some(hold)),
            None => Ok(()),
        }
    }

    /// Refuses a change by which `entry` would take a unique key that another job holds.
    pub(crate) fn check_free(
        &self,
        slot: &UniqueSlot,
        entry: &Entry,
        now: Timestamp,
    ) -> Result<()> {
        match self.holder(slot, None, now)?.filter(|holder| holder.id != entry.id()) {
            Some(rival) => Err(Error::Duplicate { key: slot.key.clone(), holder: rival.id }),
            None => Ok(()),
        }
    }

    /// Puts a job into another queue, with its unique key if it holds one. Its ordering key stays behind.
    pub(crate) fn change_queue(
        &mut self,
        entry: &mut Entry,
        queue: Option<Name>,
        now: Timestamp,
    ) -> Result<()> {
        let Some(queue) = queue else { return Ok(()) };
        let slots = entry.unique_slot().zip(entry.unique_slot_in(&queue));
        entry.job.header.queue = queue;
        entry.holds_key = false;
        let Some((from, to)) = slots.filter(|(from, to)| from != to) else { return Ok(()) };
        let holds = |hold: &UniqueHold| {
            hold.holder == entry.id() && hold.until.is_none_or(|until| now < until)
        };
        match self.rows.unique(&from)?.filter(holds) {
            Some(hold) => {
                self.rows.set_unique(from, None)?;
                self.rows.set_unique(to, Some(hold))
            }
            None => Ok(()),
        }
    }

    /// Releases the unique key of a job that ended, or of one that is `removed`, unless it is held for a window or by
    /// another job.
    pub(crate) fn free_unique(&mut self, entry: &Entry, removed: bool) -> Result<()> {
        let Some(slot) = entry.unique_slot() else { return Ok(()) };
        let held = self.rows.unique(&slot)?;
        let ends = |hold: &UniqueHold| match hold.until {
            None => true,
            Some(until) => removed && until == UniqueHold::WHILE_STORED,
        };
        if held.is_some_and(|hold| hold.holder == entry.id() && ends(&hold)) {
            self.rows.set_unique(slot, None)?;
        }
        Ok(())
    }
}

/// The verdict on a new job whose key `holder` holds.
pub(crate) fn unique_verdict(job: &NewJob, holder: Option<Holder>) -> Result<UniqueVerdict> {
    let Some(unique) = &job.unique else { return Ok(UniqueVerdict::Create) };
    match (unique.on_conflict.decide(holder), holder) {
        (UniqueVerdict::Reject, Some(holder)) => {
            Err(Error::Duplicate { key: unique.key.clone(), holder: holder.id })
        }
        (verdict, _) => Ok(verdict),
    }
}
