//! Keeping a store in order, one bounded step at a time.

use crate::error::{Result, within_range};
use crate::limits::MAINTAIN_BUDGET_MAX;
use crate::model::{Name, State};
use crate::time::Timestamp;
use std::fmt;

/// A kind of maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Work {
    /// Move jobs whose time has come on their way.
    Promote,
    /// Take back what lost sessions held. Not before the store itself has been up for the length of
    /// a lease: an outage is not a mass crash.
    Reclaim,
    /// End what waited longer than it may.
    Expire,
    /// Remove what is past its retention.
    Retain,
    /// Give space back, wherever the engine needs help with it, and forget what has no meaning any
    /// more, such as unique keys past their window.
    Compact,
}

impl Work {
    /// All of them.
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

/// One step.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MaintainRequest {
    /// Of which work.
    pub work: Work,
    /// Touching at most so many items.
    pub budget: u32,
}

impl MaintainRequest {
    /// A step of `work`.
    pub const fn new(work: Work, budget: u32) -> Self {
        Self { work, budget }
    }

    /// Whether it is acceptable.
    pub fn check(&self) -> Result<()> {
        within_range("budget", self.budget.into(), 1..=MAINTAIN_BUDGET_MAX.into())
    }
}

/// How many jobs of a queue a step moved to a state; `None`: removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The queue.
    pub queue: Name,
    /// The state they were in.
    pub from: State,
    /// The state they are in; `None` if they are gone.
    pub to: Option<State>,
    /// How many.
    pub count: u64,
}

/// What a step did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MaintainReply {
    /// Items touched, never more than the budget.
    pub done: u32,
    /// Whether the budget ended the step and more is waiting, be it that this step only looked.
    pub more: bool,
    /// When the next item of this work falls due, as far as is known now.
    pub next_at: Option<Timestamp>,
    /// What became of jobs, for history and counters.
    pub tallies: Vec<Tally>,
}

impl MaintainReply {
    /// Counts one job moved.
    pub fn count(&mut self, queue: &Name, from: State, to: Option<State>) {
        let same = |t: &&mut Tally| t.queue == *queue && t.from == from && t.to == to;
        match self.tallies.iter_mut().find(same) {
            Some(tally) => tally.count += 1,
            None => self.tallies.push(Tally { queue: queue.clone(), from, to, count: 1 }),
        }
    }
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What, with the job or key it concerns.
    pub what: String,
    /// Whether it was mended.
    pub repaired: bool,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Jobs looked at.
    pub jobs: u64,
    /// What is wrong; empty is good.
    pub findings: Vec<Finding>,
}
