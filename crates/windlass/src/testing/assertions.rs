//! Assertions about enqueued jobs, with failure messages that list the jobs found instead.

use super::{TestQueue, at_once};
use crate::client::read_payload;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use windlass_core::engine::{Admin as _, Filter, Get, List, ListOrder};
use windlass_core::limits::PAGE_MAX;
use windlass_core::model::{Job as StoredJob, PartSet};
use windlass_core::{JobId, TypedJob};

/// Maximum number of jobs that a failure message lists.
const SHOWN_MAX: usize = 20;
/// Maximum number of characters of a payload that a failure message shows.
const SHOWN_CHARS_MAX: usize = 200;

impl TestQueue {
    /// All jobs in the store with all their parts, in any state, in the order of their enqueue time (jobs
    /// with the same time in no particular order).
    #[track_caller]
    pub fn jobs(&self) -> Vec<StoredJob> {
        let mut ids = Vec::new();
        let mut request = List::new(Filter::default()).order(ListOrder::Oldest).limit(PAGE_MAX);
        loop {
            let page = at_once(self.engine.list(request.clone()));
            ids.extend(page.rows.into_iter().map(|job| job.header.id));
            if page.next.is_none() {
                break;
            }
            request = request.after(page.next);
        }
        let get = |ids: &[JobId]| {
            let request = Get::new(ids.iter().copied()).parts(PartSet::ALL);
            at_once(self.engine.get(request)).into_iter().flatten()
        };
        ids.chunks(PAGE_MAX as usize).flat_map(get).collect()
    }

    /// The job with this id, with all its parts. Panics if it does not exist.
    #[track_caller]
    pub fn job(&self, id: JobId) -> StoredJob {
        let found = at_once(self.engine.get(Get::new([id]).parts(PartSet::ALL)));
        found.into_iter().flatten().next().unwrap_or_else(|| panic!("there is no job {id}"))
    }

    /// The payloads of all jobs of this type, in the order of their enqueue time.
    #[track_caller]
    pub fn enqueued<J: TypedJob>(&self) -> Vec<J> {
        self.of_kind(J::KIND).iter().map(payload).collect()
    }

    /// Number of jobs per kind.
    #[track_caller]
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for job in self.jobs() {
            *counts.entry(job.header.kind.to_string()).or_default() += 1;
        }
        counts
    }

    /// Asserts that a job of this type that satisfies the predicate was enqueued, and returns the first one.
    #[track_caller]
    pub fn assert_enqueued<J: TypedJob>(&self, is_like: impl Fn(&J) -> bool) -> StoredJob {
        let found = self.of_kind(J::KIND).into_iter().find(|job| is_like(&payload(job)));
        found.unwrap_or_else(|| {
            panic!("no {} job like this was enqueued; {}", J::KIND, self.listing())
        })
    }

    /// Asserts that no job of this type that satisfies the predicate was enqueued.
    #[track_caller]
    pub fn refute_enqueued<J: TypedJob>(&self, is_like: impl Fn(&J) -> bool) {
        let found = self.of_kind(J::KIND).into_iter().find(|job| is_like(&payload(job)));
        if let Some(job) = found {
            let id = job.header.id;
            panic!("{} job {id} like this was enqueued; {}", J::KIND, self.listing());
        }
    }

    /// Asserts the number of enqueued jobs of this type.
    #[track_caller]
    pub fn assert_count<J: TypedJob>(&self, expected: usize) {
        let found = self.of_kind(J::KIND).len();
        assert!(
            found == expected,
            "{found} {} jobs were enqueued, not {expected}; {}",
            J::KIND,
            self.listing()
        );
    }

    fn of_kind(&self, kind: &str) -> Vec<StoredJob> {
        let mut jobs = self.jobs();
        jobs.retain(|job| &*job.header.kind == kind);
        jobs
    }

    /// Lists the jobs in the store, for a failure message.
    fn listing(&self) -> String {
        let jobs = self.jobs();
        let mut text = match jobs.len() {
            0 => return "nothing was enqueued at all".to_owned(),
            1 => "there is 1 job:".to_owned(),
            count => format!("there are {count} jobs:"),
        };
        for job in jobs.iter().take(SHOWN_MAX) {
            let (header, state) = (&job.header, job.state);
            let payload =
                job.parts.payload.as_ref().map(|part| &part.bytes[..]).unwrap_or_default();
            let payload: String =
                String::from_utf8_lossy(payload).chars().take(SHOWN_CHARS_MAX).collect();
            // Writing to a String cannot fail.
            let _ = write!(text, "\n  {} on {}, {state}: {payload}", header.kind, header.queue);
        }
        if jobs.len() > SHOWN_MAX {
            let _ = write!(text, "\n  and {} more", jobs.len() - SHOWN_MAX);
        }
        text
    }
}

#[track_caller]
fn payload<J: TypedJob>(job: &StoredJob) -> J {
    read_payload(job).unwrap_or_else(|error| panic!("{error}"))
}
