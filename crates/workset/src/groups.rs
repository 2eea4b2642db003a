//! Limits in a working set: meters, and the jobs of groups in lanes with limits by group.
//!
//! A group is loaded, and locked, as a whole: its lines, ready jobs, running jobs and meters, in all lanes. A limit over
//! all jobs is loaded, and locked, by its meter.

use crate::loaded::Loaded;
use crate::set::{Touched, WorkingSet};
use crate::wants::Wants;
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::engine::SettleItem;
use windlass_core::model::{Limit, Name, NewJob, State};
use windlass_core::policy::{Ahead, Meter};
use windlass_core::{JobId, Result, Timestamp};
use windlass_executor::{Entry, GroupLine, LaneKey, LineHead, LinePlace, Opening};

/// Jobs that are read of the line of a group at first. A run that needs more of it loads
/// [`GroupRows::next_chunk`].
pub const GROUP_CHUNK: usize = 4;

/// A limit, and the group in which it counts: empty for a limit over all jobs.
pub type MeterKey = (Name, String);

/// The jobs of a group in one lane.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupRows {
    /// Number of jobs in line.
    pub waiting: u64,
    /// Jobs that have left the line, are ready and have not started.
    pub ahead: Ahead,
    /// When the line opens.
    pub opens_at: Option<Timestamp>,
    /// Number of running jobs.
    pub running: u64,
    /// The first jobs in line.
    pub first: BTreeMap<LinePlace, LineHead>,
    /// The last place that was read, if there may be jobs behind it.
    read_upto: Option<LinePlace>,
    /// The number of places that were read at most.
    chunk: usize,
}

impl GroupRows {
    /// Adds the first places of the line, of which up to `chunk` were read.
    pub fn complete(&mut self, chunk: usize, heads: impl IntoIterator<Item = LineHead>) {
        self.first = heads.into_iter().map(|head| (head.place, head)).collect();
        self.chunk = chunk;
        let full = self.first.len() == chunk;
        self.read_upto = self.first.last_key_value().map(|(place, _)| *place).filter(|_| full);
    }

    /// The number of places to read the next time.
    pub fn next_chunk(&self) -> usize {
        (self.chunk * 4).max(GROUP_CHUNK)
    }

    /// The line as the executor reads it; `None` if its first place was not loaded.
    fn line(&self) -> Option<GroupLine> {
        let first = self.first.first_key_value().map(|(_, head)| head.clone());
        let known = match (&first, self.read_upto) {
            (Some(head), Some(upto)) => head.place <= upto,
            (None, _) => self.waiting == 0,
            (Some(_), None) => true,
        };
        known.then_some(GroupLine { first, ahead: self.ahead, opens_at: self.opens_at })
    }

    /// Whether there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0 && self.ahead == Ahead::default()
    }

    /// Whether the stored values of two states are equal.
    pub fn is_stored_as(&self, other: &Self) -> bool {
        (self.waiting, self.ahead, self.opens_at) == (other.waiting, other.ahead, other.opens_at)
    }
}

impl<X> Loaded<X> {
    /// The limits by group of a lane.
    pub fn group_limits<'a>(&'a self, lane: &'a LaneKey) -> impl Iterator<Item = &'a Name> + 'a {
        self.limits_of(lane).filter(|(_, limit)| limit.by_group).map(|(name, _)| name)
    }

    /// The limits of a lane: those of its queue and of its kind. A limit that both list comes twice.
    pub fn limits_of<'a>(
        &'a self,
        (queue, kind): &LaneKey,
    ) -> impl Iterator<Item = (&'a Name, &'a Limit)> + 'a {
        let of_queue = self.queues.as_ref().and_then(|queues| queues.get(queue));
        let of_queue = of_queue.map_or(&[][..], |settings| &settings.limits);
        let of_kind = self.kinds.get(kind).map_or(&[][..], |settings| &settings.limits);
        let limits = &self.limits;
        of_queue.iter().chain(of_kind).filter_map(|name| limits.get_key_value(name))
    }

    /// The names of the limits of a lane, each once.
    pub fn names_of_limits(&self, lane: &LaneKey) -> Vec<Name> {
        let mut names: Vec<Name> = Vec::new();
        for (name, _) in self.limits_of(lane) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// Whether jobs of a lane are counted by group.
    pub fn is_grouped(&self, lane: &LaneKey) -> bool {
        !self.limits.is_empty() && self.group_limits(lane).next().is_some()
    }

    /// Whether any group is loaded.
    pub fn has_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Whether a group is loaded.
    pub fn has_group(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }

    /// The wanted limits over all jobs whose meters are not loaded yet.
    pub fn to_meter<'a>(&'a self, wants: &'a Wants) -> impl Iterator<Item = &'a Name> + 'a {
        let is_loaded = |name: &Name| self.meters.contains_key(&(name.clone(), String::new()));
        wants.meters.iter().filter(move |name| !is_loaded(name))
    }

    /// The number of places to read of the lines of a group.
    pub fn group_chunk(&self, group: &str) -> usize {
        let lanes = self.groups.get(group).into_iter().flat_map(BTreeMap::values);
        lanes.map(GroupRows::next_chunk).max().unwrap_or(GROUP_CHUNK)
    }

    /// The first jobs in the lines of wanted groups, one for each locked job of the group: each end may release
    /// one.
    pub(crate) fn next_in_groups(&self, wants: &Wants) -> Vec<JobId> {
        if wants.groups.is_empty() {
            return Vec::new();
        }
        let mut locked: BTreeMap<&str, usize> = BTreeMap::new();
        for found in self.jobs.values().filter(|known| known.locked) {
            let Some(found) = &found.found else { continue };
            *locked.entry(found.entry.job.header.limit_group()).or_default() += 1;
        }
        let mut next = Vec::new();
        for group in &wants.groups {
            let most = locked.get(&**group).copied().unwrap_or(0);
            for rows in self.groups.get(group).into_iter().flat_map(BTreeMap::values) {
                next.extend(rows.first.values().take(most).map(|head| head.id));
            }
        }
        next
    }

    /// The limits that count a running job follow from the settings of its lane.
    pub fn count_running_jobs(&mut self) {
        if self.limits.is_empty() {
            return;
        }
        let running = |known: &&mut crate::loaded::Known<X>| {
            known.found.as_ref().is_some_and(|found| found.entry.job.state == State::Running)
        };
        let mut jobs = std::mem::take(&mut self.jobs);
        for known in jobs.values_mut().filter(running) {
            let Some(found) = &mut known.found else { continue };
            let header = &found.entry.job.header;
            let lane = (header.queue.clone(), header.kind.clone());
            found.entry.job.limits = self.names_of_limits(&lane);
        }
        self.jobs = jobs;
    }
}

impl<X> WorkingSet<'_, X> {
    /// The settings of a lane as the run has changed them: the limits that it lists.
    fn listed(&self, (queue, kind): &LaneKey) -> Vec<Name> {
        let base = self.base;
        let of_queue = match self.queues.get(queue) {
            Some(changed) => changed.as_ref(),
            None => base.queues.as_ref().and_then(|queues| queues.get(queue)),
        };
        let of_kind = match self.kinds.get(kind) {
            Some(changed) => changed.as_ref(),
            None => base.kinds.get(kind),
        };
        let of_queue = of_queue.map_or(&[][..], |settings| &settings.limits);
        let of_kind = of_kind.map_or(&[][..], |settings| &settings.limits);
        of_queue.iter().chain(of_kind).cloned().collect()
    }

    fn limit(&self, name: &Name) -> Option<&Limit> {
        match self.limits.get(name) {
            Some(changed) => changed.as_ref(),
            None => self.base.limits.get(name),
        }
    }

    fn is_by_group(&self, name: &Name) -> bool {
        self.limit(name).is_some_and(|limit| limit.by_group)
    }

    /// Whether jobs of a lane are counted by group, with the settings as the run has changed them.
    pub fn counts_groups(&self, lane: &LaneKey) -> bool {
        let none = self.base.limits.is_empty() && self.limits.is_empty();
        !none && self.listed(lane).iter().any(|name| self.is_by_group(name))
    }

    /// Notes that the run needs a group, or more of its lines.
    fn miss_group(&self, group: &str) -> windlass_core::Error {
        self.miss(|wants| {
            wants.groups.insert(group.to_owned());
        })
    }

    /// Notes the groups of new jobs that are not loaded, so that one more load finds them together.
    pub fn expect_groups<'j>(&self, jobs: impl IntoIterator<Item = &'j NewJob>) {
        if self.base.limits.is_empty() {
            return;
        }
        for job in jobs {
            let lane = (job.queue.clone(), job.kind.clone());
            let group = job.group.as_deref().or(job.tenant.as_deref()).unwrap_or_default();
            if self.base.is_grouped(&lane) && !self.base.has_group(group) {
                self.miss_group(group);
            }
        }
    }

    /// Notes the groups of follow-ups, like [`expect_groups`](Self::expect_groups).
    pub(crate) fn expect_groups_of_follow_ups(&self, items: &[SettleItem]) {
        self.expect_groups(items.iter().flat_map(|item| &item.follow_ups));
    }

    /// The group of a job and its lane, if limits count it there in its state. A running job counts in lanes that count
    /// groups now, others if they were counted when they entered their state.
    fn counted(&self, entry: &Entry) -> Option<(String, LaneKey)> {
        let header = &entry.job.header;
        let counts = match entry.job.state {
            State::Running => self.counts_groups(&(header.queue.clone(), header.kind.clone())),
            State::Available | State::Blocked => !entry.job.limits.is_empty(),
            State::Scheduled
            | State::Paused
            | State::Completed
            | State::Dead
            | State::Cancelled
            | State::Expired => false,
            // Not counted by any limit.
            _ => false,
        };
        let lane = || (header.queue.clone(), header.kind.clone());
        counts.then(|| (header.limit_group().to_owned(), lane()))
    }

    /// Adds a job to (`by` 1) or removes it from (`by` -1) the counts of its limits.
    pub(crate) fn count_limits(&mut self, entry: &Entry, by: i64) -> Result<()> {
        let header = &entry.job.header;
        let no_limits = self.base.limits.is_empty() && self.limits.is_empty();
        if no_limits && entry.job.limits.is_empty() {
            return Ok(());
        }
        if entry.job.state == State::Running {
            let lane = (header.queue.clone(), header.kind.clone());
            *self.started.entry(lane).or_default() += by;
        }
        let Some((group, lane)) = self.counted(entry) else { return Ok(()) };
        let Some(lanes) = self.groups.get_mut(&group) else {
            return Err(self.miss_group(&group));
        };
        let rows = lanes.entry(lane).or_default();
        match entry.job.state {
            State::Running => rows.running = rows.running.saturating_add_signed(by),
            State::Available => {
                let jobs = i64::from(rows.ahead.jobs) + by;
                rows.ahead.jobs = u32::try_from(jobs.max(0)).unwrap_or(u32::MAX);
                let cost = i64::from(header.cost) * by;
                rows.ahead.cost = rows.ahead.cost.saturating_add_signed(cost);
            }
            State::Blocked => {
                rows.waiting = rows.waiting.saturating_add_signed(by);
                let place = entry.line_place();
                match entry.job.limits.first().filter(|_| by > 0) {
                    Some(limit) => {
                        let (id, cost, limit) = (entry.id(), header.cost, limit.clone());
                        rows.first.insert(place, LineHead { place, id, cost, limit });
                    }
                    None => drop(rows.first.remove(&place)),
                }
            }
            State::Scheduled
            | State::Paused
            | State::Completed
            | State::Dead
            | State::Cancelled
            | State::Expired => {}
            // Not counted by any limit.
            _ => {}
        }
        Ok(())
    }

    /// Number of running jobs of lanes that list a limit.
    pub(crate) fn running(&self, limit: &Name, group: Option<&str>) -> Result<u64> {
        let lists = |lane: &LaneKey| self.listed(lane).contains(limit);
        let Some(group) = group else {
            let Some(running) = &self.base.running else {
                return Err(self.miss_meter(limit));
            };
            let lanes: BTreeSet<&LaneKey> = running.keys().chain(self.started.keys()).collect();
            let count = |lane: &LaneKey| {
                let stored = running.get(lane).copied().unwrap_or(0);
                stored.saturating_add_signed(self.started.get(lane).copied().unwrap_or(0))
            };
            return Ok(lanes.into_iter().filter(|lane| lists(lane)).map(count).sum());
        };
        let Some(lanes) = self.groups.get(group) else { return Err(self.miss_group(group)) };
        let lanes = lanes.iter().filter(|(lane, _)| lists(lane));
        Ok(lanes.map(|(_, rows)| rows.running).sum())
    }

    pub(crate) fn meter<T>(
        &self,
        limit: &Name,
        group: &str,
        read: impl FnOnce(&Meter) -> T,
    ) -> Result<T> {
        let key = (limit.clone(), group.to_owned());
        match self.meters.get(&key).or_else(|| self.base.meters.get(&key)) {
            Some(meter) => Ok(read(meter)),
            None if !self.is_by_group(limit) => Err(self.miss_meter(limit)),
            // All stored meters of a group are loaded with it.
            None if self.base.has_group(group) => Ok(read(&Meter::default())),
            None => Err(self.miss_group(group)),
        }
    }

    /// Notes that the run needs the meter of a limit over all jobs.
    fn miss_meter(&self, limit: &Name) -> windlass_core::Error {
        self.miss(|wants| {
            wants.meters.insert(limit.clone());
        })
    }

    pub(crate) fn line_of(&self, lane: &LaneKey, group: &str) -> Result<GroupLine> {
        let Some(lanes) = self.groups.get(group) else { return Err(self.miss_group(group)) };
        let Some(rows) = lanes.get(lane) else { return Ok(GroupLine::default()) };
        rows.line().ok_or_else(|| self.miss_group(group))
    }

    pub(crate) fn lanes_of_group(&self, group: &str) -> Result<Vec<LaneKey>> {
        let Some(lanes) = self.groups.get(group) else { return Err(self.miss_group(group)) };
        let in_line = lanes.iter().filter(|(_, rows)| rows.waiting > 0);
        Ok(in_line.map(|(lane, _)| lane.clone()).collect())
    }

    pub(crate) fn open_line_at(&mut self, lane: &LaneKey, group: &str, at: Option<Timestamp>) {
        let lanes = self.groups.entry(group.to_owned()).or_default();
        lanes.entry(lane.clone()).or_default().opens_at = at;
    }

    /// The lines of a queue that open at a time, as far as they were loaded.
    pub(crate) fn openings_of(&self, queue: &Name, limit: usize) -> Vec<Opening> {
        let mut openings: Vec<Opening> =
            self.loaded_openings().filter(|(of, _)| of == queue).map(|(_, it)| it).collect();
        openings.sort();
        openings.truncate(limit);
        openings
    }

    fn loaded_openings(&self) -> impl Iterator<Item = (Name, Opening)> + '_ {
        self.groups.iter().flat_map(|(group, lanes)| {
            lanes.iter().filter_map(move |((queue, kind), rows)| {
                let at = rows.opens_at.filter(|_| rows.waiting > 0)?;
                Some((queue.clone(), Opening { at, kind: kind.clone(), group: group.clone() }))
            })
        })
    }

    /// When the next line opens, as far as lines were loaded.
    pub fn next_opening(&self) -> Option<Timestamp> {
        let loaded = self.loaded_openings().map(|(_, opening)| opening.at);
        loaded.chain(self.base.next_opening).min()
    }

    /// If the job is in a loaded line, all loaded jobs of that line, and of the others whose time has come: a run that releases
    /// one often releases more.
    pub(crate) fn line_mates(&self, id: JobId) -> Vec<JobId> {
        let is_due = |rows: &GroupRows| rows.opens_at.is_some_and(|at| at <= self.base.now);
        let lines = self.base.groups.values().flat_map(BTreeMap::values);
        let of = |rows: &GroupRows| rows.first.values().any(|head| head.id == id);
        if !lines.clone().any(of) {
            return Vec::new();
        }
        let lines = lines.filter(|&rows| of(rows) || is_due(rows));
        lines.flat_map(|rows| rows.first.values()).map(|head| head.id).collect()
    }

    /// Whether the run has returned a ready job to its line.
    pub fn deferred(&self) -> bool {
        let was_ready = |id: &JobId| {
            let found = self.base.found(*id);
            found.is_some_and(|found| found.entry.job.state == State::Available)
        };
        let in_line = |touched: &Touched| matches!(touched, Touched::Stored(entry) if entry.job.state == State::Blocked);
        self.jobs.iter().any(|(id, touched)| in_line(touched) && was_ready(id))
    }

    /// The lines whose stored values the run has changed.
    pub fn changed_groups(&self) -> impl Iterator<Item = ChangedGroup<'_>> {
        self.groups.iter().flat_map(move |(group, lanes)| {
            let stored = self.base.groups.get(group);
            lanes.iter().filter_map(move |(lane, after)| {
                let before = stored.and_then(|lanes| lanes.get(lane));
                let same = match before {
                    Some(before) => before.is_stored_as(after),
                    None => after.is_empty(),
                };
                (!same).then_some(ChangedGroup { lane, group, before, after })
            })
        })
    }

    /// The meters that the run has changed.
    pub fn changed_meters(&self) -> impl Iterator<Item = (&MeterKey, &Meter)> {
        self.meters.iter()
    }

    /// The limits to store; `None`: to remove.
    pub fn changed_limits(&self) -> impl Iterator<Item = (&Name, Option<&Limit>)> {
        self.limits.iter().map(|(name, limit)| (name, limit.as_ref()))
    }

    /// Queues and kinds whose lines open at a time, all of them.
    pub fn reopened(&self) -> &[Reopened] {
        &self.reopened
    }

    /// The limits by name, as the run has changed them.
    pub fn all_limits(&self) -> BTreeMap<&Name, &Limit> {
        let names = self.base.limits.keys().chain(self.limits.keys());
        names.filter_map(|name| Some((name, self.limit(name)?))).collect()
    }
}

/// The line of a group before and after a run.
#[derive(Debug)]
pub struct ChangedGroup<'a> {
    /// The lane.
    pub lane: &'a LaneKey,
    /// The group.
    pub group: &'a str,
    /// The stored line, if there is one.
    pub before: Option<&'a GroupRows>,
    /// The line to store.
    pub after: &'a GroupRows,
}

/// All lines of a queue, of a kind, or of both open at a time.
#[derive(Clone, Debug)]
pub struct Reopened {
    /// The queue; `None`: any.
    pub queue: Option<Name>,
    /// The kind; `None`: any.
    pub kind: Option<Name>,
    /// The time.
    pub at: Timestamp,
}
