//! The engine contract: three object-safe traits that every engine implements.
//!
//! An **engine** is a small set of batch verbs over jobs. Storage engines implement it; layers wrap an engine
//! and are engines themselves; the server exposes an engine over HTTP, and the remote client turns HTTP back
//! into an engine. The conformance kit tests all of them.
//!
//! Rules for every verb:
//! - **Batches.** Verbs take and return batches. Each item has its own [`Item`] result, in the order of the
//!   request; an invalid item fails alone. An error of the whole call means that nothing was done.
//! - **Repeatable.** Every verb may be repeated if its reply was lost: job ids identify a repeated enqueue,
//!   claim numbers a repeated claim, leases a repeated settle.
//! - **Stamped.** Every reply has the store's time and [`Epoch`]. Durations in requests are relative to the
//!   store's clock, the only clock that counts.
//! - **Durable where promised.** Enqueue, settle, change, configure and records are durable, to the level of
//!   [`Capabilities::durability`], before they return. Claims, heartbeats and progress survive the death of
//!   Windlass processes, but a crash of the store may lose the latest of them.
//! - **Atomic per item at least.** One item is one atomic step with all effects of the state machine;
//!   [`Capabilities::atomicity`] says how much wider the step is.
//! - **Bounded.** The cost depends on the size of the batch, not on the number of waiting jobs.
//!
//! Requests are `#[non_exhaustive]` and created by constructors, so that fields can be added. Leases,
//! sessions and cursors are opaque text, so that a layer can wrap them.

mod capabilities;
mod change;
mod claim;
mod configure;
mod enqueue;
mod events;
mod explain;
mod fast_paths;
mod field;
mod filter;
mod import;
mod lane_sums;
mod limit_stats;
mod listing;
mod maintain;
mod part_edits;
mod pass_on;
mod plain;
mod query;
mod records;
mod removed;
mod session;
mod settle;
mod take;
mod token;
mod update;

pub use capabilities::{Atomicity, Capabilities, Capability, Durability};
pub use change::{Change, ChangeItem, Changed, ChangedFields, Edits};
pub use claim::{Claim, Claimant, Claimed, ClaimedJob, KindWant, QueueWant, Wait};
pub use configure::{Configure, Settings};
pub use enqueue::{
    Disposition, Enqueue, Enqueued, EnqueuedFields, Mode, TopicCopy, TopicCopyFields,
};
pub use events::{
    Event, EventEntry, EventFields, EventPlace, EventSpan, EventsFrom, EventsReply, EventsRequest,
    events_are_off, events_unsupported,
};
pub use explain::{Cause, CauseCode, CauseFields, Explanation, ExplanationFields};
#[doc(hidden)]
pub use fast_paths::FastPaths;
pub use field::Field;
pub use filter::Filter;
pub use import::Import;
pub use lane_sums::LaneSums;
pub use limit_stats::{GroupStats, GroupStatsFields, LimitStats, LimitStatsFields};
pub use listing::{ListPlace, ListSpan, SortedBy};
pub use maintain::{
    CheckReport, Finding, FindingFields, MaintainReply, MaintainRequest, Tally, TallyFields, Work,
};
pub use plain::{PlainClaim, PlainReport};
pub use query::{
    Gate, Get, LaneStats, LaneStatsFields, List, ListOrder, Page, PriorityStats,
    PriorityStatsFields, SessionInfo, SessionInfoFields, StatsRequest,
};
pub use records::{Expect, LogEntry, Record, RecordOp, RecordReply};
pub use removed::{
    OTHER_TENANT, RemovedCount, RemovedCountFields, RemovedKey, RemovedQuery, RemovedTable,
    tenant_of_removed,
};
pub use session::{
    Heartbeat, HeartbeatReply, HeartbeatReplyFields, Held, OpenSession, Session, SessionFields,
    WorkerInfo,
};
pub use settle::{Hold, HoldOn, Outcome, Settle, SettleItem, SettleReply, Settled, SettledFields};
pub use take::{Take, Took};
pub use token::{ClaimId, Cursor, Epoch, Lease, SessionId};
pub use update::{Update, UpdateItem, Updated};

use crate::error::Result;
use crate::id::JobId;
use crate::model::Job;
use crate::time::Timestamp;
use std::future::Future;
use std::pin::Pin;

/// The result of one item of a batch.
pub type Item<T> = Result<T>;

/// The return type of verbs: a boxed future, so that engines can be used as `Arc<dyn Engine>`.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<Stamped<T>>> + Send + 'a>>;

/// A reply with the store's time and epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped<T> {
    /// The store's clock when it answered.
    pub now: Timestamp,
    /// Identifies the store and its timeline. When it changes, scan cursors and listing cursors are void;
    /// leases remain valid if their token is.
    pub epoch: Epoch,
    /// The reply itself.
    pub value: T,
}

impl<T> Stamped<T> {
    /// Converts the value and keeps the stamp.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Stamped<U> {
        Stamped { now: self.now, epoch: self.epoch, value: f(self.value) }
    }
}

/// The verbs of producers and workers: all steps in the life of a job.
pub trait Jobs: Send + Sync {
    /// Capabilities and durability of this engine. No I/O.
    fn capabilities(&self) -> &Capabilities;

    /// Stores jobs, atomically or one by one ([`Mode`]).
    ///
    /// Durable before it returns; visible to claims at once. One round trip per batch. An existing id or
    /// unique key is not an error: the result is `existing` and contains the id. An id is known while its job
    /// exists: a repeated enqueue after the job was removed creates a new job.
    fn enqueue(&self, request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>>;

    /// Opens a session, which represents the liveness of one worker process. Its leases last as long as the
    /// session.
    fn open_session(&self, request: OpenSession) -> Answer<'_, Session>;

    /// Keeps a session alive and reconciles its leases: one write per worker, however many leases it has.
    ///
    /// A lease of the session that is neither declared nor belongs to an unanswered or a later claim is
    /// released without counting a crash: the reply of its claim was lost. A session is lost, and returns
    /// [`SessionLost`](crate::Error::SessionLost), once it has been reclaimed, not when it expires: after an
    /// outage of the store, workers can still revive their sessions.
    fn heartbeat(&self, request: Heartbeat) -> Answer<'_, HeartbeatReply>;

    /// Closes a session: its remaining jobs are released without counting a crash. Closing a session that
    /// does not exist is not an error.
    fn close_session(&self, session: SessionId) -> Answer<'_, ()>;

    /// Leases ready jobs to a worker. Never waits; see [`Jobs::wait`].
    ///
    /// Queues are served in the given order; within a queue the heads of its open lanes are merged by `(rank,
    /// seq)`. A claim skips gated lanes but never rows: its cost depends on the jobs returned and the lanes
    /// examined, at any depth. A suspect (see [`SUSPECT_CRASHES`](crate::limits::SUSPECT_CRASHES)) is
    /// returned in a claim of its own, possibly later than its rank. Repeating a claim under its name returns
    /// the jobs that are still leased under it, or claims new ones if there are none.
    fn claim(&self, request: Claim) -> Answer<'_, Claimed>;

    /// Waits until a job of these lanes may be claimable: returns `true` at once if one already is, `false`
    /// on timeout. Only a hint: another worker may claim the job first.
    ///
    /// Separate from [`Jobs::claim`], so that nothing is leased to a caller that disconnected while waiting.
    fn wait(&self, request: Wait) -> Answer<'_, bool>;

    /// Reports outcomes, each under its lease, and may include the next claim in the same round trip.
    ///
    /// The reports are durable before it returns. The claim need not be; it sees the jobs that the reports
    /// freed, and has its own result: in a valid request, its failure does not affect the reports. Each item,
    /// its part edits and its follow-up jobs are one atomic step. A stale lease returns
    /// [`LeaseLost`](crate::Error::LeaseLost) and changes nothing; a lease that was already settled returns
    /// the recorded outcome while the attempt is in the job's history.
    fn settle(&self, request: Settle) -> Answer<'_, SettleReply>;

    /// Updates running jobs under their leases: progress, checkpoints, log lines, reading parts, and
    /// extending leases of claims without a session. Parts are durable before it returns; progress and log
    /// lines need not be.
    fn update(&self, request: Update) -> Answer<'_, Vec<Item<Updated>>>;

    /// Takes tokens of a limit's rate at once, or says when they will be there. Needs
    /// [`Capability::Limits`]. A repeated call takes tokens again.
    fn take(&self, request: Take) -> Answer<'_, Took>;
}

/// The verbs of operators: read, change, configure.
pub trait Admin: Send + Sync {
    /// Returns jobs by id, `None` for those that do not exist. One round trip per batch.
    fn get(&self, request: Get) -> Answer<'_, Vec<Option<Job>>>;

    /// Returns a page of jobs, in the order of [`SortedBy`]. Does not include parts, history and log.
    ///
    /// A page is filled: it is shorter than its limit only at the end of the listing, or if
    /// [`LIST_EXAMINED_MAX`](crate::limits::LIST_EXAMINED_MAX) jobs were compared with the filter or
    /// [`LIST_PASSED_MAX`](crate::limits::LIST_PASSED_MAX) others passed over; `next: None` alone means the end. Beside changes, a job that stays where it is appears exactly once.
    fn list(&self, request: List) -> Answer<'_, Page<Job>>;

    /// Jobs by state, age of the oldest ready job, next due time, and gate per lane. Bounded cost at any depth; exact when the store
    /// is idle, at most a few seconds late otherwise.
    fn stats(&self, request: StatsRequest) -> Answer<'_, Vec<LaneStats>>;

    /// Running and waiting jobs under each limit, and what it allows now. Bounded cost at any depth and with any number of
    /// groups.
    fn limits(&self) -> Answer<'_, Vec<LimitStats>>;

    /// Why a job is not running: all causes of its state, in the order in which they must end before it starts.
    /// Bounded cost at any depth; [`NotFound`](crate::Error::NotFound) if there is no such job.
    ///
    /// An engine knows the gates of a kind, not its circuit breaker: `windlass_services::explain` adds that.
    fn why(&self, id: JobId) -> Answer<'_, Explanation>;

    /// The open sessions.
    fn sessions(&self) -> Answer<'_, Vec<SessionInfo>>;

    /// Changes jobs: cancel, replay, promote and so on. Each item is one atomic step, durable before it
    /// returns. A change that is already in effect succeeds.
    fn change(&self, batch: Vec<ChangeItem>) -> Answer<'_, Vec<Item<Changed>>>;

    /// Stores jobs of another store as they were there: with id, counters, history, times, state, result, error and
    /// progress, and in the order of the batch. Each item is one atomic step, durable before it returns.
    ///
    /// A running job arrives as available, without counting a crash; if its cancellation was requested, as cancelled. A
    /// known id returns `existing` and changes nothing. Depth limits do not apply.
    ///
    /// A job takes its unique key again if it still holds it: until it has ended, until it is removed, or for the rest of
    /// its window since its creation. If another job holds the key then, it returns
    /// [`Error::Duplicate`](crate::Error::Duplicate).
    fn import(&self, request: Import) -> Answer<'_, Vec<Item<Enqueued>>>;

    /// Changes settings and gates. In effect for every claim and enqueue that starts after it returns, in
    /// every process. O(1), however many jobs wait.
    fn configure(&self, batch: Vec<Configure>) -> Answer<'_, Vec<Item<()>>>;

    /// All settings that differ from the defaults.
    fn settings(&self) -> Answer<'_, Settings>;

    /// Small versioned documents with compare-and-set, and bounded append logs. Each operation is atomic and
    /// durable; they are executed in order.
    fn records(&self, batch: Vec<RecordOp>) -> Answer<'_, Vec<Item<RecordReply>>>;

    /// A page of the history of removed jobs, which every removal is added to in the same atomic step, whether by
    /// retention or by an operator.
    fn removed(&self, request: RemovedQuery) -> Answer<'_, Page<RemovedCount>>;

    /// Events of a queue after a position, oldest first; waits up to [`EventsRequest::wait_ms`] for one if there is none.
    /// Needs [`Capability::Events`], and events that are switched on for the queue
    /// ([`QueueSettings::events`](crate::model::QueueSettings::events)).
    ///
    /// The stream has every transition of the queue's jobs that was committed, each at least once. Transitions of a job
    /// are in their order, and no transition appears before a position that a reply has returned. A transition that a
    /// failure of the store can undo is not shown before it is durable.
    fn events(&self, request: EventsRequest) -> Answer<'_, EventsReply>;

    /// Checks that the store answers.
    fn health(&self) -> Answer<'_, ()>;
}

/// The verbs of the services that maintain a store. Safe to call from any number of processes concurrently.
pub trait Maintain: Send + Sync {
    /// Runs one bounded step of one type of maintenance; returns whether more is left and when to call again.
    fn maintain(&self, request: MaintainRequest) -> Answer<'_, MaintainReply>;

    /// Verifies that every job is in exactly one place and that all indexes agree; with `repair`, fixes what
    /// it finds. The cost grows with the store: for operators, not for loops.
    fn check(&self, repair: bool) -> Answer<'_, CheckReport>;
}

/// A complete engine. Implemented for every type with the three traits.
pub trait Engine: Jobs + Admin + Maintain {}

impl<T: Jobs + Admin + Maintain + ?Sized> Engine for T {}

/// Checks the size of a batch of changes, settings or records.
pub fn check_items<T>(items: &[T]) -> Result<()> {
    check_batch("items", items.len(), crate::limits::BATCH_MAX)
}

/// Checks the size of a batch.
pub(crate) fn check_batch(field: &'static str, len: usize, max: usize) -> Result<()> {
    crate::error::within_limit(field, len, max, "split the batch")
}
