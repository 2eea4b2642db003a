//! The rows of one run of a verb: the loaded rows, overlaid with the changes of the run. Notes which rows the run
//! needed and were not loaded; the results of such a run are discarded.

use crate::conn::error::unavailable;
use crate::rows::entries::Found;
use crate::rows::lanes::Lanes;
use crate::slow::load::{LineRows, Loaded};
use crate::slow::wants::Wants;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use windlass_core::engine::{SessionId, SettleItem};
use windlass_core::limits::LANES_PER_QUEUE_MAX;
use windlass_core::model::{KindSettings, Name, QueueSettings, State};
use windlass_core::{Error, JobId, Result};
use windlass_executor::{
    Entry, Head, LaneKey, Line, Rows, SessionEntry, Standing, UniqueHold, UniqueSlot,
};

/// A job that a run has changed.
enum Now {
    /// Taken out of its place; the value is whether it was changed before.
    Taken { changed: bool },
    /// Changed.
    Is(Box<Entry>),
    /// Removed.
    Gone,
}

/// Ready jobs of a lane by (rank, seq), and whether each must be claimed alone.
type Lane = BTreeMap<(i64, u64), (JobId, bool)>;

/// The working set.
pub(crate) struct WorkingSet<'l> {
    base: &'l Loaded,
    lanes: &'l Lanes,
    jobs: HashMap<JobId, Now>,
    /// Jobs that this run made ready, by lane.
    readied: BTreeMap<LaneKey, Lane>,
    pub(crate) uniques: HashMap<UniqueSlot, Option<UniqueHold>>,
    lines: HashMap<(Name, String), LineRows>,
    held: HashMap<SessionId, BTreeSet<JobId>>,
    /// Change of the depth of queues by this run.
    deeper: HashMap<Name, i64>,
    pub(crate) sessions: BTreeMap<SessionId, Option<SessionEntry>>,
    pub(crate) queues: BTreeMap<Name, Option<QueueSettings>>,
    pub(crate) kinds: BTreeMap<Name, Option<KindSettings>>,
    /// New ids: no stored job can have them.
    fresh: HashSet<JobId>,
    missing: RefCell<Wants>,
}

/// A job before and after a run.
pub(crate) struct Changed<'a> {
    pub(crate) before: Option<&'a Found>,
    /// `None` if it was removed.
    pub(crate) after: Option<&'a Entry>,
}

/// The holder of an ordering key before and after a run.
pub(crate) struct KeyMoved<'a> {
    pub(crate) queue: &'a Name,
    pub(crate) key: &'a str,
    pub(crate) before: Option<JobId>,
    pub(crate) after: Option<JobId>,
}

impl<'l> WorkingSet<'l> {
    pub(crate) fn over(base: &'l Loaded, lanes: &'l Lanes) -> Self {
        Self {
            base,
            lanes,
            jobs: HashMap::new(),
            readied: BTreeMap::new(),
            uniques: HashMap::new(),
            lines: base.lines.clone(),
            held: base.held.clone(),
            deeper: HashMap::new(),
            sessions: BTreeMap::new(),
            queues: BTreeMap::new(),
            kinds: BTreeMap::new(),
            fresh: HashSet::new(),
            missing: RefCell::default(),
        }
    }

    /// Notes new ids.
    pub(crate) fn add_fresh(&mut self, ids: impl IntoIterator<Item = JobId>) {
        self.fresh.extend(ids);
    }

    /// Notes the ids of follow-ups as missing unless they are loaded. They derive from the attempt, so that one round
    /// finds all of them.
    pub(crate) fn expect_follow_ups(&self, items: &[SettleItem]) {
        for item in items.iter().filter(|item| !item.follow_ups.is_empty()) {
            let known = self.base.jobs.get(&item.id).and_then(|known| known.found.as_ref());
            let Some(leased) = known.and_then(|found| found.entry.leased.as_ref()) else {
                continue;
            };
            let attempt = known.map_or(0, |found| found.entry.job.header.counters.attempt);
            let derived = |index| JobId::follow_up(item.id, attempt, index, leased.started_at);
            let ids = item.follow_ups.iter().enumerate();
            let ids = ids.map(|(index, job)| job.id.unwrap_or_else(|| derived(index)));
            let unknown = ids.filter(|id| !self.base.jobs.contains_key(id));
            self.missing.borrow_mut().peek.extend(unknown);
        }
    }

    /// The rows that the run needed and were not loaded.
    pub(crate) fn missing(&self) -> Wants {
        self.missing.take()
    }

    /// The jobs that a run changed.
    pub(crate) fn changed(&self) -> impl Iterator<Item = Changed<'_>> {
        self.jobs.iter().filter_map(|(id, now)| {
            let before = self.base.jobs.get(id).and_then(|known| known.found.as_ref());
            match now {
                Now::Is(entry) => Some(Changed { before, after: Some(entry) }),
                Now::Gone if before.is_some() => Some(Changed { before, after: None }),
                Now::Gone | Now::Taken { .. } => None,
            }
        })
    }

    /// The ordering keys with a new holder.
    pub(crate) fn moved_keys(&self) -> impl Iterator<Item = KeyMoved<'_>> {
        self.lines.iter().filter_map(|((queue, key), line)| {
            let before = self.base.lines.get(&(queue.clone(), key.clone()))?.holder;
            let moved = before != line.holder;
            moved.then_some(KeyMoved { queue, key, before, after: line.holder })
        })
    }

    /// Whether a session belongs to a single claim.
    pub(crate) fn is_alone(&self, id: &SessionId) -> bool {
        let loaded = || self.base.sessions.get(id);
        let session = self.sessions.get(id).map_or_else(loaded, Option::as_ref);
        session.is_some_and(|session| session.alone)
    }

    /// The loaded rows.
    pub(crate) const fn base(&self) -> &'l Loaded {
        self.base
    }

    fn miss(&self, note: impl FnOnce(&mut Wants)) -> Error {
        note(&mut self.missing.borrow_mut());
        unavailable("not loaded yet")
    }

    /// Adds a job to the derived data of its place.
    fn enter(&mut self, entry: &Entry, is_new_place: bool) -> Result<()> {
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
        self.with_line(entry, |line| {
            if entry.holds_key {
                line.holder = Some(id);
            } else if entry.in_line() {
                line.waiting.insert((entry.seq, id));
            }
        })
    }

    /// Removes a job from the derived data of its place.
    fn leave(&mut self, entry: &Entry) -> Result<()> {
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
        self.with_line(entry, |line| {
            line.holder = line.holder.filter(|holder| *holder != id);
            line.waiting.remove(&(entry.seq, id));
        })
    }

    /// Whether a job held its ordering key when it was loaded.
    fn held_key(&self, id: JobId) -> bool {
        let known = self.base.jobs.get(&id).and_then(|known| known.found.as_ref());
        known.is_some_and(|found| found.entry.holds_key)
    }

    fn with_line(&mut self, entry: &Entry, change: impl FnOnce(&mut LineRows)) -> Result<()> {
        let header = &entry.job.header;
        let Some(key) = &header.key else { return Ok(()) };
        let line = (header.queue.clone(), key.clone());
        let holds_as_before = entry.holds_key == self.held_key(entry.id());
        match self.lines.get_mut(&line) {
            Some(line) => {
                change(line);
                Ok(())
            }
            // Neither holder nor in line, or holder as before: the key does not change.
            None if !entry.in_line() && holds_as_before => Ok(()),
            None => Err(self.miss(|wants| {
                wants.lines.insert(line);
            })),
        }
    }
}

impl Rows for WorkingSet<'_> {
    fn with_job<T>(&self, id: JobId, look: impl FnOnce(&Entry) -> T) -> Result<Option<T>> {
        match self.jobs.get(&id) {
            Some(Now::Is(entry)) => return Ok(Some(look(entry))),
            Some(Now::Gone | Now::Taken { .. }) => return Ok(None),
            None => {}
        }
        match self.base.jobs.get(&id) {
            Some(known) => Ok(known.found.as_ref().map(|found| look(&found.entry))),
            None if self.fresh.contains(&id) => Ok(None),
            None => Err(self.miss(|wants| {
                wants.peek.insert(id);
            })),
        }
    }

    fn take(&mut self, id: JobId) -> Result<Option<Box<Entry>>> {
        let base = self.base;
        let entry = match self.jobs.remove(&id) {
            Some(Now::Is(entry)) => {
                self.jobs.insert(id, Now::Taken { changed: true });
                entry
            }
            Some(now) => {
                self.jobs.insert(id, now);
                return Ok(None);
            }
            None => match base.jobs.get(&id) {
                Some(known) if known.locked => {
                    let Some(found) = &known.found else { return Ok(None) };
                    self.jobs.insert(id, Now::Taken { changed: false });
                    Box::new(found.entry.clone())
                }
                _ => {
                    return Err(self.miss(|wants| {
                        wants.own.insert(id);
                    }));
                }
            },
        };
        self.leave(&entry)?;
        Ok(Some(entry))
    }

    fn put(&mut self, entry: Box<Entry>) -> Result<()> {
        self.enter(&entry, true)?;
        self.jobs.insert(entry.id(), Now::Is(entry));
        Ok(())
    }

    fn put_back(&mut self, entry: Box<Entry>) -> Result<()> {
        match self.jobs.remove(&entry.id()) {
            Some(Now::Taken { changed: false }) => self.enter(&entry, false),
            _ => self.put(entry),
        }
    }

    fn remove(&mut self, entry: Box<Entry>) -> Result<()> {
        self.jobs.insert(entry.id(), Now::Gone);
        Ok(())
    }

    fn lanes(&self, queue: &Name) -> Vec<LaneKey> {
        let lanes = self.base.heads.keys().chain(self.readied.keys());
        let lanes: BTreeSet<&LaneKey> = lanes.filter(|(of, _)| of == queue).collect();
        lanes.into_iter().cloned().collect()
    }

    fn lanes_before(&self, (queue, kind): &LaneKey) -> Option<usize> {
        // Lanes are created before a run if their queue has room: a lane without a number found none.
        self.lanes.number(queue, kind).is_none().then_some(LANES_PER_QUEUE_MAX)
    }

    fn ready(&self, lane: &LaneKey, after: Option<(i64, u64)>, limit: usize) -> Result<Vec<Head>> {
        let beyond = |head: &Head| after.is_none_or(|after| (head.rank, head.seq) > after);
        let there = self.base.heads.get(lane).into_iter().flatten();
        let there = there.filter(|head| !self.jobs.contains_key(&head.id)).copied();
        let new = self.readied.get(lane).into_iter().flatten();
        let new = new.map(|((rank, seq), (id, suspect))| Head {
            rank: *rank,
            seq: *seq,
            id: *id,
            suspect: *suspect,
        });
        let mut heads: Vec<Head> = there.chain(new).filter(beyond).collect();
        heads.sort_unstable();
        heads.truncate(limit);
        Ok(heads)
    }

    fn standing(&self, queue: &Name, tenant: &Option<String>) -> Option<Standing> {
        let standing = self.base.standing(queue, tenant);
        if standing.is_none() {
            self.miss(|wants| {
                wants.turns.insert((queue.clone(), tenant.clone()));
            });
        }
        standing
    }

    fn depth(&self, queue: &Name) -> u64 {
        let Some(depth) = self.base.depths.get(queue) else {
            self.miss(|wants| {
                wants.depths.insert(queue.clone());
            });
            return 0;
        };
        depth.saturating_add_signed(self.deeper.get(queue).copied().unwrap_or(0))
    }

    fn line(&self, queue: &Name, key: &str) -> Result<Line> {
        let name = (queue.clone(), key.to_owned());
        match self.lines.get(&name).and_then(LineRows::line) {
            Some(line) => Ok(line),
            None => Err(self.miss(|wants| {
                wants.lines.insert(name);
            })),
        }
    }

    fn held(&self, session: &SessionId) -> Vec<JobId> {
        self.held.get(session).into_iter().flatten().copied().collect()
    }

    fn unique(&self, slot: &UniqueSlot) -> Result<Option<UniqueHold>> {
        match self.uniques.get(slot).or_else(|| self.base.uniques.get(slot)) {
            Some(hold) => Ok(*hold),
            None => Err(self.miss(|wants| {
                wants.slots.insert(slot.clone());
            })),
        }
    }

    fn set_unique(&mut self, slot: UniqueSlot, hold: Option<UniqueHold>) -> Result<()> {
        self.uniques.insert(slot, hold);
        Ok(())
    }

    fn save_session(&mut self, id: &SessionId, session: Option<&SessionEntry>) -> Result<()> {
        if session.is_some() {
            self.held.entry(id.clone()).or_default();
        }
        self.sessions.insert(id.clone(), session.cloned());
        Ok(())
    }

    fn save_queue(&mut self, queue: &Name, settings: Option<&QueueSettings>) -> Result<()> {
        self.queues.insert(queue.clone(), settings.cloned());
        Ok(())
    }

    fn save_kind(&mut self, kind: &Name, settings: Option<&KindSettings>) -> Result<()> {
        self.kinds.insert(kind.clone(), settings.cloned());
        Ok(())
    }
}
