//! Whether every job is in exactly one place and every index agrees.

use crate::index::Index;
use crate::store::Store;
use windlass_core::engine::{CheckReport, Finding};
use windlass_core::model::State;

impl Store {
    pub(crate) fn check(&mut self, repair: bool) -> CheckReport {
        let mut report = CheckReport::default();
        report.jobs = self.jobs.len() as u64;
        let mut find = |what: String| report.findings.push(Finding { what, repaired: repair });

        for entry in self.jobs.values() {
            let (id, state) = (entry.id(), entry.job.state);
            if (state == State::Running) != entry.leased.is_some() {
                find(format!("job {id} is {state}, but its lease says otherwise"));
            }
            if state.is_terminal() != entry.job.finished_at.is_some() {
                find(format!("job {id} is {state}, but its end says otherwise"));
            }
            if state.is_terminal() && entry.holds_key {
                find(format!("job {id} has ended and still holds its ordering key"));
            }
            let session = entry.leased.as_ref().map(|leased| &leased.session);
            if session.is_some_and(|session| !self.sessions.contains_key(session)) {
                find(format!("job {id} is leased to a session that is gone"));
            }
        }
        for (slot, hold) in self.uniques.iter().filter(|(_, hold)| hold.until.is_none()) {
            if self.state(hold.holder).is_none_or(State::is_terminal) {
                find(format!("unique key {slot:?} is held by {}, which has ended", hold.holder));
            }
        }
        let rebuilt = Index::of(self.jobs.values().map(|entry| &**entry));
        if rebuilt != self.index {
            find("the index does not agree with the jobs".to_owned());
        }
        if repair {
            self.index = rebuilt;
            let jobs = &self.jobs;
            self.uniques.retain(|_, hold| {
                let ended = |job: &crate::entry::Entry| job.job.state.is_terminal();
                hold.until.is_some() || jobs.get(&hold.holder).is_some_and(|job| !ended(job))
            });
        }
        report
    }
}
