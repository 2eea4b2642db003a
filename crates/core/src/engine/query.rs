//! Reading jobs, lanes and sessions.

use super::{Cursor, Filter, ListPlace, ListSpan, SessionId, SortedBy, WorkerInfo, check_batch};
use crate::error::{Result, within_range};
use crate::growing::growing;
use crate::id::JobId;
use crate::limits;
use crate::model::{Name, PartSet, State};
use crate::name::check_name;
use crate::time::Timestamp;

/// A request for jobs by id.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Get {
    /// The ids.
    pub ids: Vec<JobId>,
    /// The parts to load.
    pub parts: PartSet,
    /// The queue in which the caller expects the jobs. It may make the search cheaper and never changes its result:
    /// jobs of other queues are found, too.
    pub queue_hint: Option<Name>,
}

impl Get {
    /// These jobs, without parts.
    pub fn new(ids: impl IntoIterator<Item = JobId>) -> Self {
        Self { ids: ids.into_iter().collect(), parts: PartSet::NONE, queue_hint: None }
    }

    /// Sets the queue in which the jobs are expected.
    #[must_use]
    pub fn queue_hint(mut self, queue: impl Into<Name>) -> Self {
        self.queue_hint = Some(queue.into());
        self
    }

    /// Sets the parts to load.
    #[must_use]
    pub const fn parts(mut self, parts: PartSet) -> Self {
        self.parts = parts;
        self
    }

    /// Validates the request.
    pub fn check(&self) -> Result<()> {
        self.queue_hint.as_ref().map_or(Ok(()), |queue| check_name("queue_hint", queue))?;
        check_batch("ids", self.ids.len(), limits::BATCH_MAX)
    }
}

/// Direction of a listing, by the time that [`SortedBy`] selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOrder {
    /// The latest time first.
    Newest,
    /// The earliest time first.
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
    /// The first jobs that match `filter`: scheduled jobs by the time they are due, others newest first.
    pub const fn new(filter: Filter) -> Self {
        let order = SortedBy::of(filter.state).usual_order();
        Self { filter, order, after: None, limit: limits::PAGE_DEFAULT }
    }

    /// Sets the direction.
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

    /// The time by which it is sorted.
    pub const fn sorted_by(&self) -> SortedBy {
        SortedBy::of(self.filter.state)
    }

    /// The positions that the page may contain: those after its cursor that the filter does not exclude.
    pub fn span(&self) -> Result<ListSpan> {
        let after = self.after.as_ref().map(|after| ListPlace::read(after, self.sorted_by()));
        Ok(ListSpan::of(&self.filter, self.order, after.transpose()?))
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
    /// The rows.
    pub rows: Vec<T>,
    /// The cursor of the next page; `None` means the end.
    pub next: Option<Cursor>,
    /// Number of rows that were examined or passed over to find these.
    pub examined: u64,
    /// Whether the page is short because the work for one page is limited, not because the listing ends.
    pub cut_short: bool,
}

impl<T> Page<T> {
    /// A full or last page for which no other rows were examined.
    pub fn new(rows: Vec<T>, next: Option<Cursor>) -> Self {
        let examined = rows.len() as u64;
        Self { rows, next, examined, cut_short: false }
    }
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
    /// Its queue is held for a time, by a [`Hold`](super::Hold) of a report.
    QueueHeld,
    /// Its kind is paused.
    KindPaused,
    /// Its kind has no permits left because of an open circuit breaker.
    NoPermits,
    /// A limit over all jobs has no room for its first job.
    Limited,
}

growing! {
    /// Statistics of a lane. Jobs that have ended are counted by state and never as depth.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LaneStats as LaneStatsFields {
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
        /// Individually paused jobs. The jobs of a paused queue or kind keep their states; see [`gate`](Self::gate).
        pub paused: u64,
        /// Completed jobs that are still retained.
        pub completed: u64,
        /// Dead jobs.
        pub dead: u64,
        /// Cancelled jobs that are still retained.
        pub cancelled: u64,
        /// Expired jobs that are still retained.
        pub expired: u64,
        /// When the job at its head became ready.
        pub head_ready_at: Option<Timestamp>,
        /// When the first of its scheduled jobs is due.
        pub next_due_at: Option<Timestamp>,
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
}

growing! {
    /// The ready jobs of a lane with one priority.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PriorityStats as PriorityStatsFields {
        /// The priority.
        pub priority: i32,
        /// Number of jobs, or a lower bound; see [`LaneStats::priorities`].
        pub available: u64,
        /// When the first of them became ready.
        pub head_ready_at: Timestamp,
    }
}

impl PriorityStats {
    /// The ready jobs of a priority, of which the first became ready at `head_ready_at`.
    pub const fn new(priority: i32, available: u64, head_ready_at: Timestamp) -> Self {
        Self { priority, available, head_ready_at }
    }
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
            completed: 0,
            dead: 0,
            cancelled: 0,
            expired: 0,
            head_ready_at: None,
            next_due_at: None,
            gate: None,
            priorities: Vec::new(),
        }
    }

    /// Number of jobs waiting to start.
    pub const fn depth(&self) -> u64 {
        self.scheduled + self.blocked + self.available + self.paused
    }

    /// Number of jobs that have ended and are retained.
    pub const fn ended(&self) -> u64 {
        self.completed + self.dead + self.cancelled + self.expired
    }

    /// Number of jobs in any state.
    pub const fn total(&self) -> u64 {
        self.depth() + self.running + self.ended()
    }

    /// Number of ready jobs that are not included in [`priorities`](Self::priorities).
    pub fn unlisted(&self) -> u64 {
        let reported: u64 = self.priorities.iter().map(|priority| priority.available).sum();
        self.available.saturating_sub(reported)
    }

    /// The counter of a state.
    pub const fn counter(&mut self, state: State) -> &mut u64 {
        match state {
            State::Scheduled => &mut self.scheduled,
            State::Blocked => &mut self.blocked,
            State::Available => &mut self.available,
            State::Running => &mut self.running,
            State::Paused => &mut self.paused,
            State::Completed => &mut self.completed,
            State::Dead => &mut self.dead,
            State::Cancelled => &mut self.cancelled,
            State::Expired => &mut self.expired,
        }
    }
}

growing! {
    /// An open session, for display.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SessionInfo as SessionInfoFields {
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
        /// The description that its worker sent.
        pub info: WorkerInfo,
    }
}

impl SessionInfo {
    /// A session that holds no jobs, of a worker that sent no description.
    pub fn new(
        id: SessionId,
        worker: impl Into<String>,
        opened_at: Timestamp,
        expires_at: Timestamp,
    ) -> Self {
        let info = WorkerInfo::default();
        Self { id, worker: worker.into(), opened_at, expires_at, running: 0, info }
    }
}
