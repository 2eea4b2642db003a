//! A stored job.

use super::{
    Attempt, Continuation, DependencyCounts, Input, JobError, LogLine, Name, Part, Parts, Policy,
    Progress, State,
};
use crate::engine::SessionId;
use crate::growing::growing;
use crate::id::JobId;
use crate::limits::SUSPECT_CRASHES;
use crate::policy::Unique;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The three counters of a job. They saturate, so that an overflow can never stop a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Number of starts; never decreases.
    pub attempt: u32,
    /// Number of reported errors and timeouts; compared with `max_attempts`, and determines the backoff.
    pub failures: u32,
    /// Number of leases lost since a handler last reported an outcome; compared with `max_crashes`.
    pub crashes: u32,
}

impl Counters {
    /// Whether the job has crashed so often that it must run alone.
    pub const fn is_suspect(self) -> bool {
        self.crashes >= SUSPECT_CRASHES
    }

    /// Whether one more reported failure uses up the attempts.
    pub const fn failure_spends(self, policy: &Policy) -> bool {
        self.failures.saturating_add(1) >= policy.max_attempts
    }

    /// Whether one more lost lease uses up the allowed crashes.
    pub const fn crash_spends(self, policy: &Policy) -> bool {
        self.crashes.saturating_add(1) > policy.max_crashes
    }
}

growing! {
    /// The fields that identify and describe a job; everything but its parts and its runtime state.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Header as HeaderFields {
        /// Its identity.
        pub id: JobId,
        /// Its queue.
        pub queue: Name,
        /// Its kind.
        pub kind: Name,
        /// Lower runs first.
        pub priority: i32,
        /// When the job is due; of an ended job, when it was due for its last attempt.
        pub run_at: Timestamp,
        /// When it was enqueued.
        pub created_at: Timestamp,
        /// The tenant that the job belongs to.
        pub tenant: Option<String>,
        /// Its ordering key.
        pub key: Option<String>,
        /// The group in which limits count it; `None`: its tenant.
        pub group: Option<String>,
        /// The tokens that its start takes from the rates of its limits.
        pub cost: u32,
        /// Its uniqueness rule.
        pub unique: Option<Unique>,
        /// The job that created it.
        pub parent: Option<JobId>,
        /// The flow that it belongs to.
        pub flow: Option<Name>,
        /// Its tags.
        pub tags: Vec<String>,
        /// Trace context.
        pub trace: Option<String>,
        /// Its policy.
        pub policy: Policy,
        /// Starts, failures and crashes.
        pub counters: Counters,
    }
}

impl Header {
    /// A job that is due when it is created, with default values.
    pub fn new(
        id: JobId,
        queue: impl Into<Name>,
        kind: impl Into<Name>,
        created_at: Timestamp,
    ) -> Self {
        Self {
            id,
            queue: queue.into(),
            kind: kind.into(),
            priority: 0,
            run_at: created_at,
            created_at,
            tenant: None,
            key: None,
            group: None,
            cost: 1,
            unique: None,
            parent: None,
            flow: None,
            tags: Vec::new(),
            trace: None,
            policy: Policy::default(),
            counters: Counters::default(),
        }
    }

    /// The group in which limits count the job: its own, its tenant, or one for all jobs without either.
    pub fn limit_group(&self) -> &str {
        self.group.as_deref().or(self.tenant.as_deref()).unwrap_or_default()
    }
}

/// Why a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finish {
    /// A handler completed it.
    Completed,
    /// A handler reported a fatal error.
    Failed,
    /// Its attempts are used up.
    AttemptsSpent,
    /// It lost more leases than allowed.
    CrashesSpent,
    /// It was cancelled.
    Cancelled,
    /// A newer job with the same unique key replaced it.
    ReplacedBy(JobId),
    /// It waited longer than its `max_wait`.
    Expired,
    /// An operator ended it as dead.
    Killed,
    /// A job that it depends on ended without being completed.
    Dependency(JobId),
}

/// The current attempt of a running job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Running {
    /// The session that holds its lease.
    pub session: SessionId,
    /// The label of the worker.
    pub worker: String,
    /// The host of the worker, if the worker sent it.
    pub host: Option<String>,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// When the lease expires unless the worker extends it.
    pub expires_at: Timestamp,
}

impl Running {
    /// An attempt of a worker whose host is not known.
    pub const fn new(
        session: SessionId,
        worker: String,
        attempt: u32,
        expires_at: Timestamp,
    ) -> Self {
        Self { session, worker, host: None, attempt, expires_at }
    }
}

/// A job with everything that the store knows about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Job {
    /// The header.
    pub header: Header,
    /// The current state.
    pub state: State,
    /// The requested parts.
    pub parts: Parts,
    /// When its latest attempt started.
    pub started_at: Option<Timestamp>,
    /// Its current attempt, while it runs.
    pub running: Option<Running>,
    /// Number of times that it entered a state, with the enqueue as the first; saturates.
    pub transitions: u32,
    /// When it entered its state.
    pub changed_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Why it ended.
    pub finish: Option<Finish>,
    /// Whether cancellation was requested while it ran.
    pub cancel_requested: bool,
    /// Whether it waits for a signal.
    pub waits: bool,
    /// The signals that it waits for or has received, if there are any.
    pub continuation: Option<Box<Continuation>>,
    /// Its dependencies, counted.
    pub dependencies: DependencyCounts,
    /// Whether other jobs depend on it and have not learned how it ended.
    pub followed: bool,
    /// The limits that it waits for, if it is blocked; that let it become ready, if it is available; that count it, if
    /// it runs.
    pub limits: Vec<Name>,
    /// Its progress.
    pub progress: Option<Progress>,
    /// Its result.
    pub result: Option<Part>,
    /// The latest error.
    pub error: Option<JobError>,
    /// Its dependencies, in the order of its definition.
    pub inputs: Vec<Input>,
    /// The latest ended attempts, oldest first.
    pub history: Vec<Attempt>,
    /// The latest log lines, oldest first.
    pub log: Vec<LogLine>,
}

impl Job {
    /// A new job described by `header`, without any attempts, which has not entered a state yet.
    pub const fn new(header: Header, state: State, parts: Parts) -> Self {
        let changed_at = header.created_at;
        Self {
            header,
            state,
            parts,
            started_at: None,
            running: None,
            transitions: 0,
            changed_at,
            finished_at: None,
            finish: None,
            cancel_requested: false,
            waits: false,
            continuation: None,
            dependencies: DependencyCounts::NONE,
            followed: false,
            limits: Vec::new(),
            progress: None,
            result: None,
            error: None,
            inputs: Vec::new(),
            history: Vec::new(),
            log: Vec::new(),
        }
    }

    /// Whether it has ended, and maintenance has work with its dependencies: its dependents have not all learned it, or it
    /// keeps jobs whose results it could read.
    pub const fn is_unresolved(&self) -> bool {
        self.state.is_terminal() && (self.followed || self.dependencies.kept > 0)
    }

    /// Whether it has ended and stays beyond its retention, because dependents read its result from it.
    pub const fn is_read(&self) -> bool {
        self.state.is_terminal() && self.dependencies.readers > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_at_their_end_decide_as_before_and_do_not_overflow() {
        let full = Counters { attempt: u32::MAX, failures: u32::MAX, crashes: u32::MAX };
        let policy = Policy::default();
        assert!(full.is_suspect() && full.failure_spends(&policy) && full.crash_spends(&policy));
        let endless = Policy { max_attempts: u32::MAX, max_crashes: u32::MAX, ..Policy::default() };
        assert!(full.failure_spends(&endless), "attempts end all the same");
        assert!(!full.crash_spends(&endless));
    }
}
