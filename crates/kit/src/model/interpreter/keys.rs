//! Unique and ordering keys: their holders and lines, and moves to another queue.

use super::{Code, Hold, Model, ModelJob, Slot};
use windlass_core::model::{Name, NewJob, State};
use windlass_core::policy::{UniqueScope, Until};
use windlass_core::{JobId, Timestamp};

impl Model {
    /// Puts a job into another queue, with its unique key and without its ordering key.
    pub(super) fn change_queue(
        &mut self,
        job: &mut ModelJob,
        queue: Option<Name>,
    ) -> Result<(), Code> {
        let queue = queue.expect("the table changes the queue only if the event does");
        let from = job.new.unique.is_some().then(|| slot(&job.new));
        job.new.queue = queue;
        job.holds_key = false;
        let Some(from) = from.filter(|from| self.holder(from) == Some(job.id)) else {
            return Ok(());
        };
        let to = slot(&job.new);
        if self.holder(&to).is_some_and(|holder| holder != job.id) {
            return Err("duplicate");
        }
        if from != to {
            self.uniques.retain(|hold| hold.slot != to);
        }
        for hold in self.uniques.iter_mut().filter(|hold| hold.slot == from) {
            hold.slot.clone_from(&to);
        }
        Ok(())
    }

    pub(super) fn key_taken(&self, job: &ModelJob) -> bool {
        let Some(key) = &job.new.key else { return false };
        let of_key = |other: &&ModelJob| {
            other.id != job.id
                && other.new.queue == job.new.queue
                && other.new.key.as_ref() == Some(key)
        };
        let mut others = self.jobs.values().filter(of_key);
        let ahead =
            |other: &ModelJob| other.in_line() && !(job.in_line() && job.entered < other.entered);
        !job.holds_key && others.any(|other| other.holds_key || ahead(other))
    }

    pub(super) fn first_in_line(&self, queue: &Name, key: &str) -> Option<JobId> {
        let of_key =
            |job: &&ModelJob| job.new.queue == *queue && job.new.key.as_deref() == Some(key);
        let line = self.jobs.values().filter(of_key).filter(|job| job.in_line());
        line.min_by_key(|job| job.entered).map(|job| job.id)
    }

    pub(in crate::model) fn holder(&self, slot: &Slot) -> Option<JobId> {
        let held = self.uniques.iter().find(|hold| hold.slot == *slot)?;
        held.until.is_none_or(|until| self.now < until).then_some(held.holder)
    }

    /// Gives a job its unique key, if it has one; windows begin at `since`.
    pub(super) fn take_unique(&mut self, job: &ModelJob, since: Timestamp) {
        let Some(unique) = &job.new.unique else { return };
        let until = match unique.until {
            Until::Finished => None,
            Until::Window(period) => Some(since + period),
            Until::Removed => Some(Timestamp::MAX),
            other => panic!("the model does not know {other:?}"),
        };
        let slot = slot(&job.new);
        self.uniques.retain(|hold| hold.slot != slot);
        self.uniques.push(Hold { slot, holder: job.id, until });
    }

    /// Releases the key of a job that ended, or was `removed`.
    pub(super) fn free_unique(&mut self, id: JobId, removed: bool) {
        let ends = |hold: &Hold| match hold.until {
            None => true,
            Some(until) => removed && until == Timestamp::MAX,
        };
        self.uniques.retain(|hold| hold.holder != id || !ends(hold));
    }
}

impl ModelJob {
    /// The job as it arrives in another queue: not in line there, and without the key.
    pub(super) fn arriving_in(&self, queue: &Name) -> Self {
        let mut job = Self { state: State::Scheduled, holds_key: false, ..self.clone() };
        job.new.queue = queue.clone();
        job
    }
}

/// The slot of a unique job.
pub(in crate::model) fn slot(job: &NewJob) -> Slot {
    let unique = job.unique.as_ref().expect("only unique jobs are asked");
    let (queue, kind) = match unique.scope {
        UniqueScope::Lane => (job.queue.to_string(), job.kind.to_string()),
        UniqueScope::Queue => (job.queue.to_string(), String::new()),
        UniqueScope::Kind => (String::new(), job.kind.to_string()),
        UniqueScope::Global => Default::default(),
        other => panic!("the model does not know {other:?}"),
    };
    (unique.scope, queue, kind, unique.key.clone())
}
