//! Everything that is derived from the jobs: lanes, schedules, ages, ordering-key queues, leases.
//!
//! To change a job, remove it from the index, change it, and insert it again. Nothing else writes here.

use crate::ages::Ages;
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::engine::{ListPlace, SessionId, SortedBy};
use windlass_core::model::{Name, Placement, State};
use windlass_core::policy::Ahead;
use windlass_core::{JobId, Timestamp};
use windlass_executor::{Entry, GroupLine, LaneKey, LimitCounts, LineHead, LinePlace};

/// The holder of an ordering key and the jobs that wait for it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct KeyLine {
    pub(crate) holder: Option<JobId>,
    pub(crate) waiting: BTreeSet<(u64, JobId)>,
}

/// The line of a group in a lane with limits by group.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct GroupJobs {
    /// Blocked jobs: id, cost, and the limit that each waits for.
    waiting: BTreeMap<LinePlace, (JobId, u32, Name)>,
    /// Jobs that left the line, are ready and have not started.
    ahead: Ahead,
}

/// The jobs of one queue and kind.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Lane {
    /// Ready jobs by (rank, seq), the order in which they are claimed, and whether each is a suspect that
    /// must be claimed alone.
    pub(crate) ready: BTreeMap<(i64, u64), (JobId, bool)>,
    /// All jobs by id.
    pub(crate) all: BTreeSet<ListPlace>,
    /// The jobs of each state, in the order of its listing.
    by_state: [BTreeSet<ListPlace>; State::ALL.len()],
}

impl Lane {
    pub(crate) fn count(&self, state: State) -> u64 {
        self.listed(state).len() as u64
    }

    /// The jobs of a state, in the order of its listing.
    pub(crate) const fn listed(&self, state: State) -> &BTreeSet<ListPlace> {
        &self.by_state[state as usize]
    }

    fn add(&mut self, entry: &Entry) {
        let state = entry.job.state;
        self.all.insert(ListPlace::enqueued(entry.id()));
        let place = ListPlace::of(&entry.job, SortedBy::of(Some(state)));
        self.by_state[state as usize].insert(place);
    }

    fn take(&mut self, entry: &Entry) {
        let state = entry.job.state;
        self.all.remove(&ListPlace::enqueued(entry.id()));
        let place = ListPlace::of(&entry.job, SortedBy::of(Some(state)));
        self.by_state[state as usize].remove(&place);
    }
}

/// The derived data of the store.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Index {
    pub(crate) lanes: BTreeMap<LaneKey, Lane>,
    /// Lanes with ready jobs: the only ones that claims examine, however many others there are.
    ready: BTreeSet<LaneKey>,
    /// Number of lanes per queue.
    lane_counts: BTreeMap<Name, u64>,
    /// Jobs waiting for their run time, by (run_at, seq).
    pub(crate) scheduled: BTreeSet<(Timestamp, u64, JobId)>,
    /// Jobs that are due and waiting, for `max_wait`.
    pub(crate) waiting: Ages,
    /// Ended jobs, for retention.
    pub(crate) finished: Ages,
    /// Ordering keys, by queue and key.
    pub(crate) lines: BTreeMap<(Name, String), KeyLine>,
    /// Lines of groups, by group and lane.
    pub(crate) groups: BTreeMap<(String, LaneKey), GroupJobs>,
    /// Jobs in the lines of groups, by lane.
    in_lines: BTreeMap<LaneKey, u64>,
    /// Running jobs by limit, in one group (`Some`) and in all (`None`).
    running: BTreeMap<(Name, Option<String>), u64>,
    /// Unresolved jobs.
    pub(crate) unresolved: BTreeSet<JobId>,
    /// Leased jobs by session.
    pub(crate) held: BTreeMap<SessionId, BTreeSet<JobId>>,
}

impl Index {
    /// Builds the index of these jobs.
    pub(crate) fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut index = Self::default();
        for entry in entries {
            index.insert(entry);
        }
        index
    }

    pub(crate) fn insert(&mut self, entry: &Entry) {
        let (id, header, state) = (entry.id(), &entry.job.header, entry.job.state);
        let lane_key = (header.queue.clone(), header.kind.clone());
        if !self.lanes.contains_key(&lane_key) {
            *self.lane_counts.entry(header.queue.clone()).or_default() += 1;
        }
        let lane = self.lanes.entry(lane_key.clone()).or_default();
        lane.add(entry);
        match state.placement() {
            Placement::Scheduled => {
                self.scheduled.insert((header.run_at, entry.seq, id));
            }
            Placement::Ready => {
                lane.ready.insert((entry.rank, entry.seq), (id, header.counters.is_suspect()));
                self.ready.insert(lane_key);
            }
            Placement::Aside | Placement::Leased | Placement::Ended => {}
        }
        if let Some((group, since, own_ms)) = waiting_age(entry) {
            self.waiting.insert(group, since, own_ms, id);
        }
        if let Some((group, since, own_ms)) = finished_age(entry) {
            self.finished.insert(group, since, own_ms, id);
        }
        if let Some(key) = &header.key {
            let line = self.lines.entry((header.queue.clone(), key.clone())).or_default();
            if entry.holds_key {
                line.holder = Some(id);
            } else if entry.in_line() {
                line.waiting.insert((entry.seq, id));
            }
            self.drop_empty_line(entry);
        }
        if entry.job.is_unresolved() {
            self.unresolved.insert(id);
        }
        if let Some(leased) = &entry.leased {
            self.held.entry(leased.session.clone()).or_default().insert(id);
        }
        if !entry.job.limits.is_empty() {
            self.count_limits(entry);
        }
    }

    /// Adds a job to what is derived from its limits.
    fn count_limits(&mut self, entry: &Entry) {
        let (header, limits) = (&entry.job.header, &entry.job.limits);
        match entry.job.state {
            State::Running => {
                for key in running_keys(entry) {
                    *self.running.entry(key).or_default() += 1;
                }
            }
            State::Available => {
                let ahead = &mut self.groups.entry(group_key(entry)).or_default().ahead;
                ahead.jobs += 1;
                ahead.cost += u64::from(header.cost);
            }
            State::Blocked => {
                let waits = (entry.id(), header.cost, limits[0].clone());
                let key = group_key(entry);
                *self.in_lines.entry(key.1.clone()).or_default() += 1;
                let group = self.groups.entry(key).or_default();
                group.waiting.insert(entry.line_place(), waits);
            }
            State::Scheduled
            | State::Paused
            | State::Completed
            | State::Dead
            | State::Cancelled
            | State::Expired => {}
            // Only ready and blocked jobs are in a line.
            _ => {}
        }
    }

    /// Removes a job from what is derived from its limits.
    fn uncount_limits(&mut self, entry: &Entry) {
        if entry.job.state == State::Running {
            for key in running_keys(entry) {
                decrement(&mut self.running, &key);
            }
            return;
        }
        let key = group_key(entry);
        let Some(group) = self.groups.get_mut(&key) else { return };
        if entry.job.state == State::Available {
            group.ahead.jobs -= 1;
            group.ahead.cost -= u64::from(entry.job.header.cost);
        } else if group.waiting.remove(&entry.line_place()).is_some() {
            decrement(&mut self.in_lines, &key.1);
        }
        if *group == GroupJobs::default() {
            self.groups.remove(&key);
        }
    }

    /// Number of running jobs that a limit counts.
    pub(crate) fn running_under(&self, limit: &Name, group: Option<&str>) -> u64 {
        let key = (limit.clone(), group.map(ToOwned::to_owned));
        self.running.get(&key).copied().unwrap_or(0)
    }

    /// Counts of the jobs under limits, of at most `most` lines and running groups.
    pub(crate) fn limit_counts(&self, most: usize) -> LimitCounts {
        let line = |((group, lane), jobs): (&(String, LaneKey), &GroupJobs)| {
            let count = jobs.waiting.len() as u64 + u64::from(jobs.ahead.jobs);
            (lane.clone(), group.clone(), count)
        };
        let running = self.running.iter().filter_map(|((limit, group), jobs)| {
            group.as_ref().map(|group| (limit.clone(), group.clone(), *jobs))
        });
        LimitCounts {
            in_lines: self.in_lines.clone(),
            lines: self.groups.iter().take(most).map(line).collect(),
            running: running.take(most).collect(),
        }
    }

    /// The line of a group in a lane, without its time.
    pub(crate) fn group_line(&self, lane: &LaneKey, group: &str) -> GroupLine {
        let Some(jobs) = self.groups.get(&(group.to_owned(), lane.clone())) else {
            return GroupLine::default();
        };
        let first = jobs.waiting.first_key_value().map(|(place, (id, cost, limit))| LineHead {
            place: *place,
            id: *id,
            cost: *cost,
            limit: limit.clone(),
        });
        GroupLine { first, ahead: jobs.ahead, opens_at: None }
    }

    /// The lanes in which jobs of a group are in line.
    pub(crate) fn lanes_in_line(&self, group: &str) -> Vec<LaneKey> {
        let from = (group.to_owned(), ("".into(), "".into()));
        let lines = self.groups.range(from..).take_while(|((of, _), _)| of == group);
        let lines = lines.filter(|(_, jobs)| !jobs.waiting.is_empty());
        lines.map(|((_, lane), _)| lane.clone()).collect()
    }

    /// All lines with jobs.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&LaneKey, &str)> {
        let lines = self.groups.iter().filter(|(_, jobs)| !jobs.waiting.is_empty());
        lines.map(|((group, lane), _)| (lane, group.as_str()))
    }

    pub(crate) fn remove(&mut self, entry: &Entry) {
        let (id, header, state) = (entry.id(), &entry.job.header, entry.job.state);
        let lane_key = (header.queue.clone(), header.kind.clone());
        if let Some(lane) = self.lanes.get_mut(&lane_key) {
            lane.take(entry);
            if state == State::Available {
                lane.ready.remove(&(entry.rank, entry.seq));
            }
            if lane.ready.is_empty() {
                self.ready.remove(&lane_key);
            }
            if lane.all.is_empty() {
                self.lanes.remove(&lane_key);
                self.lane_gone(&header.queue);
            }
        }
        if state == State::Scheduled {
            self.scheduled.remove(&(header.run_at, entry.seq, id));
        }
        if let Some((group, since, own_ms)) = waiting_age(entry) {
            self.waiting.remove(group, since, own_ms, id);
        }
        if let Some((group, since, own_ms)) = finished_age(entry) {
            self.finished.remove(group, since, own_ms, id);
        }
        if let Some(key) = &header.key {
            if let Some(line) = self.lines.get_mut(&(header.queue.clone(), key.clone())) {
                line.waiting.remove(&(entry.seq, id));
                line.holder = line.holder.filter(|holder| *holder != id);
            }
            self.drop_empty_line(entry);
        }
        if entry.job.is_unresolved() {
            self.unresolved.remove(&id);
        }
        if let Some(leased) = &entry.leased
            && let Some(held) = self.held.get_mut(&leased.session)
        {
            held.remove(&id);
            if held.is_empty() {
                self.held.remove(&leased.session);
            }
        }
        if !entry.job.limits.is_empty() {
            self.uncount_limits(entry);
        }
    }

    /// Number of jobs of a queue that wait to start.
    pub(crate) fn depth(&self, queue: &Name) -> u64 {
        let lanes = self.lanes_of(queue);
        lanes
            .map(|(_, lane)| {
                State::ALL.iter().filter(|s| s.is_waiting()).map(|s| lane.count(*s)).sum::<u64>()
            })
            .sum()
    }

    /// The lanes of a queue.
    pub(crate) fn lanes_of(&self, queue: &Name) -> impl Iterator<Item = (&LaneKey, &Lane)> {
        let first: LaneKey = (queue.clone(), "".into());
        let queue = queue.clone();
        self.lanes.range(first..).take_while(move |((of, _), _)| *of == queue)
    }

    /// The lanes of a queue that have ready jobs.
    pub(crate) fn ready_lanes(&self, queue: &Name) -> impl Iterator<Item = &LaneKey> {
        let first: LaneKey = (queue.clone(), "".into());
        let queue = queue.clone();
        self.ready.range(first..).take_while(move |(of, _)| *of == queue)
    }

    /// Number of lanes of a queue.
    pub(crate) fn lane_count(&self, queue: &Name) -> usize {
        self.lane_counts.get(queue).map_or(0, |count| *count as usize)
    }

    /// The queues with jobs.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &Name> {
        self.lane_counts.keys()
    }

    /// Decrements the number of lanes of a queue.
    fn lane_gone(&mut self, queue: &Name) {
        decrement(&mut self.lane_counts, queue);
    }

    fn drop_empty_line(&mut self, entry: &Entry) {
        let header = &entry.job.header;
        let Some(key) = &header.key else { return };
        let key = (header.queue.clone(), key.clone());
        if self.lines.get(&key).is_some_and(|line| *line == KeyLine::default()) {
            self.lines.remove(&key);
        }
    }
}

/// Counts one less, and removes a count of zero.
fn decrement<K: Ord>(counts: &mut BTreeMap<K, u64>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// The line of a job's group.
fn group_key(entry: &Entry) -> (String, LaneKey) {
    let header = &entry.job.header;
    (header.limit_group().to_owned(), (header.queue.clone(), header.kind.clone()))
}

/// The counters of running jobs that include this one.
fn running_keys(entry: &Entry) -> impl Iterator<Item = (Name, Option<String>)> {
    let group = entry.job.header.limit_group();
    let keys = entry.job.limits.iter();
    keys.flat_map(move |limit| [(limit.clone(), None), (limit.clone(), Some(group.to_owned()))])
}

type Age = ((Name, State), Timestamp, Option<u64>);

/// The time from which on, and the group in which, a job counts as waiting to start.
fn waiting_age(entry: &Entry) -> Option<Age> {
    let header = &entry.job.header;
    let counts = matches!(entry.job.state, State::Blocked | State::Available | State::Paused);
    // All waiting states of a queue share one setting, and so one group.
    let group = (header.queue.clone(), State::Available);
    counts.then_some((group, header.run_at, header.policy.max_wait_ms))
}

/// The time from which on, and the group in which, a job counts as ended.
fn finished_age(entry: &Entry) -> Option<Age> {
    let header = &entry.job.header;
    let state = entry.job.state;
    let since = entry.job.finished_at.filter(|_| state.is_terminal() && !entry.job.is_read())?;
    let own_ms = header.policy.retention.map(|retention| retention.of(state));
    Some(((header.queue.clone(), state), since, own_ms))
}
