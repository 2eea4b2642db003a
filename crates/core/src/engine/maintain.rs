//! Maintenance of a store in bounded steps.

use crate::error::{Result, within_range};
use crate::growing::growing;
use crate::limits::{AGE_MAX_MS, MAINTAIN_BUDGET_MAX, REMOVED_KEPT_DEFAULT_MS};
use crate::model::{Name, State};
use crate::time::{HOUR_MS, Timestamp};
use std::fmt;

/// A type of maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Work {
    /// Promote jobs that have become due.
    Promote,
    /// Reclaim the jobs of lost sessions. Not before the store itself has been up for the length of a lease:
    /// an outage of the store must not count as a crash of all workers.
    Reclaim,
    /// Expire jobs that waited longer than allowed.
    Expire,
    /// Remove jobs whose retention is over.
    Retain,
    /// Free space where the engine needs it, and delete obsolete data such as unique keys past their window.
    Compact,
}

impl Work {
    /// All types of maintenance.
    pub const ALL: [Self; 5] =
        [Self::Promote, Self::Reclaim, Self::Expire, Self::Retain, Self::Compact];
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Promote => "promote",
            Self::Reclaim => "reclaim",
            Self::Expire => "expire",
            Self::Retain => "retain",
            Self::Compact => "compact",
        })
    }
}

/// A request for one step.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MaintainRequest {
    /// The type of maintenance.
    pub work: Work,
    /// Maximum number of items to process.
    pub budget: u32,
    /// How long the history of removed jobs is kept; compaction deletes older hours.
    pub removed_kept_ms: u64,
}

impl MaintainRequest {
    /// A step of `work`.
    pub const fn new(work: Work, budget: u32) -> Self {
        Self { work, budget, removed_kept_ms: REMOVED_KEPT_DEFAULT_MS }
    }

    /// Sets how long the history of removed jobs is kept.
    #[must_use]
    pub const fn removed_kept_ms(mut self, ms: u64) -> Self {
        self.removed_kept_ms = ms;
        self
    }

    /// Validates the request.
    pub fn check(&self) -> Result<()> {
        within_range("budget", self.budget.into(), 1..=MAINTAIN_BUDGET_MAX.into())?;
        within_range("removed_kept_ms", self.removed_kept_ms, HOUR_MS..=AGE_MAX_MS)
    }
}

growing! {
    /// Number of jobs of a queue that a step moved to another state or removed.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Tally as TallyFields {
        /// The queue.
        pub queue: Name,
        /// Their previous state.
        pub from: State,
        /// Their new state; `None` if they were removed.
        pub to: Option<State>,
        /// Number of jobs.
        pub count: u64,
    }
}

impl Tally {
    /// Counts jobs that were moved, or removed if `to` is `None`.
    pub const fn new(queue: Name, from: State, to: Option<State>, count: u64) -> Self {
        Self { queue, from, to, count }
    }
}

/// The result of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MaintainReply {
    /// Number of items processed, at most the budget.
    pub done: u32,
    /// Whether more work is left because the budget was used up, even if this step only scanned.
    pub more: bool,
    /// When the next item becomes due, as far as known.
    pub next_at: Option<Timestamp>,
    /// State changes by queue, for history and counters.
    pub tallies: Vec<Tally>,
}

impl MaintainReply {
    /// Counts one job that was moved or removed.
    pub fn count(&mut self, queue: &Name, from: State, to: Option<State>) {
        self.add(Tally { queue: queue.clone(), from, to, count: 1 });
    }

    /// Adds jobs that were counted elsewhere.
    pub fn add(&mut self, tally: Tally) {
        let Tally { queue, from, to, count } = &tally;
        let same = |t: &&mut Tally| t.queue == *queue && t.from == *from && t.to == *to;
        match self.tallies.iter_mut().find(same) {
            Some(other) => other.count += count,
            None => self.tallies.push(tally),
        }
    }
}

growing! {
    /// An inconsistency.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Finding as FindingFields {
        /// Description, with the affected job or key.
        pub what: String,
        /// Whether it was repaired.
        pub repaired: bool,
    }
}

impl Finding {
    /// An inconsistency that was found, and perhaps repaired.
    pub const fn new(what: String, repaired: bool) -> Self {
        Self { what, repaired }
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Number of jobs checked.
    pub jobs: u64,
    /// The inconsistencies found.
    pub findings: Vec<Finding>,
}
