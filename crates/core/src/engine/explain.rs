//! Why a job is not running: an explanation with all its causes.

mod wording;

use crate::growing::growing;
use crate::id::JobId;
use crate::model::{Finish, JobError, Name, State};
use crate::time::Timestamp;
use std::fmt;

/// The type of a cause. Waiting jobs have one or several causes, running and ended jobs one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CauseCode {
    /// An operator paused the job.
    JobPaused,
    /// The job is not due yet.
    NotDue,
    /// The job is due, and no service has promoted it yet.
    NotPromoted,
    /// The job waits for a signal.
    Signal,
    /// The job depends on jobs that have not ended.
    Dependency,
    /// Another job holds the ordering key, or is ahead in line for it.
    Key,
    /// A limit has no room.
    Limit,
    /// A report of a worker holds a limit.
    LimitHeld,
    /// The queue is paused.
    QueuePaused,
    /// A report of a worker holds the queue.
    QueueHeld,
    /// The kind is paused.
    KindPaused,
    /// The kind has no permits left, or fewer than jobs are ahead.
    Permits,
    /// The kind has no permits left because its circuit breaker is open.
    BreakerOpen,
    /// No worker with an open session serves the queue and the kind.
    NoWorker,
    /// The job is ready, and a worker must claim it.
    InLine,
    /// A worker runs the job.
    Running,
    /// The job has ended.
    Ended,
}

impl CauseCode {
    /// All codes.
    pub const ALL: [Self; 17] = [
        Self::JobPaused,
        Self::NotDue,
        Self::NotPromoted,
        Self::Signal,
        Self::Dependency,
        Self::Key,
        Self::Limit,
        Self::LimitHeld,
        Self::QueuePaused,
        Self::QueueHeld,
        Self::KindPaused,
        Self::Permits,
        Self::BreakerOpen,
        Self::NoWorker,
        Self::InLine,
        Self::Running,
        Self::Ended,
    ];

    /// The name on the wire and in the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::JobPaused => "job_paused",
            Self::NotDue => "not_due",
            Self::NotPromoted => "not_promoted",
            Self::Signal => "signal",
            Self::Dependency => "dependency",
            Self::Key => "key",
            Self::Limit => "limit",
            Self::LimitHeld => "limit_held",
            Self::QueuePaused => "queue_paused",
            Self::QueueHeld => "queue_held",
            Self::KindPaused => "kind_paused",
            Self::Permits => "permits",
            Self::BreakerOpen => "breaker_open",
            Self::NoWorker => "no_worker",
            Self::InLine => "in_line",
            Self::Running => "running",
            Self::Ended => "ended",
        }
    }

    /// The code with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == name)
    }
}

impl fmt::Display for CauseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

growing! {
    /// One cause of a job's state. Fields that do not apply to its code are `None`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Cause as CauseFields {
        /// Its type.
        pub code: CauseCode,
        /// Since when it applies: the start of the attempt, the end of the job, the opening of the breaker, the time
        /// since which the job is in its state.
        pub since: Option<Timestamp>,
        /// When it ends by itself: the due time, the end of a hold, the time at which a limit has room again unless
        /// other jobs take it first, the next probe of the breaker, the end of the lease.
        pub until: Option<Timestamp>,
        /// The ordering key.
        pub key: Option<String>,
        /// The name of the limit.
        pub limit: Option<Name>,
        /// The group in which the limit counts the job; `None` for a limit over all jobs.
        pub group: Option<String>,
        /// The signals of which the job waits for one; none: it waits for any.
        pub signals: Vec<Name>,
        /// Dependencies on jobs that have not ended.
        pub dependencies: Option<u32>,
        /// The job that holds the ordering key, that is first in line for the key or the limit, or that is the first
        /// dependency that has not ended.
        pub holder: Option<JobId>,
        /// The state of that job.
        pub holder_state: Option<State>,
        /// Running jobs that the limit counts.
        pub running: Option<u64>,
        /// The maximum of them.
        pub max_running: Option<u32>,
        /// Tokens that jobs could take from the limit now.
        pub tokens: Option<u64>,
        /// Tokens that the start of the job takes.
        pub cost: Option<u32>,
        /// Jobs of the kind that may still start.
        pub permits: Option<u32>,
        /// Ready jobs of the same queue and kind that are claimed first.
        pub ahead: Option<u64>,
        /// Whether `ahead` is a lower bound, because it is
        /// [`AHEAD_COUNTED_MAX`](crate::limits::AHEAD_COUNTED_MAX).
        pub at_least: bool,
        /// Workers with an open session: that serve the queue if no worker has the kind, otherwise that serve both.
        pub workers: Option<u64>,
        /// The worker that runs the job.
        pub worker: Option<String>,
        /// The host of that worker, if the worker sent it.
        pub host: Option<String>,
        /// Whether cancellation of the running job was requested.
        pub cancel_requested: bool,
        /// Why the job ended.
        pub finish: Option<Finish>,
        /// The latest error of a job that waits for a retry or is dead.
        pub error: Option<JobError>,
    }
}

impl Cause {
    /// A cause without details.
    pub const fn new(code: CauseCode) -> Self {
        Self {
            code,
            since: None,
            until: None,
            key: None,
            limit: None,
            group: None,
            signals: Vec::new(),
            dependencies: None,
            holder: None,
            holder_state: None,
            running: None,
            max_running: None,
            tokens: None,
            cost: None,
            permits: None,
            ahead: None,
            at_least: false,
            workers: None,
            worker: None,
            host: None,
            cancel_requested: false,
            finish: None,
            error: None,
        }
    }

    /// Sets since when it applies.
    #[must_use]
    pub fn since(mut self, at: impl Into<Option<Timestamp>>) -> Self {
        self.since = at.into();
        self
    }

    /// Sets when it ends by itself.
    #[must_use]
    pub fn until(mut self, at: impl Into<Option<Timestamp>>) -> Self {
        self.until = at.into();
        self
    }
}

growing! {
    /// Why a job is not running.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Explanation as ExplanationFields {
        /// The job.
        pub id: JobId,
        /// Its queue.
        pub queue: Name,
        /// Its kind.
        pub kind: Name,
        /// Its state.
        pub state: State,
        /// The causes of its state, in the order in which they must end before the job starts. Never empty.
        pub causes: Vec<Cause>,
    }
}

impl Explanation {
    /// The explanation of a job in this state.
    pub const fn new(id: JobId, queue: Name, kind: Name, state: State, causes: Vec<Cause>) -> Self {
        Self { id, queue, kind, state, causes }
    }

    /// The cause with this code, if the job has it. Of several limits, the first.
    pub fn cause(&self, code: CauseCode) -> Option<&Cause> {
        self.causes.iter().find(|cause| cause.code == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_code_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = CauseCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(names.len(), CauseCode::ALL.len());
        for code in CauseCode::ALL {
            assert_eq!(CauseCode::named(code.as_str()), Some(code));
        }
        assert_eq!(CauseCode::named("weather"), None);
    }
}
