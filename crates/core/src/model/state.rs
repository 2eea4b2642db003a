//! The states of a job. The transitions between them are in [`crate::machine`].

use serde::{Deserialize, Serialize};
use std::fmt;

/// The state of a job. A job is in exactly one of these at any time, in every store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum State {
    /// Waits for its `run_at`.
    Scheduled,
    /// Due, but waits for something other than time: dependencies, a signal, its ordering key.
    Blocked,
    /// Ready to be claimed.
    Available,
    /// Leased to a worker.
    Running,
    /// Paused individually by an operator.
    Paused,
    /// Completed.
    Completed,
    /// Failed permanently; kept as a dead job with a retention of its own.
    Dead,
    /// Cancelled, or replaced by another job.
    Cancelled,
    /// Waited longer than its `max_wait`.
    Expired,
}

/// Where a store keeps the jobs of a state. Stores match on it, because it changes less often than the states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// By due time.
    Scheduled,
    /// In its lane, ready to be claimed.
    Ready,
    /// In no order: jobs that wait for something other than time or a worker.
    Aside,
    /// With its lease.
    Leased,
    /// With the jobs that have ended.
    Ended,
}

impl State {
    /// All states, in the order of a job's life.
    pub const ALL: [Self; 9] = [
        Self::Scheduled,
        Self::Blocked,
        Self::Available,
        Self::Running,
        Self::Paused,
        Self::Completed,
        Self::Dead,
        Self::Cancelled,
        Self::Expired,
    ];

    /// Where stores keep jobs in this state.
    pub const fn placement(self) -> Placement {
        match self {
            Self::Scheduled => Placement::Scheduled,
            Self::Available => Placement::Ready,
            Self::Blocked | Self::Paused => Placement::Aside,
            Self::Running => Placement::Leased,
            Self::Completed | Self::Dead | Self::Cancelled | Self::Expired => Placement::Ended,
        }
    }

    /// Whether the job has ended: it changes only if an operator acts.
    pub const fn is_terminal(self) -> bool {
        matches!(self.placement(), Placement::Ended)
    }

    /// Whether the job waits to be started and counts as depth.
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::Scheduled | Self::Blocked | Self::Available | Self::Paused)
    }

    /// The name on the wire and in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Blocked => "blocked",
            Self::Available => "available",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
