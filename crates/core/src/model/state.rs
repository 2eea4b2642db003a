//! The states of a job. How it moves between them is [`crate::machine`]'s business.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a job stands. It is in exactly one of these, in every store, at every instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waits for its `run_at`.
    Scheduled,
    /// Due, but waits for something other than time: dependencies, a signal, its ordering key.
    Blocked,
    /// Ready: the next claim of its lane may take it.
    Available,
    /// Leased to a worker.
    Running,
    /// Set aside by an operator, this job only.
    Paused,
    /// Done.
    Completed,
    /// Failed for good; kept apart as a dead letter until its own retention ends.
    Dead,
    /// Called off, or replaced by another job.
    Cancelled,
    /// Waited longer than its `max_wait`.
    Expired,
}

impl State {
    /// All of them, in the order of a job's life.
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

    /// Whether nothing more will happen to the job by itself.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Dead | Self::Cancelled | Self::Expired)
    }

    /// Whether the job waits for its start and counts as depth.
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
