//! The storage traits: rows that every run of the executor needs, and queries over a whole store.

use crate::entry::{Entry, UniqueSlot};
use crate::outbox::Outbox;
use crate::session::SessionEntry;
use std::collections::BTreeMap;
use windlass_core::engine::{
    CheckReport, Event, EventsReply, EventsRequest, LaneStats, Page, RecordOp, RecordReply,
    RemovedCount, RemovedKey, RemovedQuery, SessionId,
};
use windlass_core::model::{EventBounds, Input, KindSettings, Limit, Name, QueueSettings};
use windlass_core::policy::{Ahead, Meter};
use windlass_core::{JobId, Result, Timestamp};

/// A queue and a kind.
pub type LaneKey = (Name, Name);

/// The position of a ready job in its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Head {
    /// The rank.
    pub rank: i64,
    /// The order of entry.
    pub seq: u64,
    /// The id of the job.
    pub id: JobId,
    /// Whether the job is handed out alone, because it may crash its worker.
    pub suspect: bool,
}

/// An ordering key: its holder, and the first job in line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The job that holds it.
    pub holder: Option<JobId>,
    /// The first job in line for it, by order of entry.
    pub first: Option<(u64, JobId)>,
}

/// The order in which the jobs of a group leave their line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinePlace {
    /// The priority; lower is first.
    pub priority: i32,
    /// The time at which the job was due.
    pub run_at: Timestamp,
    /// The order of entry.
    pub seq: u64,
}

/// The first job in the line of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineHead {
    /// Its place.
    pub place: LinePlace,
    /// Its id.
    pub id: JobId,
    /// Its cost.
    pub cost: u32,
    /// The limit that it waits for.
    pub limit: Name,
}

/// The line of a group in a lane with limits by group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupLine {
    /// The first job in line.
    pub first: Option<LineHead>,
    /// The jobs that have left the line, are ready and have not started.
    pub ahead: Ahead,
    /// When the first job may be released, if time alone decides that.
    pub opens_at: Option<Timestamp>,
}

/// A line that opens at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Opening {
    /// The time.
    pub at: Timestamp,
    /// The kind of its lane.
    pub kind: Name,
    /// Its group.
    pub group: String,
}

/// Open dependencies on a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenEdges {
    /// The dependents, and the position of each dependency among theirs.
    pub edges: Vec<(JobId, u32)>,
    /// Whether there are others.
    pub more: bool,
}

impl OpenEdges {
    /// The first `limit` of these edges.
    pub fn of(edges: impl IntoIterator<Item = (JobId, u32)>, limit: usize) -> Self {
        let mut edges: Vec<_> = edges.into_iter().take(limit + 1).collect();
        let more = edges.len() > limit;
        edges.truncate(limit);
        Self { edges, more }
    }
}

/// A unique key that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniqueHold {
    /// The job that holds it.
    pub holder: JobId,
    /// The end of its window; `None`: it is held until the holder ends.
    pub until: Option<Timestamp>,
}

impl UniqueHold {
    /// The end of a window that only the removal of the holder ends.
    pub const WHILE_STORED: Timestamp = Timestamp::MAX;
}

/// The turns of a tenant in a fair queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The turn being served.
    pub served: i64,
    /// The latest turn that the tenant has taken; `None` for a new tenant.
    pub latest: Option<i64>,
}

/// Counts of the jobs under limits, for statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitCounts {
    /// Jobs in the lines of groups, by lane.
    pub in_lines: BTreeMap<LaneKey, u64>,
    /// Lines, with the number of jobs that are in line or ready.
    pub lines: Vec<(LaneKey, String, u64)>,
    /// Running jobs by limit and group.
    pub running: Vec<(Name, String, u64)>,
}

/// The time at which a job falls due, and its id.
pub type Due = (Timestamp, JobId);

/// The rows of jobs, keys, sessions and settings, owned by one writer.
///
/// A job changes by being taken out of its place, changed, and stored again; whatever is derived from it
/// (lanes, times, lines, held leases) follows. An error means that the store failed, not that the
/// request was invalid: the owner of the transaction must roll it back.
pub trait Rows {
    /// The outboxes of a store whose atomicity is the queue. A store that is atomic as a whole has none.
    fn outbox(&self) -> Option<&dyn Outbox> {
        None
    }

    /// The outboxes, to begin a step and to append messages.
    fn outbox_mut(&mut self) -> Option<&mut dyn Outbox> {
        None
    }

    /// Reads a job.
    fn with_job<T>(&self, id: JobId, read: impl FnOnce(&Entry) -> T) -> Result<Option<T>>;

    /// Takes a job out of its place, to be [stored](Self::put) in its new one, [put back](Self::put_back)
    /// or [removed](Self::remove).
    fn take(&mut self, id: JobId) -> Result<Option<Box<Entry>>>;

    /// Stores a job that was taken, or a new one, in the place of its state.
    fn put(&mut self, entry: Box<Entry>) -> Result<()>;

    /// Puts a job that was taken back unchanged: nothing is written.
    fn put_back(&mut self, entry: Box<Entry>) -> Result<()>;

    /// Removes a job that was taken.
    fn remove(&mut self, entry: Box<Entry>) -> Result<()>;

    /// Adds a job to the history of removed jobs, in the same transaction.
    fn count_removed(&mut self, key: RemovedKey) -> Result<()>;

    /// Appends an event to the stream of a queue, in the same transaction, and drops the oldest ones beyond
    /// [`EventBounds::max`].
    ///
    /// This and [`reset_events`](Self::reset_events) do nothing by default: the executor of a store without
    /// [events](windlass_core::engine::Capability::Events) never calls them.
    fn append_event(&mut self, _queue: &Name, _bounds: EventBounds, _event: Event) -> Result<()> {
        Ok(())
    }

    /// Drops all events of a queue and begins a new stream. Called when events are switched on or off.
    fn reset_events(&mut self, _queue: &Name, _now: Timestamp) -> Result<()> {
        Ok(())
    }

    /// The lanes of a queue that may have ready jobs. Called by every claim: its cost must not depend on the number
    /// of lanes without ready jobs.
    fn lanes(&self, queue: &Name) -> Vec<LaneKey>;

    /// The number of lanes in the queue of this lane; `None` if the lane exists.
    fn lanes_before(&self, lane: &LaneKey) -> Option<usize>;

    /// Ready jobs of a lane by (rank, seq), after a position.
    fn ready(&self, lane: &LaneKey, after: Option<(i64, u64)>, limit: usize) -> Result<Vec<Head>>;

    /// The stored turns of a tenant in a fair queue. `None` by default: a store with a single writer needs none,
    /// because its executor has taken all turns.
    fn standing(&self, _queue: &Name, _tenant: &Option<String>) -> Option<Standing> {
        None
    }

    /// The number of jobs in a queue that wait for their start.
    fn depth(&self, queue: &Name) -> u64;

    /// The holder and the line of an ordering key.
    fn line(&self, queue: &Name, key: &str) -> Result<Line>;

    /// The jobs leased to a session.
    fn held(&self, session: &SessionId) -> Vec<JobId>;

    /// The holder of a unique key, if it is held.
    fn unique(&self, slot: &UniqueSlot) -> Result<Option<UniqueHold>>;

    /// Sets or removes the holder of a unique key.
    fn set_unique(&mut self, slot: UniqueSlot, hold: Option<UniqueHold>) -> Result<()>;

    /// Stores a session; `None` removes it. Does nothing by default: the executor has the only copy.
    fn save_session(&mut self, _id: &SessionId, _session: Option<&SessionEntry>) -> Result<()> {
        Ok(())
    }

    /// Stores the settings of a queue; `None` are the defaults. Does nothing by default: the executor has the only
    /// copy.
    fn save_queue(&mut self, _queue: &Name, _settings: Option<&QueueSettings>) -> Result<()> {
        Ok(())
    }

    /// Number of running jobs that a limit counts, in one group or in all.
    ///
    /// This and the following methods have the defaults of a store without
    /// [limits](windlass_core::engine::Capability::Limits), whose executor never calls them.
    fn running_under(&self, _limit: &Name, _group: Option<&str>) -> Result<u64> {
        Ok(0)
    }

    /// Reads what a limit remembers about a group; a new meter if nothing is stored.
    fn with_meter<T>(
        &self,
        _limit: &Name,
        _group: &str,
        read: impl FnOnce(&Meter) -> T,
    ) -> Result<T> {
        Ok(read(&Meter::default()))
    }

    /// Stores what a limit remembers about a group.
    fn save_meter(&mut self, _limit: &Name, _group: &str, _meter: &Meter) -> Result<()> {
        Ok(())
    }

    /// The line of a group in a lane.
    fn group_line(&self, _lane: &LaneKey, _group: &str) -> Result<GroupLine> {
        Ok(GroupLine::default())
    }

    /// The lanes in which jobs of a group are in line.
    fn lanes_in_line(&self, _group: &str) -> Result<Vec<LaneKey>> {
        Ok(Vec::new())
    }

    /// Sets the time at which a line opens.
    fn set_opening(&mut self, _lane: &LaneKey, _group: &str, _at: Option<Timestamp>) -> Result<()> {
        Ok(())
    }

    /// The first `limit` lines of a queue by the time at which they open. Called by every claim.
    fn openings(&self, _queue: &Name, _limit: usize) -> Result<Vec<Opening>> {
        Ok(Vec::new())
    }

    /// Lets all lines with jobs open at `at`: those of a queue, or those of a kind.
    fn reopen(
        &mut self,
        _queue: Option<&Name>,
        _kind: Option<&Name>,
        _at: Timestamp,
    ) -> Result<()> {
        Ok(())
    }

    /// Stores a limit; `None` removes it.
    fn save_limit(&mut self, _name: &Name, _limit: Option<&Limit>) -> Result<()> {
        Ok(())
    }

    /// The dependencies of a job, in the order of its definition.
    ///
    /// This and the following methods have the defaults of a store without
    /// [flows](windlass_core::engine::Capability::Flows), whose executor never calls them. A store that
    /// [removes](Self::remove) a job removes its dependencies, too.
    fn inputs(&self, _dependent: JobId) -> Result<Vec<Input>> {
        Ok(Vec::new())
    }

    /// Up to `limit` dependencies of a job, from a position on. The jobs of those that are [`kept`](Input::kept) will be
    /// changed.
    fn inputs_from(&self, dependent: JobId, from: u32, limit: usize) -> Result<Vec<Input>> {
        let inputs = self.inputs(dependent)?.into_iter();
        Ok(inputs.skip(from as usize).take(limit).collect())
    }

    /// One dependency of a job, by its position.
    fn input(&self, _dependent: JobId, _position: u32) -> Result<Option<Input>> {
        Ok(None)
    }

    /// Stores further dependencies of a job, from this position on.
    fn add_inputs(&mut self, _dependent: JobId, _from: u32, _inputs: Vec<Input>) -> Result<()> {
        Ok(())
    }

    /// Changes a dependency of a job.
    fn set_input(&mut self, _dependent: JobId, _position: u32, _input: Input) -> Result<()> {
        Ok(())
    }

    /// The first `limit` open dependencies on a job; in a step of a queue, those of jobs of that queue.
    fn open_edges(&self, _upstream: JobId, _limit: usize) -> Result<OpenEdges> {
        Ok(OpenEdges::default())
    }

    /// Stores the settings of a kind; `None` are the defaults. Does nothing by default: the executor has the only
    /// copy.
    fn save_kind(&mut self, _kind: &Name, _settings: Option<&KindSettings>) -> Result<()> {
        Ok(())
    }
}

/// Queries and maintenance over all rows of a store, which only a store that owns all of them can serve.
pub trait Maintenance: Rows {
    /// The highest rank of a queue's ready jobs.
    fn last_rank(&self, queue: &Name) -> Result<Option<i64>>;

    /// The counts of all lanes, without their gates.
    fn stats(&self) -> Result<Vec<LaneStats>>;

    /// Counts of the jobs under limits: all lanes, and at most `most` lines and running groups.
    fn limit_counts(&self, most: usize) -> Result<LimitCounts>;

    /// The first `limit` scheduled jobs by the time they are due.
    fn scheduled(&self, limit: usize) -> Result<Vec<Due>>;

    /// The first `limit` lines by the time at which they open, of all queues.
    fn all_openings(&self, _limit: usize) -> Result<Vec<(Name, Opening)>> {
        Ok(Vec::new())
    }

    /// The first `limit` [unresolved](windlass_core::model::Job::is_unresolved) jobs.
    fn unresolved(&self, _limit: usize) -> Result<Vec<JobId>> {
        Ok(Vec::new())
    }

    /// The first `limit` waiting jobs by the time they expire; `limit_ms` is the setting of a queue.
    fn to_expire(&self, limit_ms: &dyn Fn(&Name) -> Option<u64>, limit: usize) -> Result<Vec<Due>>;

    /// The first `limit` ended jobs by the time they are removed; `settings` are those of a queue. Of the jobs
    /// that are not due `now`, the first is enough.
    fn to_remove(
        &mut self,
        settings: &dyn Fn(&Name) -> QueueSettings,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Due>>;

    /// A page of the history of removed jobs; the request is valid.
    fn removed(&mut self, query: &RemovedQuery) -> Result<Page<RemovedCount>>;

    /// Deletes up to `limit` rows of the history of removed jobs whose hour ended at `before` or earlier.
    fn forget_removed(&mut self, before: Timestamp, limit: usize) -> Result<()>;

    /// Events of a queue that has a stream; the request is valid. Does not wait.
    fn events(&mut self, request: &EventsRequest) -> Result<EventsReply>;

    /// Drops up to `limit` events that are older than their queue keeps them (`None`: it keeps none). Returns whether more
    /// are left.
    fn drop_events(
        &mut self,
        bounds: &dyn Fn(&Name) -> Option<EventBounds>,
        now: Timestamp,
        limit: usize,
    ) -> Result<bool>;

    /// Removes unique keys whose window is over and lanes that have been without jobs for
    /// [`LANE_IDLE_MS`](windlass_core::limits::LANE_IDLE_MS), reading up to `limit` lanes; returns unused space.
    fn compact(&mut self, now: Timestamp, limit: usize) -> Result<()>;

    /// Checks that every job is in exactly one place and everything derived from it agrees.
    fn check(&mut self, sessions: &dyn Fn(&SessionId) -> bool, repair: bool)
    -> Result<CheckReport>;
}

/// Records of services, beside the jobs.
pub trait Records {
    /// One operation on records, already validated.
    fn record(&mut self, op: RecordOp, now: Timestamp) -> Result<RecordReply>;
}
