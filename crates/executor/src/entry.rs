//! A stored job: the public part, and the fields that only engines need.

use crate::rows::{LinePlace, UniqueHold};
use std::collections::VecDeque;
use windlass_core::engine::{ClaimedJob, Lease, SessionId};
use windlass_core::limits::HISTORY_MAX;
use windlass_core::model::{
    Attempt, AttemptEnd, AttemptFields, Continuation, DependencyCounts, Header, Job, JobError,
    PartSet, Parts, Running, State,
};
use windlass_core::policy::UniqueScope;
use windlass_core::random::Random;
use windlass_core::{JobId, Timestamp};

/// The lease of a running job.
#[derive(Clone, Debug)]
pub struct Leased {
    /// The token.
    pub lease: Lease,
    /// The session that holds it.
    pub session: SessionId,
    /// The number of the claim that issued it.
    pub claim_no: u64,
    /// The name of the worker.
    pub worker: String,
    /// The time at which it was issued.
    pub started_at: Timestamp,
}

/// A stored job.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The public job with all its parts; the history is in `past`, with its leases.
    pub job: Job,
    /// The order in which jobs entered their states; assigned anew each time the job enters one.
    pub seq: u64,
    /// The rank among ready jobs, assigned when the job becomes ready.
    pub rank: i64,
    /// The time at which the job became ready.
    pub ready_at: Timestamp,
    /// Whether the job holds its ordering key.
    pub holds_key: bool,
    /// The lease of a running job.
    pub leased: Option<Leased>,
    /// Ended attempts and their leases, so that a repeated settle is recognised.
    pub past: VecDeque<(Lease, Attempt)>,
}

impl Entry {
    /// A job that is not stored yet.
    pub fn new(job: Job) -> Self {
        Self {
            job,
            seq: 0,
            rank: 0,
            ready_at: Timestamp::EPOCH,
            holds_key: false,
            leased: None,
            past: VecDeque::new(),
        }
    }

    /// A job of another store, which is not stored yet. Its attempts get new leases, under which nothing was settled
    /// here.
    pub fn imported(mut job: Job, random: &dyn Random) -> Self {
        job.running = None;
        // Its dependents are in the other store.
        job.followed = false;
        let DependencyCounts { total, open, result_bytes, .. } = job.dependencies;
        job.dependencies = DependencyCounts { total, open, result_bytes, ..DependencyCounts::NONE };
        job.inputs.iter_mut().for_each(|input| input.kept = false);
        job.limits.clear();
        job.error = job.error.map(JobError::bounded);
        let history = std::mem::take(&mut job.history).into_iter();
        let past = history.map(|attempt| (Lease::random(random), attempt)).collect();
        job.waits = job.continuation.as_ref().is_some_and(|kept| kept.wait.is_some());
        Self { past, ..Self::new(job) }
    }

    /// What the job needs to continue after it has waited, if it has anything.
    pub fn continuation(&self) -> Option<&Continuation> {
        self.job.continuation.as_deref()
    }

    /// Changes what the job needs to continue.
    pub fn continue_with(&mut self, change: impl FnOnce(&mut Continuation)) {
        let mut continuation = self.job.continuation.take().unwrap_or_default();
        change(&mut continuation);
        self.job.waits = continuation.wait.is_some();
        self.job.continuation = Some(continuation).filter(|kept| **kept != Continuation::default());
    }

    /// The id of the job.
    pub const fn id(&self) -> JobId {
        self.job.header.id
    }

    /// The current lease, if its token is `lease`.
    pub fn leased_under(&self, lease: &Lease) -> Option<&Leased> {
        self.leased.as_ref().filter(|leased| leased.lease == *lease)
    }

    /// How the attempt under `lease` was settled, if it was and the history still contains it.
    pub fn settled_under(&self, lease: &Lease) -> Option<AttemptEnd> {
        let found = self.past.iter().find(|(past, _)| past == lease);
        found.map(|(_, attempt)| attempt.end).filter(|end| *end != AttemptEnd::Lost)
    }

    /// Ends the lease and adds the attempt to the history.
    pub fn end_attempt(&mut self, end: AttemptEnd, error: Option<JobError>, now: Timestamp) {
        let Some(leased) = self.leased.take() else { return };
        if error.is_some() {
            self.job.error.clone_from(&error);
        }
        if self.past.len() == HISTORY_MAX {
            self.past.pop_front();
        }
        let attempt = AttemptFields {
            number: self.job.header.counters.attempt,
            worker: leased.worker,
            started_at: leased.started_at,
            ended_at: now,
            end,
            error,
        };
        self.past.push_back((leased.lease, attempt.into()));
    }

    /// Clears the traces of the life that ended: budgets, outcome, cancellation request, signals.
    pub fn start_over(&mut self) {
        let job = &mut self.job;
        job.header.counters.failures = 0;
        job.header.counters.crashes = 0;
        (job.finish, job.finished_at) = (None, None);
        job.cancel_requested = false;
        self.continue_with(Continuation::start_over);
    }

    /// The job with the parts in `set`, and its history.
    pub fn view(&self, set: PartSet) -> Job {
        let mut job = self.summary();
        job.parts = self.job.parts.only(set);
        job.history = self.past.iter().map(|(_, attempt)| attempt.clone()).collect();
        job.log.clone_from(&self.job.log);
        job.continuation.clone_from(&self.job.continuation);
        job
    }

    /// The current attempt. Its session adds the host and the expiry of the lease.
    fn running(&self, leased: &Leased) -> Running {
        let attempt = self.job.header.counters.attempt;
        let (session, worker) = (leased.session.clone(), leased.worker.clone());
        Running::new(session, worker, attempt, leased.started_at)
    }

    /// The job without parts, history and log.
    pub fn summary(&self) -> Job {
        let mut job = Job::new(self.job.header.clone(), self.job.state, Parts::default());
        job.started_at = self.job.started_at;
        job.running = self.leased.as_ref().map(|leased| self.running(leased));
        job.transitions = self.job.transitions;
        job.changed_at = self.job.changed_at;
        job.finished_at = self.job.finished_at;
        job.finish.clone_from(&self.job.finish);
        job.cancel_requested = self.job.cancel_requested;
        job.waits = self.job.waits;
        (job.dependencies, job.followed) = (self.job.dependencies, self.job.followed);
        job.limits.clone_from(&self.job.limits);
        job.progress.clone_from(&self.job.progress);
        job.result.clone_from(&self.job.result);
        job.error.clone_from(&self.job.error);
        job
    }

    /// The job as it is handed to its worker.
    pub fn claimed(&self, set: PartSet) -> Option<ClaimedJob> {
        let leased = self.leased.as_ref()?;
        Some(ClaimedJob::new(
            self.job.header.clone(),
            leased.lease.clone(),
            leased.started_at,
            self.job.parts.only(set),
        ))
    }

    /// The slot of the job's unique key.
    pub fn unique_slot(&self) -> Option<UniqueSlot> {
        self.unique_slot_in(&self.job.header.queue)
    }

    /// The slot that the job's unique key has if the job is in this queue.
    pub fn unique_slot_in(&self, queue: &str) -> Option<UniqueSlot> {
        let header = &self.job.header;
        let unique = header.unique.as_ref()?;
        Some(UniqueSlot::new(unique.scope, queue, &header.kind, &unique.key))
    }

    /// The unique key that an imported job which is in `state` now still holds, counted from its creation.
    pub(crate) fn kept_unique(
        &self,
        state: Option<State>,
        now: Timestamp,
    ) -> Option<(UniqueSlot, UniqueHold)> {
        let header = &self.job.header;
        let until = header.unique.as_ref()?.until.taken_at(header.created_at);
        let holds = match until {
            None => !state.is_some_and(State::is_terminal),
            Some(until) => now < until,
        };
        Some((self.unique_slot()?, UniqueHold { holder: header.id, until })).filter(|_| holds)
    }

    /// Contradictions within the job, one sentence each.
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

    /// Whether the job is in line for its ordering key. A job with open dependencies is not: a job ahead of it in line may
    /// depend on one behind.
    pub fn in_line(&self) -> bool {
        self.job.state == State::Blocked
            && self.job.header.key.is_some()
            && !self.holds_key
            && self.job.dependencies.open == 0
    }

    /// Whether the job is in the line of its group, waiting for a limit.
    pub fn in_group_line(&self) -> bool {
        self.job.state == State::Blocked && !self.job.limits.is_empty()
    }

    /// The place of the job in the line of its group.
    pub const fn line_place(&self) -> LinePlace {
        let Header { priority, run_at, .. } = self.job.header;
        LinePlace { priority, run_at, seq: self.seq }
    }
}

/// The scope and value of a unique key; an empty name stands for any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UniqueSlot {
    /// The queue that the key is unique in.
    pub queue: String,
    /// The kind that the key is unique in.
    pub kind: String,
    /// The key.
    pub key: String,
}

impl UniqueSlot {
    /// The slot of a key.
    pub fn new(scope: UniqueScope, queue: &str, kind: &str, key: &str) -> Self {
        let (queue, kind) = scope.of(queue, kind);
        Self { queue: queue.to_owned(), kind: kind.to_owned(), key: key.to_owned() }
    }
}
