//! The events of the state machine.

use crate::model::{AttemptEnd, Counters, Policy, State};
use std::fmt;

/// An event of the state machine, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// A producer enqueues the job.
    Enqueue,
    /// An operator imports the job from another store.
    Import,
    /// The job's time has come.
    Due,
    /// The ordering key or the limit that the job is in line for may have become free, or the last of its dependencies has
    /// ended.
    Free,
    /// A limit by group refuses the start of the job.
    Defer,
    /// A worker claims the job.
    Claim,
    /// The handler completed the job.
    Complete,
    /// The handler failed and asks for another attempt.
    Retry,
    /// The handler postpones the job; no failure is counted.
    Snooze,
    /// The handler failed and asks for no further attempt.
    Fail,
    /// The worker returns the job unfinished; no failure is counted.
    Release,
    /// The handler waits for signals.
    Wait,
    /// The handler waits for jobs that it has created.
    WaitForJobs,
    /// The handler ends the job as cancelled.
    CancelSelf,
    /// The lease was lost.
    Lose,
    /// A client cancels the job, or a newer job replaces it.
    Cancel,
    /// The job has waited longer than its limit.
    Expire,
    /// An operator pauses the job.
    Pause,
    /// An operator resumes the job.
    Resume,
    /// An operator lets the job run now.
    Promote,
    /// A client changes the time at which the job runs.
    Reschedule,
    /// A client changes the priority.
    Reprioritise,
    /// An operator moves the job to another queue.
    Move,
    /// An operator ends the job as dead.
    Kill,
    /// A client sends a signal.
    Signal,
    /// A running job adds a dependency to the job.
    Join,
    /// An operator runs an ended job again, with fresh budgets.
    Replay,
    /// An operator removes an ended job.
    Discard,
    /// The retention of an ended job is over.
    Retain,
}

impl EventKind {
    /// Whether the event uses up the attempts or the crashes that the policy allows.
    pub const fn spends(self, counters: Counters, policy: &Policy) -> bool {
        match self {
            Self::Retry => counters.failure_spends(policy),
            Self::Lose => counters.crash_spends(policy),
            _ => false,
        }
    }

    /// All events, in the order of a job's life.
    pub const ALL: [Self; 29] = [
        Self::Enqueue,
        Self::Import,
        Self::Due,
        Self::Free,
        Self::Defer,
        Self::Claim,
        Self::Complete,
        Self::Retry,
        Self::Snooze,
        Self::Fail,
        Self::Release,
        Self::Wait,
        Self::WaitForJobs,
        Self::CancelSelf,
        Self::Lose,
        Self::Cancel,
        Self::Expire,
        Self::Pause,
        Self::Resume,
        Self::Promote,
        Self::Reschedule,
        Self::Reprioritise,
        Self::Move,
        Self::Kill,
        Self::Signal,
        Self::Join,
        Self::Replay,
        Self::Discard,
        Self::Retain,
    ];

    /// Whether the event ends an attempt.
    pub const fn is_report(self) -> bool {
        matches!(
            self,
            Self::Complete
                | Self::Retry
                | Self::Snooze
                | Self::Fail
                | Self::Release
                | Self::Wait
                | Self::WaitForJobs
                | Self::CancelSelf
                | Self::Lose
        )
    }

    /// How the history records an attempt that this event ends, if the job is in state `next` afterwards.
    ///
    /// A failure counts as a retry only if the job runs again.
    pub const fn attempt_end(self, next: Option<State>) -> AttemptEnd {
        match (self, next) {
            (Self::Complete, _) => AttemptEnd::Complete,
            (Self::Retry, Some(next)) if !next.is_terminal() => AttemptEnd::Retry,
            (Self::Retry | Self::Fail, _) => AttemptEnd::Fail,
            (Self::Snooze, _) => AttemptEnd::Snooze,
            (Self::Release, _) => AttemptEnd::Release,
            (Self::Wait | Self::WaitForJobs, _) => AttemptEnd::Wait,
            (Self::CancelSelf, _) => AttemptEnd::Cancel,
            _ => AttemptEnd::Lost,
        }
    }

    /// The name of the event in data, such as `wait_for_jobs`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::Import => "import",
            Self::Due => "due",
            Self::Free => "free",
            Self::Defer => "defer",
            Self::Claim => "claim",
            Self::Complete => "complete",
            Self::Retry => "retry",
            Self::Snooze => "snooze",
            Self::Fail => "fail",
            Self::Release => "release",
            Self::Wait => "wait",
            Self::WaitForJobs => "wait_for_jobs",
            Self::CancelSelf => "cancel_self",
            Self::Lose => "lose",
            Self::Cancel => "cancel",
            Self::Expire => "expire",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Promote => "promote",
            Self::Reschedule => "reschedule",
            Self::Reprioritise => "reprioritise",
            Self::Move => "move",
            Self::Kill => "kill",
            Self::Signal => "signal",
            Self::Join => "join",
            Self::Replay => "replay",
            Self::Discard => "discard",
            Self::Retain => "retain",
        }
    }

    /// The event with this [name](Self::name).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }

    /// The verb for messages of the form `it cannot be cancelled`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enqueue => "be enqueued",
            Self::Import => "be imported",
            Self::Due => "become due",
            Self::Free => "be freed",
            Self::Defer => "be deferred",
            Self::Claim => "be claimed",
            Self::Complete => "complete",
            Self::Retry => "retry",
            Self::Snooze => "be snoozed",
            Self::Fail => "fail",
            Self::Release => "be released",
            Self::Wait => "wait",
            Self::WaitForJobs => "wait for jobs",
            Self::CancelSelf => "cancel itself",
            Self::Lose => "lose its lease",
            Self::Cancel => "be cancelled",
            Self::Expire => "expire",
            Self::Pause => "be paused",
            Self::Resume => "be resumed",
            Self::Promote => "be promoted",
            Self::Reschedule => "be rescheduled",
            Self::Reprioritise => "be reprioritised",
            Self::Move => "be moved to another queue",
            Self::Kill => "be killed",
            Self::Signal => "be signalled",
            Self::Join => "wait for more jobs",
            Self::Replay => "be replayed",
            Self::Discard => "be discarded",
            Self::Retain => "be removed by retention",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
