//! Due jobs of a maintenance step. Candidates come from indexes that may lag behind; the job itself decides, once
//! it is locked.

use crate::loaded::Loaded;
use std::collections::HashSet;
use windlass_core::engine::{MaintainRequest, Work};
use windlass_core::model::State;
use windlass_core::policy::{expires_at, keep_until};
use windlass_core::{JobId, Timestamp};
use windlass_executor::Entry;

impl<X> Loaded<X> {
    /// Restricts `due` to the jobs that are due now that they are locked. Jobs that are not loaded are locked by
    /// other writers and are left to them.
    pub fn verify_due(&mut self, request: MaintainRequest) {
        if request.work == Work::Reclaim {
            return;
        }
        let now = self.now;
        let due = std::mem::take(&mut self.due);
        let (candidates, full) = (due.len(), due.len() > request.budget as usize);
        let elsewhere = |(at, id): &(Timestamp, JobId)| *at <= now && !self.jobs.contains_key(id);
        let left_to_others = due.iter().any(elsewhere);
        let is_due = |at: Timestamp, id: &JobId| {
            let found = self.found(*id).filter(|_| self.is_locked(id));
            found.is_some_and(|found| self.due_at_of(request.work, &found.entry) == Some(at))
        };
        // Several index entries may lead to one job; it is due once.
        let mut seen = HashSet::new();
        let due =
            due.into_iter().filter(|(at, id)| *at > now || (is_due(*at, id) && seen.insert(*id)));
        let due: Vec<_> = due.collect();
        // Other writers may not finish the jobs they hold, and more jobs may be due behind a full list.
        self.unsure = left_to_others || (full && due.len() < candidates);
        // Whether the index entry of a job is stale is known only if the job was loaded.
        let valid: HashSet<JobId> = due.iter().map(|(_, id)| *id).collect();
        let mut stale = std::mem::take(&mut self.stale);
        stale.retain(|entry| self.jobs.contains_key(&entry.id) && !valid.contains(&entry.id));
        (self.due, self.stale) = (due, stale);
    }

    /// The time at which this work falls due for a job.
    pub fn due_at_of(&self, work: Work, entry: &Entry) -> Option<Timestamp> {
        let (header, state) = (&entry.job.header, entry.job.state);
        let settings = self.settings_of(&header.queue);
        match (work, state) {
            (Work::Promote, State::Scheduled) => Some(header.run_at),
            (Work::Expire, State::Blocked | State::Available | State::Paused) => {
                expires_at(header.run_at, header.policy.max_wait_ms, settings.max_wait_ms)
            }
            (Work::Retain, state) if state.is_terminal() => {
                let ended_at = entry.job.finished_at?;
                if self.surplus.contains(&entry.id()) {
                    return Some(ended_at);
                }
                Some(keep_until(state, ended_at, header.policy.retention, settings.retention))
            }
            _ => None,
        }
    }
}
