//! A job as an engine holds it: what people may see, and what only the engine needs.

use std::collections::VecDeque;
use windlass_core::engine::{ClaimedJob, Lease, SessionId};
use windlass_core::limits::HISTORY_MAX;
use windlass_core::model::{Attempt, AttemptEnd, Job, JobError, PartSet, Parts, State};
use windlass_core::policy::UniqueScope;
use windlass_core::{JobId, Timestamp};

/// The lease of a running job.
#[derive(Clone, Debug)]
pub struct Leased {
    /// The token.
    pub lease: Lease,
    /// The session that holds it.
    pub session: SessionId,
    /// The claim it came from.
    pub claim_no: u64,
    /// What the worker calls itself.
    pub worker: String,
    /// When it was given.
    pub started_at: Timestamp,
}

/// A stored job.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What people see, parts and all; history is kept apart, with its leases.
    pub job: Job,
    /// Its place among equals, given anew each time it enters a state.
    pub seq: u64,
    /// Its rank among ready jobs, given when it becomes ready.
    pub rank: i64,
    /// When it became ready.
    pub ready_at: Timestamp,
    /// Whether it holds its ordering key.
    pub holds_key: bool,
    /// Whether it waits for a signal.
    pub waits: bool,
    /// Whether a signal came before it waited.
    pub signalled: bool,
    /// Its lease, while it runs.
    pub leased: Option<Leased>,
    /// Ended attempts and the leases they ran under, so that a repeated settle is recognised.
    pub past: VecDeque<(Lease, Attempt)>,
}

impl Entry {
    /// A job to which nothing has happened yet.
    pub fn new(job: Job) -> Self {
        Self {
            job,
            seq: 0,
            rank: 0,
            ready_at: Timestamp::EPOCH,
            holds_key: false,
            waits: false,
            signalled: false,
            leased: None,
            past: VecDeque::new(),
        }
    }

    /// Which job it is.
    pub const fn id(&self) -> JobId {
        self.job.header.id
    }

    /// Its current lease, if `lease` is that one.
    pub fn leased_under(&self, lease: &Lease) -> Option<&Leased> {
        self.leased.as_ref().filter(|leased| leased.lease == *lease)
    }

    /// How the attempt under `lease` was settled, if it was and is still remembered.
    pub fn settled_under(&self, lease: &Lease) -> Option<AttemptEnd> {
        let found = self.past.iter().find(|(past, _)| past == lease);
        found.map(|(_, attempt)| attempt.end).filter(|end| *end != AttemptEnd::Lost)
    }

    /// Ends the lease and writes the attempt into the history.
    pub fn end_attempt(&mut self, end: AttemptEnd, error: Option<JobError>, now: Timestamp) {
        let Some(leased) = self.leased.take() else { return };
        if error.is_some() {
            self.job.error.clone_from(&error);
        }
        if self.past.len() == HISTORY_MAX {
            self.past.pop_front();
        }
        let attempt = Attempt {
            number: self.job.header.counters.attempt,
            worker: leased.worker,
            started_at: leased.started_at,
            ended_at: now,
            end,
            error,
        };
        self.past.push_back((leased.lease, attempt));
    }

    /// The job with the parts in `set`, and its history.
    pub fn view(&self, set: PartSet) -> Job {
        let mut job = self.summary();
        job.parts = self.job.parts.only(set);
        job.history = self.past.iter().map(|(_, attempt)| attempt.clone()).collect();
        job.log.clone_from(&self.job.log);
        job
    }

    /// The job without parts, history and log.
    pub fn summary(&self) -> Job {
        let mut job = Job::new(self.job.header.clone(), self.job.state, Parts::default());
        job.started_at = self.job.started_at;
        job.finished_at = self.job.finished_at;
        job.finish.clone_from(&self.job.finish);
        job.cancel_requested = self.job.cancel_requested;
        job.progress.clone_from(&self.job.progress);
        job.result.clone_from(&self.job.result);
        job.error.clone_from(&self.job.error);
        job
    }

    /// The job as its worker gets it.
    pub fn claimed(&self, set: PartSet) -> Option<ClaimedJob> {
        let leased = self.leased.as_ref()?;
        Some(ClaimedJob::new(
            self.job.header.clone(),
            leased.lease.clone(),
            leased.started_at,
            self.job.parts.only(set),
        ))
    }

    /// The slot its unique key occupies.
    pub fn unique_slot(&self) -> Option<UniqueSlot> {
        let header = &self.job.header;
        header
            .unique
            .as_ref()
            .map(|unique| UniqueSlot::new(unique.scope, &header.queue, &header.kind, &unique.key))
    }

    /// What is wrong with it, if anything: things that can never be true of a sound job.
    pub fn contradictions(&self, is_open: &dyn Fn(&SessionId) -> bool) -> Vec<String> {
        let (id, state) = (self.id(), self.job.state);
        let mut found = Vec::new();
        if (state == State::Running) != self.leased.is_some() {
            found.push(format!("job {id} is {state}, but its lease says otherwise"));
        }
        if state.is_terminal() != self.job.finished_at.is_some() {
            found.push(format!("job {id} is {state}, but its end says otherwise"));
        }
        if state.is_terminal() && self.holds_key {
            found.push(format!("job {id} has ended and still holds its ordering key"));
        }
        if self.leased.as_ref().is_some_and(|leased| !is_open(&leased.session)) {
            found.push(format!("job {id} is leased to a session that is gone"));
        }
        found
    }

    /// Whether it stands in line for its ordering key.
    pub fn in_line(&self) -> bool {
        self.job.state == State::Blocked && self.job.header.key.is_some() && !self.holds_key
    }
}

/// Where a unique key is unique: empty names are "any".
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UniqueSlot {
    /// The queue it is unique in.
    pub queue: String,
    /// The kind it is unique among.
    pub kind: String,
    /// The key.
    pub key: String,
}

impl UniqueSlot {
    /// The slot of a key.
    pub fn new(scope: UniqueScope, queue: &str, kind: &str, key: &str) -> Self {
        let (queue, kind) = match scope {
            UniqueScope::Lane => (queue, kind),
            UniqueScope::Queue => (queue, ""),
            UniqueScope::Global => ("", ""),
        };
        Self { queue: queue.to_owned(), kind: kind.to_owned(), key: key.to_owned() }
    }
}
