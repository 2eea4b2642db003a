//! Reading jobs, lanes and sessions.

use super::{Cursor, Filter, SessionId, check_batch};
use crate::error::{Result, within_range};
use crate::id::JobId;
use crate::limits;
use crate::model::{Name, PartSet, State};
use crate::time::Timestamp;

/// A request for jobs by id.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Get {
    /// The ids.
    pub ids: Vec<JobId>,
    /// The parts to load.
    pub parts: PartSet,
}

impl Get {
    /// These jobs, without parts.
    pub fn new(ids: impl IntoIterator<Item = JobId>) -> Self {
        Self { ids: ids.into_iter().collect(), parts: PartSet::NONE }
    }

    /// Sets the parts to load.
    #[must_use]
    pub const fn parts(mut self, parts: PartSet) -> Self {
        self.parts = parts;
        self
    }

    /// Validates the request.
    pub fn check(&self) -> Result<()> {
        check_batch("ids", self.ids.len(), limits::BATCH_MAX)
    }
}

/// Order of a listing: by id, i.e. by creation time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListOrder {
    /// Newest first.
    #[default]
    Newest,
    /// Oldest first.
    Oldest,
}

/// A request for a page of jobs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct List {
    /// Selects the jobs.
    pub filter: Filter,
    /// The order.
    pub order: ListOrder,
    /// The cursor of the previous page; `None` starts at the beginning.
    pub after: Option<Cursor>,
    /// Maximum number of jobs.
    pub limit: u32,
}

impl List {
    /// The newest jobs that match `filter`.
    pub const fn new(filter: Filter) -> Self {
        Self { filter, order: ListOrder::Newest, after: None, limit: limits::PAGE_DEFAULT }
    }

    /// Sets the order.
    #[must_use]
    pub const fn order(mut self, order: ListOrder) -> Self {
        self.order = order;
        self
    }

    /// Continues after this cursor.
    #[must_use]
    pub fn after(mut self, cursor: Option<Cursor>) -> Self {
        self.after = cursor;
        self
    }

    /// Sets the maximum number of jobs.
    #[must_use]
    pub const fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// Validates the request.
    pub fn check(&self) -> Result<()> {
        self.filter.check()?;
        within_range("limit", self.limit.into(), 1..=limits::PAGE_MAX.into())
    }
}

/// A page of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows. A page may be short or even empty.
    pub rows: Vec<T>,
    /// The cursor of the next page; `None` means the end.
    pub next: Option<Cursor>,
}

/// A request for lane statistics.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StatsRequest {
    /// Only lanes of this queue.
    pub queue: Option<Name>,
    /// Whether to count ready jobs by priority as well.
    pub by_priority: bool,
}

impl StatsRequest {
    /// The lanes of one queue.
    pub fn queue(queue: impl Into<Name>) -> Self {
        Self { queue: Some(queue.into()), ..Self::default() }
    }

    /// Counts ready jobs by priority as well; see [`LaneStats::priorities`].
    #[must_use]
    pub const fn by_priority(mut self) -> Self {
        self.by_priority = true;
        self
    }
}

/// Why no job of a lane can be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gate {
    /// Its queue is paused.
    QueuePaused,
    /// Its kind is paused.
    KindPaused,
    /// Its kind has no permits left because of an open circuit breaker.
    NoPermits,
}

/// Statistics of a lane. Dead jobs are counted separately and never as depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStats {
    /// Its queue.
    pub queue: Name,
    /// Its kind.
    pub kind: Name,
    /// Jobs waiting for their run time.
    pub scheduled: u64,
    /// Jobs waiting for anything else.
    pub blocked: u64,
    /// Ready jobs.
    pub available: u64,
    /// Leased jobs.
    pub running: u64,
    /// Individually paused jobs.
    pub paused: u64,
    /// Dead jobs.
    pub dead: u64,
    /// When the job at its head became ready.
    pub head_ready_at: Option<Timestamp>,
    /// Why none of its jobs can be claimed, if so.
    pub gate: Option<Gate>,
    /// Its ready jobs by priority, most urgent first. Empty unless requested, and for queues that are not
    /// ordered by priority, which do not keep jobs of one priority together.
    ///
    /// At most the first [`PRIORITIES_MAX`](limits::PRIORITIES_MAX) priorities. To keep the cost independent
    /// of depth, at most [`READY_COUNTED_MAX`](limits::READY_COUNTED_MAX) jobs are counted one by one; jobs
    /// of the lane beyond those are attributed to the one priority that has more. If several priorities have
    /// more, their numbers are lower bounds, and [`unlisted`](Self::unlisted) is the difference.
    pub priorities: Vec<PriorityStats>,
}

/// The ready jobs of a lane with one priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityStats {
    /// The priority.
    pub priority: i32,
    /// Number of jobs, or a lower bound; see [`LaneStats::priorities`].
    pub available: u64,
    /// When the first of them became ready.
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

    /// Number of jobs waiting to start.
    pub const fn depth(&self) -> u64 {
        self.scheduled + self.blocked + self.available + self.paused
    }

    /// Number of ready jobs that are not included in [`priorities`](Self::priorities).
    pub fn unlisted(&self) -> u64 {
        let reported: u64 = self.priorities.iter().map(|priority| priority.available).sum();
        self.available.saturating_sub(reported)
    }

    /// The counter of a state, if it has one.
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

/// An open session, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id.
    pub id: SessionId,
    /// Display name of the worker.
    pub worker: String,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When it expires without a heartbeat.
    pub expires_at: Timestamp,
    /// Number of jobs it holds.
    pub running: u64,
}
