//! The rows that were loaded for a verb.

use crate::edges::LoadedEdges;
use crate::groups::{GroupRows, MeterKey};
use crate::wants::{Tenant, Wants};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use windlass_core::engine::{Claim, SessionId};
use windlass_core::model::{KindSettings, Limit, Name, QueueSettings, State};
use windlass_core::policy::Meter;
use windlass_core::{JobId, Timestamp};
use windlass_executor::{
    Due, Entry, Head, LaneKey, Line, Opening, SessionEntry, Standing, UniqueHold, UniqueSlot,
};

/// Jobs that are read of a line at first. A run that needs more of it loads [`LineRows::next_chunk`].
pub const LINE_CHUNK: usize = 8;

/// A stored job.
#[derive(Clone, Debug)]
pub struct Found<X> {
    /// The job.
    pub entry: Entry,
    /// The columns of its row that only the store needs.
    pub row: X,
}

/// A job that was looked up.
#[derive(Debug)]
pub struct Known<X> {
    /// The job, if it exists.
    pub found: Option<Found<X>>,
    /// Whether a run may change the job: the store has locked it, or will check its version.
    pub locked: bool,
}

/// An entry of an expiry index whose job does not expire at that time any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleDeadline {
    /// The queue whose limit the entry belongs to; `None` for the job's own limit.
    pub queue: Option<Name>,
    /// The time in the index.
    pub at: Timestamp,
    /// The id of the job.
    pub id: JobId,
}

/// An ordering key: its holder, and the first jobs in line.
#[derive(Clone, Debug, Default)]
pub struct LineRows {
    /// The job that holds the key.
    pub holder: Option<JobId>,
    /// The first jobs in line, by order of entry.
    pub waiting: BTreeSet<(u64, JobId)>,
    /// The last position that was read, if there may be more jobs behind it.
    read_upto: Option<u64>,
    /// The number of positions that were read at most.
    chunk: usize,
}

impl LineRows {
    /// A line of which up to `chunk` positions are read.
    pub fn of_chunk(chunk: usize) -> Self {
        Self { chunk, ..Self::default() }
    }

    /// All positions have been added.
    pub fn complete(&mut self) {
        let full = self.waiting.len() == self.chunk;
        self.read_upto = self.waiting.last().map(|(seq, _)| *seq).filter(|_| full);
    }

    /// The number of positions to read the next time.
    pub fn next_chunk(&self) -> usize {
        self.chunk * 4
    }

    /// The line as the executor reads it; `None` if its first position was not loaded.
    pub fn line(&self) -> Option<Line> {
        let first = self.waiting.first().copied();
        let known = self.read_upto.is_none_or(|upto| first.is_some_and(|(seq, _)| seq <= upto));
        known.then_some(Line { holder: self.holder, first })
    }
}

/// The rows that were loaded for a verb so far.
#[derive(Debug)]
pub struct Loaded<X> {
    /// The time of the store.
    pub now: Timestamp,
    /// The injected time of a test, which statements use instead of the store's.
    pub test_now: Option<Timestamp>,
    /// The number after which new entries are numbered.
    pub seq: u64,
    /// Open sessions.
    pub sessions: BTreeMap<SessionId, SessionEntry>,
    /// Settings of queues; `None` until they are loaded.
    pub queues: Option<BTreeMap<Name, QueueSettings>>,
    /// Settings of kinds.
    pub kinds: BTreeMap<Name, KindSettings>,
    /// Limits by name; loaded with the settings of queues.
    pub limits: BTreeMap<Name, Limit>,
    /// Meters of limits over all jobs, and those of loaded groups that are stored.
    pub meters: HashMap<MeterKey, Meter>,
    /// Jobs of groups, by group and lane.
    pub groups: BTreeMap<String, BTreeMap<LaneKey, GroupRows>>,
    /// Running jobs by lane; loaded for limits over all jobs.
    pub running: Option<BTreeMap<LaneKey, u64>>,
    /// The lines whose time had come when they were loaded, for a maintenance step.
    pub openings: Vec<(Name, Opening)>,
    /// When the first line opens that was not loaded.
    pub next_opening: Option<Timestamp>,
    /// Whether a claim skipped jobs because other writers have locked their groups.
    pub skipped_groups: bool,
    /// The jobs leased to each session.
    pub held: HashMap<SessionId, BTreeSet<JobId>>,
    /// Jobs.
    pub jobs: HashMap<JobId, Known<X>>,
    /// Dependencies.
    pub edges: LoadedEdges,
    /// Ended jobs whose dependents have not all learned it, for a maintenance step.
    pub unresolved: Vec<JobId>,
    /// Unique keys; `None`: not held.
    pub uniques: HashMap<UniqueSlot, Option<UniqueHold>>,
    /// Ordering keys.
    pub lines: HashMap<(Name, String), LineRows>,
    /// Turns of tenants in fair queues.
    pub turns: HashMap<Tenant, Standing>,
    /// Depths of queues.
    pub depths: HashMap<Name, u64>,
    /// Whether ready jobs were read.
    pub has_heads: bool,
    /// Ready jobs for a claim, by lane, in order.
    pub heads: BTreeMap<LaneKey, Vec<Head>>,
    /// The time for which `due` was read.
    pub due_at: Option<Timestamp>,
    /// The jobs that a maintenance step may change, and the first one after them.
    pub due: Vec<Due>,
    /// Ended jobs beyond the number that their queue keeps: their removal is due since they ended.
    pub surplus: HashSet<JobId>,
    /// Whether more jobs may be due than `due` contains.
    pub unsure: bool,
    /// Entries of expiry indexes to remove.
    pub stale: Vec<StaleDeadline>,
}

impl<X> Default for Loaded<X> {
    fn default() -> Self {
        Self {
            now: Timestamp::default(),
            test_now: None,
            seq: 0,
            sessions: BTreeMap::new(),
            queues: None,
            kinds: BTreeMap::new(),
            limits: BTreeMap::new(),
            meters: HashMap::new(),
            groups: BTreeMap::new(),
            running: None,
            openings: Vec::new(),
            next_opening: None,
            skipped_groups: false,
            held: HashMap::new(),
            jobs: HashMap::new(),
            edges: LoadedEdges::default(),
            unresolved: Vec::new(),
            uniques: HashMap::new(),
            lines: HashMap::new(),
            turns: HashMap::new(),
            depths: HashMap::new(),
            has_heads: false,
            heads: BTreeMap::new(),
            due_at: None,
            due: Vec::new(),
            surplus: HashSet::new(),
            unsure: false,
            stale: Vec::new(),
        }
    }
}

impl<X> Loaded<X> {
    /// The job with this id, if it was loaded and exists.
    pub fn found(&self, id: JobId) -> Option<&Found<X>> {
        self.jobs.get(&id)?.found.as_ref()
    }

    /// Whether a run may change this job.
    pub fn is_locked(&self, id: &JobId) -> bool {
        self.jobs.get(id).is_some_and(|known| known.locked)
    }

    /// The lowest number of a ready job that was locked outside of a claim: claims of others skip it meanwhile, and must
    /// look for it again, even if the run does not change it.
    pub fn lowest_skipped(&self) -> Option<i64> {
        if self.has_heads {
            return None;
        }
        let locked = self.jobs.values().filter(|known| known.locked);
        let entries = locked.filter_map(|known| known.found.as_ref().map(|found| &found.entry));
        let ready = entries.filter(|entry| entry.job.state == State::Available);
        ready.map(|entry| entry.seq.cast_signed()).min()
    }

    /// The wanted jobs to change that were not loaded for a change yet.
    pub fn to_own<'a>(&'a self, wants: &'a Wants) -> impl Iterator<Item = JobId> + 'a {
        wants.own.iter().filter(|id| !self.is_locked(id)).copied()
    }

    /// The wanted jobs to read that were not loaded yet and are not wanted for a change.
    pub fn to_peek<'a>(&'a self, wants: &'a Wants) -> impl Iterator<Item = JobId> + 'a {
        let unseen = |id: &&JobId| !self.jobs.contains_key(id) && !wants.own.contains(id);
        wants.peek.iter().filter(unseen).copied()
    }

    /// The number of positions to read of these lines.
    pub fn line_chunk(&self, wants: &Wants) -> usize {
        let known = wants.lines.iter().filter_map(|line| self.lines.get(line));
        known.map(LineRows::next_chunk).max().unwrap_or(LINE_CHUNK)
    }

    /// Adds ready jobs for a claim; returns the jobs that the claim is going to take.
    pub fn add_heads<I: Iterator<Item = (LaneKey, Head)>>(
        &mut self,
        claim: &Claim,
        heads: I,
    ) -> impl Iterator<Item = JobId> + use<X, I> {
        self.has_heads = true;
        let mut order: Vec<(usize, Head)> = Vec::with_capacity(heads.size_hint().0);
        for (lane, head) in heads {
            let queue = claim.queues.iter().position(|want| want.queue == lane.0);
            order.push((queue.unwrap_or(usize::MAX), head));
            self.heads.entry(lane).or_default().push(head);
        }
        self.heads.values_mut().for_each(|heads| heads.sort_unstable());
        order.sort_unstable();
        order.into_iter().take(claim.limit as usize).map(|(_, head)| head.id)
    }

    /// Removes jobs from sessions whose lease was found to have ended once the job was locked.
    pub fn drop_ended_leases(&mut self) {
        let Self { held, jobs, .. } = self;
        for (session, held) in held {
            held.retain(|id| {
                let Some(known) = jobs.get(id) else { return true };
                let leased = known.found.as_ref().and_then(|found| found.entry.leased.as_ref());
                leased.is_some_and(|leased| leased.session == *session)
            });
        }
    }

    /// The rows that the rows of `wants` refer to: holders of unique keys, the next holders of ordering keys, and dependents.
    pub fn linked(&self, wants: &Wants) -> Wants {
        let mut more = Wants { parts: wants.parts, heirs: wants.heirs, ..Wants::default() };
        let holds = wants.slots.iter().filter_map(|slot| self.uniques.get(slot).copied().flatten());
        let holders = holds.map(|hold| hold.holder);
        more.peek = holders.filter(|id| !self.jobs.contains_key(id)).collect();
        if wants.heirs {
            let lines = wants.lines.iter().filter_map(|line| self.lines.get(line));
            let ending =
                lines.filter(|line| line.holder.is_some_and(|holder| self.is_locked(&holder)));
            let heirs = ending.filter_map(|line| line.waiting.first()).map(|(_, id)| *id);
            let heirs = heirs.chain(self.next_in_groups(wants));
            more.own = heirs.filter(|id| !self.is_locked(id)).collect();
            more.moving_up = true;
        }
        let dependents: Vec<JobId> =
            self.dependents(wants).filter(|id| !self.is_locked(id)).collect();
        // A dependent may end.
        more.moving_up &= dependents.is_empty();
        more.own.extend(dependents);
        more
    }

    /// The settings of a queue.
    pub fn settings_of(&self, queue: &Name) -> QueueSettings {
        let queues = self.queues.as_ref();
        queues.and_then(|queues| queues.get(queue)).cloned().unwrap_or_default()
    }

    /// The turns of a tenant, if they were loaded.
    pub fn standing(&self, queue: &Name, tenant: &Option<String>) -> Option<Standing> {
        let tenant: Tenant = (queue.clone(), tenant.clone());
        self.turns.get(&tenant).copied()
    }
}
