//! Looking at jobs, lanes and workers.

use super::{Cursor, Filter, SessionId, check_batch};
use crate::error::{Result, within_range};
use crate::id::JobId;
use crate::limits;
use crate::model::{Name, PartSet, State};
use crate::time::Timestamp;

/// Jobs by id.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Get {
    /// Which.
    pub ids: Vec<JobId>,
    /// With which parts.
    pub parts: PartSet,
}

impl Get {
    /// These, without parts.
    pub fn new(ids: impl IntoIterator<Item = JobId>) -> Self {
        Self { ids: ids.into_iter().collect(), parts: PartSet::NONE }
    }

    /// With these parts.
    #[must_use]
    pub const fn parts(mut self, parts: PartSet) -> Self {
        self.parts = parts;
        self
    }

    /// Whether it is acceptable.
    pub fn check(&self) -> Result<()> {
        check_batch("ids", self.ids.len(), limits::BATCH_MAX)
    }
}

/// In which order to list jobs: by id, which is by the time they were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListOrder {
    /// The newest first.
    #[default]
    Newest,
    /// The oldest first.
    Oldest,
}

/// A page of jobs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct List {
    /// Which jobs.
    pub filter: Filter,
    /// In which order.
    pub order: ListOrder,
    /// After this place; `None` starts.
    pub after: Option<Cursor>,
    /// At most so many.
    pub limit: u32,
}

impl List {
    /// The newest jobs that pass `filter`.
    pub const fn new(filter: Filter) -> Self {
        Self { filter, order: ListOrder::Newest, after: None, limit: limits::PAGE_DEFAULT }
    }

    /// In this order.
    #[must_use]
    pub const fn order(mut self, order: ListOrder) -> Self {
        self.order = order;
        self
    }

    /// After this place.
    #[must_use]
    pub fn after(mut self, cursor: Option<Cursor>) -> Self {
        self.after = cursor;
        self
    }

    /// At most so many.
    #[must_use]
    pub const fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// Whether it is acceptable.
    pub fn check(&self) -> Result<()> {
        self.filter.check()?;
        within_range("limit", self.limit.into(), 1..=limits::PAGE_MAX.into())
    }
}

/// A page of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows; a page may be short, even empty.
    pub rows: Vec<T>,
    /// Where to go on; `None` is the end.
    pub next: Option<Cursor>,
}

/// Which lanes to count.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StatsRequest {
    /// Of this queue only.
    pub queue: Option<Name>,
    /// Whether to tell ready jobs apart by priority, too.
    pub by_priority: bool,
}

impl StatsRequest {
    /// The lanes of one queue.
    pub fn queue(queue: impl Into<Name>) -> Self {
        Self { queue: Some(queue.into()), ..Self::default() }
    }

    /// With their ready jobs by priority; see [`LaneStats::priorities`].
    #[must_use]
    pub const fn by_priority(mut self) -> Self {
        self.by_priority = true;
        self
    }
}

/// Why nothing of a lane is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gate {
    /// Its queue is paused.
    QueuePaused,
    /// Its kind is paused.
    KindPaused,
    /// Its kind has no permits left: an open circuit breaker.
    NoPermits,
}

/// A lane in numbers. Dead jobs are counted apart and never as depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStats {
    /// Its queue.
    pub queue: Name,
    /// Its kind.
    pub kind: Name,
    /// Waiting for their time.
    pub scheduled: u64,
    /// Waiting for something else.
    pub blocked: u64,
    /// Ready.
    pub available: u64,
    /// Leased.
    pub running: u64,
    /// Set aside one by one.
    pub paused: u64,
    /// Dead letters.
    pub dead: u64,
    /// Since when the job at its head has been ready.
    pub head_ready_at: Option<Timestamp>,
    /// Why nothing of it is claimed, if so.
    pub gate: Option<Gate>,
    /// Its ready jobs by priority, the most urgent first. Empty unless asked for, and where the order of
    /// its queue is not by priority: such a queue keeps no jobs of one priority together.
    ///
    /// They are the first [`PRIORITIES_MAX`](limits::PRIORITIES_MAX). So that an answer costs the same at any
    /// depth, it counts no more than [`READY_COUNTED_MAX`](limits::READY_COUNTED_MAX) jobs one by one; what
    /// the lane has beyond those belongs to the one priority that has more. Where several have, their
    /// numbers are the least there may be, and [`not_told_apart`](Self::not_told_apart) is what is missing.
    pub priorities: Vec<PriorityStats>,
}

/// The ready jobs of a lane that have one priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityStats {
    /// Their priority.
    pub priority: i32,
    /// How many they are, or more; see [`LaneStats::priorities`].
    pub available: u64,
    /// Since when the first of them has been ready.
    pub head_ready_at: Timestamp,
}

impl LaneStats {
    /// An empty lane.
    pub const fn empty(queue: Name, kind: Name) -> Self {
        Self {
            queue,
            kind,
            scheduled: 0,
            blocked: 0,
            available: 0,
            running: 0,
            paused: 0,
            dead: 0,
            head_ready_at: None,
            gate: None,
            priorities: Vec::new(),
        }
    }

    /// Jobs that wait for their start.
    pub const fn depth(&self) -> u64 {
        self.scheduled + self.blocked + self.available + self.paused
    }

    /// Ready jobs that [`priorities`](Self::priorities) leaves out.
    pub fn not_told_apart(&self) -> u64 {
        let told: u64 = self.priorities.iter().map(|priority| priority.available).sum();
        self.available.saturating_sub(told)
    }

    /// The counter of a state, where there is one.
    pub const fn counter(&mut self, state: State) -> Option<&mut u64> {
        match state {
            State::Scheduled => Some(&mut self.scheduled),
            State::Blocked => Some(&mut self.blocked),
            State::Available => Some(&mut self.available),
            State::Running => Some(&mut self.running),
            State::Paused => Some(&mut self.paused),
            State::Dead => Some(&mut self.dead),
            State::Completed | State::Cancelled | State::Expired => None,
        }
    }
}

/// An open session, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id.
    pub id: SessionId,
    /// What the worker calls itself.
    pub worker: String,
    /// Since when.
    pub opened_at: Timestamp,
    /// When it runs out unless heartbeaten.
    pub expires_at: Timestamp,
    /// How many jobs it holds.
    pub running: u64,
}
