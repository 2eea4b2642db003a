//! Jobs of another store: what they keep, and what they must not take from others.

use super::{Code, Model, ModelJob, slot};
use windlass_core::JobId;
use windlass_core::engine::Disposition;
use windlass_core::machine::{EventKind, step};
use windlass_core::model::State;
use windlass_core::policy::Until;

impl Model {
    /// Imports a job that was exported in this state.
    pub(in crate::model) fn import(
        &mut self,
        mut job: ModelJob,
    ) -> Result<(JobId, Disposition), Code> {
        let id = job.id;
        if self.jobs.contains_key(&id) {
            return Ok((id, Disposition::Existing));
        }
        // No lease of the other store is valid here. The job is not in line yet: it will be the last.
        (job.leased, job.holds_key) = (None, false);
        job.past.clear();
        job.entered = (u64::MAX, 0);
        let facts = self.facts(&job, EventKind::Import, None);
        let taken = step(Some(job.state), EventKind::Import, facts).map_err(|_| "refused")?;
        let next = taken.next.expect("an imported job is stored");
        if job.keeps_unique(next, self) {
            let holder = self.holder(&slot(&job.new));
            if holder.is_some_and(|holder| holder != id) {
                return Err("duplicate");
            }
        }
        self.commit(job, EventKind::Import, taken, None, None)?;
        Ok((id, Disposition::Created))
    }

    /// Gives an imported job the unique key that it still holds in this state.
    pub(super) fn keep_unique(&mut self, job: &ModelJob, state: State) {
        if job.keeps_unique(state, self) {
            self.take_unique(job, job.created_at);
        }
    }
}

impl ModelJob {
    /// Whether an imported job holds its unique key in this state.
    fn keeps_unique(&self, state: State, model: &Model) -> bool {
        match self.new.unique.as_ref().map(|unique| unique.until) {
            None => false,
            Some(Until::Finished) => !state.is_terminal(),
            Some(Until::Window(period)) => model.now < self.created_at + period,
            Some(Until::Removed) => true,
            Some(other) => panic!("the model does not know {other:?}"),
        }
    }
}
