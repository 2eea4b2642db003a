//! The contract: what every engine does, as three object-safe traits.
//!
//! An **engine** is a small set of batch verbs over jobs. Storage engines implement it; layers wrap
//! one and are engines themselves; the server turns one into HTTP and the remote client turns HTTP
//! back into one. The conformance kit proves them all.
//!
//! What holds for every verb:
//! - **Batches.** Verbs take and return batches. Each item has its own [`Item`] result, in the order
//!   of the request; a bad item fails alone. An error of the whole call means nothing of it was done.
//! - **Repeatable.** Every verb may be repeated when its reply was lost: job ids make an enqueue the
//!   same enqueue, claim numbers a claim the same claim, leases a settle the same settle.
//! - **Stamped.** Every reply carries the store's time and [`Epoch`]. Durations in requests are
//!   relative to the store's clock, which is the only one that decides.
//! - **Durable where promised.** Enqueue, settle, change, configure and records are durable, to the
//!   grade of [`Capabilities::durability`], before they answer. Claims, heartbeats and progress
//!   survive the death of our own processes, but a crash of the store may forget the last of them.
//! - **Atomic per item at least.** One item is one atomic step with all effects of the state machine;
//!   how much wider the step is says [`Capabilities::atomicity`].
//! - **Bounded.** Costs depend on the size of the batch, not on how many jobs wait.
//!
//! Requests are `#[non_exhaustive]` and made by constructors, so that fields can be added. Leases,
//! sessions and cursors are opaque text, so that a layer can wrap them.

mod capabilities;
mod change;
mod claim;
mod configure;
mod enqueue;
mod filter;
mod maintain;
mod pass_on;
mod query;
mod records;
mod session;
mod settle;
mod token;
mod update;

pub use capabilities::{Atomicity, Capabilities, Capability, Durability};
pub use change::{Change, ChangeItem, Changed, Edits};
pub use claim::{Claim, Claimant, Claimed, ClaimedJob, KindWant, QueueWant, Wait};
pub use configure::{Configure, Settings};
pub use enqueue::{Disposition, Enqueue, Enqueued, Mode};
pub use filter::{Filter, IdTimes};
pub use maintain::{CheckReport, Finding, MaintainReply, MaintainRequest, Tally, Work};
pub use query::{
    Gate, Get, LaneStats, List, ListOrder, Page, PriorityStats, SessionInfo, StatsRequest,
};
pub use records::{Expect, LogEntry, Record, RecordOp, RecordReply};
pub use session::{Heartbeat, HeartbeatReply, Held, OpenSession, Session};
pub use settle::{Outcome, Settle, SettleItem, SettleReply, Settled};
pub use token::{ClaimId, Cursor, Epoch, Lease, SessionId};
pub use update::{Update, UpdateItem, Updated};

use crate::error::Result;
use crate::model::Job;
use crate::time::Timestamp;
use std::future::Future;
use std::pin::Pin;

/// The result of one item of a batch.
pub type Item<T> = Result<T>;

/// What a verb returns: a boxed future, so that engines can stand behind an `Arc<dyn Engine>`.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<Stamped<T>>> + Send + 'a>>;

/// A reply with the store's time and identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped<T> {
    /// The store's clock when it answered.
    pub now: Timestamp,
    /// Which store, on which timeline. When it changes, hints and cursors are void; leases stand or
    /// fall by their token.
    pub epoch: Epoch,
    /// The reply itself.
    pub value: T,
}

impl<T> Stamped<T> {
    /// The same stamp on another value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Stamped<U> {
        Stamped { now: self.now, epoch: self.epoch, value: f(self.value) }
    }
}

/// The verbs of producers and workers: everything on the path of a job through its life.
pub trait Hot: Send + Sync {
    /// What this engine can do beyond the contract, and how durable it is. No I/O.
    fn capabilities(&self) -> &Capabilities;

    /// Stores jobs: all of them or each for itself ([`Mode`]).
    ///
    /// Durable before it answers; visible to claims at once. One round trip for the batch. An id or
    /// a unique key that is there already is not an error: the answer says `existing` and names it.
    /// An id is known as long as its record exists: a repeat that arrives after the job was removed
    /// is a new job.
    fn enqueue(&self, request: Enqueue) -> Answer<'_, Vec<Item<Enqueued>>>;

    /// Opens a session: the liveness of one worker process. Its leases live as long as it does.
    fn open_session(&self, request: OpenSession) -> Answer<'_, Session>;

    /// Keeps a session alive and compares notes: one write per worker, however many leases.
    ///
    /// A lease of the session that is neither declared nor belongs to an unanswered or a later claim
    /// is released without counting a crash: the reply of its claim was lost. A session is lost, and
    /// answers [`SessionLost`](crate::Error::SessionLost), once it was reclaimed, not at the instant it runs out: when a
    /// store comes back from an outage, its workers can still revive theirs.
    fn heartbeat(&self, request: Heartbeat) -> Answer<'_, HeartbeatReply>;

    /// Ends a session in good order: what it still holds is released, no crash counted. Closing a
    /// session that is gone is fine.
    fn close_session(&self, session: SessionId) -> Answer<'_, ()>;

    /// Leases ready jobs to a worker. Never waits; see [`Hot::wait`].
    ///
    /// Queues are served in the order given; within a queue the heads of its open lanes are merged
    /// by `(rank, seq)`. Gated lanes are skipped, rows never: the cost is that of the jobs returned
    /// and the lanes looked at, at any depth. A suspect (see
    /// [`SUSPECT_CRASHES`](crate::limits::SUSPECT_CRASHES)) comes in a claim of its own, perhaps
    /// later than its place in line. Repeating a claim under its name returns the jobs that are
    /// still leased under it, or claims afresh if none are.
    fn claim(&self, request: Claim) -> Answer<'_, Claimed>;

    /// Waits until something of these lanes may be claimable: `true` at once if it is so already,
    /// `false` when the time is up. A hint: somebody else may be faster.
    ///
    /// Apart from [`Hot::claim`], so that nothing is leased to a caller who went away while waiting.
    fn wait(&self, request: Wait) -> Answer<'_, bool>;

    /// Reports outcomes, each under its lease, and may carry the next claim in the same round trip.
    ///
    /// Durable before it answers; the claim in it need not be, sees what the reports freed, and has
    /// a result of its own: in a request that is valid, it cannot fail the reports. Each item, its part edits and its
    /// follow-up jobs are one atomic step. A stale lease answers [`LeaseLost`](crate::Error::LeaseLost) and changes
    /// nothing; a lease that was settled already answers with the recorded outcome for as long as
    /// the attempt is in the job's history.
    fn settle(&self, request: Settle) -> Answer<'_, SettleReply>;

    /// Under a lease: progress, checkpoints, log lines, parts on demand, a longer lease for claims
    /// without a session. Parts are durable before it answers; progress and log lines need not be.
    fn update(&self, request: Update) -> Answer<'_, Vec<Item<Updated>>>;
}

/// The verbs of operators: look, change, configure.
pub trait Admin: Send + Sync {
    /// Jobs by id, `None` for those that do not exist. One round trip for the batch.
    fn get(&self, request: Get) -> Answer<'_, Vec<Option<Job>>>;

    /// A page of jobs. The work per page is bounded: a page may be short, even empty, and only
    /// `next: None` means the end. Parts, history and log stay out.
    fn list(&self, request: List) -> Answer<'_, Page<Job>>;

    /// Depth, oldest age and gate by lane. Bounded cost at any depth; exact when the store is at
    /// rest, a few seconds late at most when it is not.
    fn stats(&self, request: StatsRequest) -> Answer<'_, Vec<LaneStats>>;

    /// The sessions that are open.
    fn sessions(&self) -> Answer<'_, Vec<SessionInfo>>;

    /// Changes jobs from outside: cancel, replay, promote, … Each item is one atomic step, durable
    /// before it answers. Asking for what is so already is fine.
    fn change(&self, batch: Vec<ChangeItem>) -> Answer<'_, Vec<Item<Changed>>>;

    /// Changes settings and gates; in force for every claim and enqueue that begins after it
    /// answered, on every process. O(1), however many jobs wait.
    fn configure(&self, batch: Vec<Configure>) -> Answer<'_, Vec<Item<()>>>;

    /// All settings that differ from the defaults.
    fn settings(&self) -> Answer<'_, Settings>;

    /// Small versioned documents with compare-and-set, and bounded append logs. Each operation is
    /// atomic and durable; they are carried out in order.
    fn records(&self, batch: Vec<RecordOp>) -> Answer<'_, Vec<Item<RecordReply>>>;

    /// Whether the store answers.
    fn health(&self) -> Answer<'_, ()>;
}

/// The verbs of the services that keep a store in order. Safe anywhere, any number at a time.
pub trait Maintain: Send + Sync {
    /// One bounded step of one kind of work; says whether more is left and when to come again.
    fn maintain(&self, request: MaintainRequest) -> Answer<'_, MaintainReply>;

    /// Verifies that every job is in exactly one place and every index agrees; with `repair`, mends
    /// what it finds. Cost grows with the store: for operators, not for loops.
    fn check(&self, repair: bool) -> Answer<'_, CheckReport>;
}

/// A complete engine. Implemented by whatever implements the three traits.
pub trait Engine: Hot + Admin + Maintain {}

impl<T: Hot + Admin + Maintain + ?Sized> Engine for T {}

/// Checks the size of a batch of changes, settings or records.
pub fn check_items<T>(items: &[T]) -> Result<()> {
    check_batch("items", items.len(), crate::limits::BATCH_MAX)
}

/// Checks the size of a batch.
pub(crate) fn check_batch(field: &'static str, len: usize, max: usize) -> Result<()> {
    crate::error::within_limit(field, len, max, "split the batch")
}
