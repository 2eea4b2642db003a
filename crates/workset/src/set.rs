//! The working set of one run: the loaded rows, and over them the changes of the run. Touches no store.

use crate::edges::EdgeKey;
use crate::groups::{GroupRows, MeterKey, Reopened};
use crate::loaded::{LineRows, Loaded};
use crate::wants::Wants;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use windlass_core::engine::{Event, RemovedKey, SessionId, SettleItem};
use windlass_core::model::{Input, KindSettings, Limit, Name, QueueSettings, State};
use windlass_core::policy::Meter;
use windlass_core::{Error, JobId, Result, Timestamp};
use windlass_executor::{Entry, LaneKey, SessionEntry, UniqueHold, UniqueSlot};

/// The lanes that exist in a store, for the limit of lanes per queue.
pub trait Lanes: Sync {
    /// The number of lanes in the queue of this lane; `None` if the lane exists.
    fn lanes_before(&self, lane: &LaneKey) -> Option<usize>;
}

/// A job that a run has touched.
#[derive(Debug)]
pub(crate) enum Touched {
    /// Taken out of its place; `changed`: the run had changed it before.
    Taken { changed: bool },
    /// Stored by the run.
    Stored(Box<Entry>),
    /// Removed by the run.
    Removed,
}

/// Ready jobs of a lane by (rank, seq), and whether each must be handed out alone.
pub(crate) type ReadyLane = BTreeMap<(i64, u64), (JobId, bool)>;

/// The rows of one run: the loaded ones, and over them the changes of the run. If the run needs a row that was not
/// loaded, it is noted in [`missing`](Self::missing), and the results of the run are void.
pub struct WorkingSet<'l, X> {
    pub(crate) base: &'l Loaded<X>,
    pub(crate) known_lanes: &'l dyn Lanes,
    pub(crate) jobs: HashMap<JobId, Touched>,
    /// Jobs that the run made ready, by lane.
    pub(crate) readied: BTreeMap<LaneKey, ReadyLane>,
    pub(crate) uniques: HashMap<UniqueSlot, Option<UniqueHold>>,
    pub(crate) lines: HashMap<(Name, String), LineRows>,
    pub(crate) held: HashMap<SessionId, BTreeSet<JobId>>,
    /// The changes of queue depths.
    pub(crate) deeper: HashMap<Name, i64>,
    pub(crate) sessions: BTreeMap<SessionId, Option<SessionEntry>>,
    pub(crate) queues: BTreeMap<Name, Option<QueueSettings>>,
    pub(crate) kinds: BTreeMap<Name, Option<KindSettings>>,
    pub(crate) limits: BTreeMap<Name, Option<Limit>>,
    /// Meters that the run has changed.
    pub(crate) meters: BTreeMap<MeterKey, Meter>,
    /// Jobs of groups, by group and lane.
    pub(crate) groups: BTreeMap<String, BTreeMap<LaneKey, GroupRows>>,
    /// Changes of the number of running jobs, by lane; only if the store has limits.
    pub(crate) started: BTreeMap<LaneKey, i64>,
    pub(crate) reopened: Vec<Reopened>,
    /// Dependencies that the run has added or changed.
    pub(crate) inputs: BTreeMap<EdgeKey, Input>,
    /// Jobs that the run removed, for the history.
    pub(crate) removed: BTreeMap<RemovedKey, u64>,
    /// Events that the run has appended, each with the queue of its stream.
    pub(crate) events: Vec<(Name, Event)>,
    /// Queues whose events the run has switched on or off, and when.
    pub(crate) event_resets: BTreeMap<Name, Timestamp>,
    /// Ids that were just generated, so that no stored job can have them.
    pub(crate) fresh: HashSet<JobId>,
    missing: RefCell<Wants>,
}

impl<'l, X> WorkingSet<'l, X> {
    /// A working set without changes.
    pub fn over(base: &'l Loaded<X>, known_lanes: &'l dyn Lanes) -> Self {
        Self {
            base,
            known_lanes,
            jobs: HashMap::new(),
            readied: BTreeMap::new(),
            uniques: HashMap::new(),
            lines: base.lines.clone(),
            held: base.held.clone(),
            deeper: HashMap::new(),
            sessions: BTreeMap::new(),
            queues: BTreeMap::new(),
            kinds: BTreeMap::new(),
            limits: BTreeMap::new(),
            meters: BTreeMap::new(),
            groups: base.groups.clone(),
            started: BTreeMap::new(),
            reopened: Vec::new(),
            inputs: BTreeMap::new(),
            removed: BTreeMap::new(),
            events: Vec::new(),
            event_resets: BTreeMap::new(),
            fresh: HashSet::new(),
            missing: RefCell::default(),
        }
    }

    /// Declares that these ids were just generated, so that they need not be looked up.
    pub fn add_fresh(&mut self, ids: impl IntoIterator<Item = JobId>) {
        self.fresh.extend(ids);
    }

    /// Notes all follow-ups of these reports that are not loaded, so that one more load finds them together. Their
    /// ids derive from the attempt, which is known only after the first load.
    pub fn expect_follow_ups(&self, items: &[SettleItem]) {
        self.expect_groups_of_follow_ups(items);
        for item in items.iter().filter(|item| !item.follow_ups.is_empty()) {
            let Some(found) = self.base.found(item.id) else { continue };
            let Some(leased) = &found.entry.leased else { continue };
            let attempt = found.entry.job.header.counters.attempt;
            let derived = |index| JobId::follow_up(item.id, attempt, index, leased.started_at);
            let ids = item.follow_ups.iter().enumerate();
            let ids = ids.map(|(index, job)| job.id.unwrap_or_else(|| derived(index)));
            let unknown = ids.filter(|id| !self.base.jobs.contains_key(id));
            self.missing.borrow_mut().peek.extend(unknown);
        }
    }

    /// The rows that the run needed and that were not loaded.
    pub fn missing(&self) -> Wants {
        self.missing.take()
    }

    /// The loaded rows.
    pub const fn base(&self) -> &'l Loaded<X> {
        self.base
    }

    /// Notes a row that was not loaded. The error ends the run, whose results are void, and is never reported.
    pub(crate) fn miss(&self, note: impl FnOnce(&mut Wants)) -> Error {
        note(&mut self.missing.borrow_mut());
        Error::Unavailable { store: String::new(), reason: String::new() }
    }

    /// Adds a job to everything that is derived from it.
    pub(crate) fn enter(&mut self, entry: &Entry, is_new_place: bool) -> Result<()> {
        let (id, header) = (entry.id(), &entry.job.header);
        if entry.job.state.is_waiting() {
            *self.deeper.entry(header.queue.clone()).or_default() += 1;
        }
        if let Some(held) =
            entry.leased.as_ref().and_then(|leased| self.held.get_mut(&leased.session))
        {
            held.insert(id);
        }
        if entry.job.state == State::Available && is_new_place {
            let lane = self.readied.entry((header.queue.clone(), header.kind.clone())).or_default();
            lane.insert((entry.rank, entry.seq), (id, header.counters.is_suspect()));
        }
        self.count_limits(entry, 1)?;
        self.with_line(entry, |line| {
            if entry.holds_key {
                line.holder = Some(id);
            } else if entry.in_line() {
                line.waiting.insert((entry.seq, id));
            }
        })
    }

    /// Removes a job from everything that is derived from it.
    pub(crate) fn leave(&mut self, entry: &Entry) -> Result<()> {
        let (id, header) = (entry.id(), &entry.job.header);
        if entry.job.state.is_waiting() {
            *self.deeper.entry(header.queue.clone()).or_default() -= 1;
        }
        if let Some(held) =
            entry.leased.as_ref().and_then(|leased| self.held.get_mut(&leased.session))
        {
            held.remove(&id);
        }
        if let Some(lane) = self.readied.get_mut(&(header.queue.clone(), header.kind.clone())) {
            lane.remove(&(entry.rank, entry.seq));
        }
        self.count_limits(entry, -1)?;
        self.with_line(entry, |line| {
            line.holder = line.holder.filter(|holder| *holder != id);
            line.waiting.remove(&(entry.seq, id));
        })
    }

    fn with_line(&mut self, entry: &Entry, change: impl FnOnce(&mut LineRows)) -> Result<()> {
        let header = &entry.job.header;
        let Some(key) = &header.key else { return Ok(()) };
        let line = (header.queue.clone(), key.clone());
        let held_key = self.base.found(entry.id()).is_some_and(|found| found.entry.holds_key);
        match self.lines.get_mut(&line) {
            Some(line) => {
                change(line);
                Ok(())
            }
            // The line does not change: the job is not in it, and holds the key as before or not at all.
            None if !entry.in_line() && entry.holds_key == held_key => Ok(()),
            None => Err(self.miss(|wants| {
                wants.lines.insert(line);
            })),
        }
    }
}
