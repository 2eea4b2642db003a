//! What can happen to a job.

use std::fmt;

/// An event of the state machine, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// A producer hands it over.
    Enqueue,
    /// Its time has come.
    Due,
    /// What it waited for, or its ordering key, may have become free.
    Free,
    /// A worker takes it.
    Claim,
    /// Its handler finished it.
    Complete,
    /// Its handler failed and wants another attempt.
    Retry,
    /// Its handler puts it off, no failure counted.
    Snooze,
    /// Its handler failed for good.
    Fail,
    /// Its worker gives it back unfinished, no failure counted.
    Release,
    /// Its handler waits for a signal or for children.
    Wait,
    /// Its handler ends it as cancelled.
    CancelSelf,
    /// Its lease was lost.
    Lose,
    /// Somebody calls it off, or a newer job replaces it.
    Cancel,
    /// It has waited longer than it may.
    Expire,
    /// An operator sets it aside.
    Pause,
    /// An operator takes it back.
    Resume,
    /// An operator lets it run now.
    Promote,
    /// Somebody moves its time.
    Reschedule,
    /// Somebody changes its priority.
    Reprioritise,
    /// The signal it waits, or will wait, for.
    Signal,
    /// An operator gives it another life.
    Replay,
    /// An operator throws it away.
    Discard,
    /// Its retention is over.
    Retain,
}

impl EventKind {
    /// All of them, in the order of a job's life.
    pub const ALL: [Self; 23] = [
        Self::Enqueue,
        Self::Due,
        Self::Free,
        Self::Claim,
        Self::Complete,
        Self::Retry,
        Self::Snooze,
        Self::Fail,
        Self::Release,
        Self::Wait,
        Self::CancelSelf,
        Self::Lose,
        Self::Cancel,
        Self::Expire,
        Self::Pause,
        Self::Resume,
        Self::Promote,
        Self::Reschedule,
        Self::Reprioritise,
        Self::Signal,
        Self::Replay,
        Self::Discard,
        Self::Retain,
    ];

    /// Whether it ends an attempt.
    pub const fn is_report(self) -> bool {
        matches!(
            self,
            Self::Complete
                | Self::Retry
                | Self::Snooze
                | Self::Fail
                | Self::Release
                | Self::Wait
                | Self::CancelSelf
                | Self::Lose
        )
    }

    /// The verb, as it reads in a message: `it cannot be cancelled`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enqueue => "be enqueued",
            Self::Due => "become due",
            Self::Free => "be freed",
            Self::Claim => "be claimed",
            Self::Complete => "complete",
            Self::Retry => "retry",
            Self::Snooze => "be snoozed",
            Self::Fail => "fail",
            Self::Release => "be released",
            Self::Wait => "wait",
            Self::CancelSelf => "cancel itself",
            Self::Lose => "lose its lease",
            Self::Cancel => "be cancelled",
            Self::Expire => "expire",
            Self::Pause => "be paused",
            Self::Resume => "be resumed",
            Self::Promote => "be promoted",
            Self::Reschedule => "be rescheduled",
            Self::Reprioritise => "be reprioritised",
            Self::Signal => "be signalled",
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
