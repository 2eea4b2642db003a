//! Unique keys: who holds them, and what becomes of a newcomer.

use crate::entry::{Entry, UniqueSlot};
use crate::store::{Store, UniqueHold};
use windlass_core::model::{NewJob, State};
use windlass_core::policy::{Holder, UniqueVerdict, Until};
use windlass_core::{Error, JobId, Result, Timestamp};

impl Store {
    /// Who holds a slot now.
    pub(crate) fn holder(&self, slot: &UniqueSlot, now: Timestamp) -> Option<JobId> {
        let hold = self.uniques.get(slot)?;
        hold.until.is_none_or(|until| now < until).then_some(hold.holder)
    }

    /// What becomes of a new job that wants `slot`, and the holder in its way. `freed` is the
    /// holder that gives the key up in the same step.
    pub(crate) fn unique_verdict(
        &self,
        job: &NewJob,
        slot: &UniqueSlot,
        freed: Option<JobId>,
        now: Timestamp,
    ) -> Result<(UniqueVerdict, Option<JobId>)> {
        let Some(unique) = &job.unique else { return Ok((UniqueVerdict::Create, None)) };
        let holder = self.holder(slot, now).filter(|holder| Some(*holder) != freed);
        let known =
            holder.map(|id| Holder { id, waiting: self.state(id).is_some_and(State::is_waiting) });
        match (unique.on_conflict.decide(known), holder) {
            (UniqueVerdict::Reject, Some(holder)) => {
                Err(Error::Duplicate { key: unique.key.clone(), holder })
            }
            (verdict, holder) => Ok((verdict, holder)),
        }
    }

    /// Gives a job its unique key.
    pub(crate) fn take_unique(&mut self, entry: &Entry, now: Timestamp) {
        let (Some(slot), Some(unique)) = (entry.unique_slot(), &entry.job.header.unique) else {
            return;
        };
        let until = match unique.until {
            Until::Finished => None,
            Until::Window(ms) => Some(now.plus(ms)),
        };
        self.uniques.insert(slot, UniqueHold { holder: entry.id(), until });
    }

    /// Frees the key of a job that ended, unless it holds for a window or a successor has it.
    pub(crate) fn free_unique(&mut self, entry: &Entry) {
        let Some(slot) = entry.unique_slot() else { return };
        let held = self.uniques.get(&slot);
        if held.is_some_and(|hold| hold.holder == entry.id() && hold.until.is_none()) {
            self.uniques.remove(&slot);
        }
    }
}
