//! What a store gives the executor: rows of jobs, and the few ordered looks at them it needs.

use crate::entry::{Entry, UniqueSlot};
use crate::session::SessionEntry;
use windlass_core::engine::{CheckReport, LaneStats, RecordOp, RecordReply, SessionId};
use windlass_core::model::{KindSettings, Name, QueueSettings};
use windlass_core::{JobId, Result, Timestamp};

/// A queue and a kind.
pub type LaneKey = (Name, Name);

/// A ready job, as far as its place in line goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Head {
    /// Its rank.
    pub rank: i64,
    /// Its order of entry.
    pub seq: u64,
    /// Which job.
    pub id: JobId,
    /// Whether it must come alone.
    pub suspect: bool,
}

/// Who holds an ordering key, and who is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The job that holds it.
    pub holder: Option<JobId>,
    /// The first that stands in line for it, by order of entry.
    pub first: Option<(u64, JobId)>,
}

/// A unique key that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniqueHold {
    /// By this job.
    pub holder: JobId,
    /// Until then; `None`: until the holder ends.
    pub until: Option<Timestamp>,
}

/// Where a tenant of a fair queue stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The turn being served.
    pub served: i64,
    /// The latest turn that it has taken; `None` for a newcomer.
    pub latest: Option<i64>,
}

/// When something falls due, and for which job.
pub type Due = (Timestamp, JobId);

/// The rows of one store, owned by one writer.
///
/// A job changes by being taken out of its place, changed, and put back; whatever is derived from it
/// (lanes, times, lines, held leases) follows. An error means that the store failed, not that the
/// request was bad: whoever owns the transaction must roll it back.
pub trait Rows {
    /// Looks at a job.
    fn with_job<T>(&self, id: JobId, look: impl FnOnce(&Entry) -> T) -> Result<Option<T>>;

    /// Takes a job out of its place, to be [`put`](Self::put) into its new one, [put back](Self::put_back)
    /// or [forgotten](Self::forget).
    fn take(&mut self, id: JobId) -> Result<Option<Box<Entry>>>;

    /// Puts a job that was taken, or a new one, into the place its state says.
    fn put(&mut self, entry: Box<Entry>) -> Result<()>;

    /// Puts a job that was taken back as it was: nothing is written.
    fn put_back(&mut self, entry: Box<Entry>) -> Result<()>;

    /// Removes a job that was taken, for good.
    fn forget(&mut self, entry: Box<Entry>) -> Result<()>;

    /// The lanes of a queue that may have ready jobs. Called by every claim: its cost must not depend on how many lanes
    /// have none.
    fn lanes(&self, queue: &Name) -> Vec<LaneKey>;

    /// How many lanes the queue of this lane has, if the lane is not one of them yet.
    fn lanes_before(&self, lane: &LaneKey) -> Option<usize>;

    /// Ready jobs of a lane by (rank, seq), after a place.
    fn ready(&self, lane: &LaneKey, after: Option<(i64, u64)>, limit: usize) -> Result<Vec<Head>>;

    /// The highest rank of a queue's ready jobs.
    fn last_rank(&self, queue: &Name) -> Result<Option<i64>>;

    /// Where a tenant stands in a fair queue whose turns are taken by several executors; nothing if this one has
    /// taken them all.
    fn standing(&self, _queue: &Name, _tenant: &Option<String>) -> Option<Standing> {
        None
    }

    /// Jobs of a queue that wait for their start.
    fn depth(&self, queue: &Name) -> u64;

    /// All lanes in numbers; gates are not its business.
    fn stats(&self) -> Result<Vec<LaneStats>>;

    /// The first `limit` scheduled jobs by the time they are due.
    fn scheduled(&self, limit: usize) -> Result<Vec<Due>>;

    /// The first `limit` waiting jobs by the time they expire; `limit_ms` tells a queue's setting.
    fn to_expire(&self, limit_ms: &dyn Fn(&Name) -> Option<u64>, limit: usize) -> Result<Vec<Due>>;

    /// The first `limit` ended jobs by the time they are removed; `settings` tells a queue's. Of those
    /// that are not due `now`, the first is enough.
    fn to_remove(
        &mut self,
        settings: &dyn Fn(&Name) -> QueueSettings,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Due>>;

    /// An ordering key of a queue.
    fn line(&self, queue: &Name, key: &str) -> Result<Line>;

    /// The jobs leased to a session.
    fn held(&self, session: &SessionId) -> Vec<JobId>;

    /// How a unique key is held, if it is.
    fn unique(&self, slot: &UniqueSlot) -> Result<Option<UniqueHold>>;

    /// Sets or frees a unique key.
    fn set_unique(&mut self, slot: UniqueSlot, hold: Option<UniqueHold>) -> Result<()>;

    /// Forgets unique keys whose window is over.
    fn forget_windows(&mut self, now: Timestamp) -> Result<()>;

    /// Remembers a session, or that it is gone.
    fn save_session(&mut self, id: &SessionId, session: Option<&SessionEntry>) -> Result<()>;

    /// Remembers the settings of a queue; `None` are the defaults.
    fn save_queue(&mut self, queue: &Name, settings: Option<&QueueSettings>) -> Result<()>;

    /// Remembers the settings of a kind; `None` are the defaults.
    fn save_kind(&mut self, kind: &Name, settings: Option<&KindSettings>) -> Result<()>;

    /// Looks at up to `limit` lanes, and forgets those that have been without jobs for
    /// [`LANE_IDLE_MS`](windlass_core::limits::LANE_IDLE_MS).
    fn forget_lanes(&mut self, now: Timestamp, limit: usize) -> Result<()>;

    /// One operation on records, already found acceptable.
    fn record(&mut self, op: RecordOp, now: Timestamp) -> Result<RecordReply>;

    /// Whether every job is in exactly one place and whatever is derived agrees.
    fn check(&mut self, sessions: &dyn Fn(&SessionId) -> bool, repair: bool)
    -> Result<CheckReport>;

    /// Gives space back.
    fn compact(&mut self) -> Result<()>;
}
