//! A job as a store knows it.

use super::{Attempt, JobError, LogLine, Name, Part, Parts, Policy, Progress, State};
use crate::id::JobId;
use crate::limits::SUSPECT_CRASHES;
use crate::policy::Unique;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The three counters. All of them saturate: no count of anything may ever stop a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Starts; never decreases.
    pub attempt: u32,
    /// Reported errors and timeouts; compared with `max_attempts` and drives the backoff.
    pub failures: u32,
    /// Leases lost since a handler last reported an outcome; compared with `max_crashes`.
    pub crashes: u32,
}

impl Counters {
    /// Whether the job has crashed often enough to run alone.
    pub const fn is_suspect(self) -> bool {
        self.crashes >= SUSPECT_CRASHES
    }

    /// Whether one more reported failure uses up the attempts.
    pub const fn failure_spends(self, policy: &Policy) -> bool {
        self.failures.saturating_add(1) >= policy.max_attempts
    }

    /// Whether one more lost lease uses up the crash budget.
    pub const fn crash_spends(self, policy: &Policy) -> bool {
        self.crashes.saturating_add(1) > policy.max_crashes
    }
}

/// What identifies and describes a job, wherever it is shown or handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its identity.
    pub id: JobId,
    /// Its queue.
    pub queue: Name,
    /// Its kind.
    pub kind: Name,
    /// Lower runs first.
    pub priority: i32,
    /// When it is, or was, due.
    pub run_at: Timestamp,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// Whose work it is.
    pub tenant: Option<String>,
    /// Its ordering key.
    pub key: Option<String>,
    /// How it is unique.
    pub unique: Option<Unique>,
    /// The job it came from.
    pub parent: Option<JobId>,
    /// Labels.
    pub tags: Vec<String>,
    /// Trace context.
    pub trace: Option<String>,
    /// How it wants to be treated.
    pub policy: Policy,
    /// Starts, failures, crashes.
    pub counters: Counters,
}

/// Why a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Finish {
    /// A handler completed it.
    Completed,
    /// A handler reported that it can never succeed.
    Failed,
    /// Its attempts are used up.
    AttemptsSpent,
    /// Workers died on it too often.
    CrashesSpent,
    /// Somebody called it off.
    Cancelled,
    /// A newer job with the same unique key took its place.
    ReplacedBy(JobId),
    /// It waited longer than its `max_wait`.
    Expired,
}

/// A job with everything the store knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Job {
    /// What describes it.
    pub header: Header,
    /// Where it stands.
    pub state: State,
    /// The parts that were asked for.
    pub parts: Parts,
    /// When its latest attempt started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Why it ended.
    pub finish: Option<Finish>,
    /// Whether somebody asked to cancel it while it ran.
    pub cancel_requested: bool,
    /// How far it has come.
    pub progress: Option<Progress>,
    /// What it produced.
    pub result: Option<Part>,
    /// The latest error.
    pub error: Option<JobError>,
    /// The latest attempts that ended, oldest first.
    pub history: Vec<Attempt>,
    /// The latest log lines, oldest first.
    pub log: Vec<LogLine>,
}

impl Job {
    /// A job just described by `header`: nothing has happened to it yet.
    pub const fn new(header: Header, state: State, parts: Parts) -> Self {
        Self {
            header,
            state,
            parts,
            started_at: None,
            finished_at: None,
            finish: None,
            cancel_requested: false,
            progress: None,
            result: None,
            error: None,
            history: Vec::new(),
            log: Vec::new(),
        }
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
