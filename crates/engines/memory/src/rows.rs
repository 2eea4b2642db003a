//! In-memory rows: a map of jobs, and the index derived from it.

use crate::edges::Edges;
use crate::events::Events;
use crate::index::Index;
use crate::meters::Meters;
use crate::outboxes::Outboxes;
use crate::records::Records;
use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use windlass_core::engine::{
    CheckReport, Cursor, Event, EventsReply, EventsRequest, Finding, LaneStats, Page, RecordOp,
    RecordReply, RemovedCount, RemovedKey, RemovedQuery, RemovedTable, SessionId,
};
use windlass_core::model::{EventBounds, Input, Name, QueueSettings, State};
use windlass_core::policy::Meter;
use windlass_core::{Error, JobId, Result, Timestamp};
use windlass_executor::{
    Due, Entry, GroupLine, Head, LaneKey, LimitCounts, Line, Maintenance, OpenEdges, Opening,
    Openings, Outbox, Rows, UniqueHold, UniqueSlot,
};

/// All data of the store.
#[derive(Debug, Default)]
pub(crate) struct MemoryRows {
    pub(crate) jobs: BTreeMap<JobId, Box<Entry>>,
    pub(crate) index: Index,
    uniques: BTreeMap<UniqueSlot, UniqueHold>,
    meters: Meters,
    pub(crate) edges: Edges,
    /// Only if the atomicity is the queue.
    pub(crate) outboxes: Option<Outboxes>,
    openings: Openings,
    records: Records,
    removed: RemovedTable,
    events: Events,
}

impl Rows for MemoryRows {
    fn outbox(&self) -> Option<&dyn Outbox> {
        self.outboxes.as_ref().map(|_| self as &dyn Outbox)
    }

    fn outbox_mut(&mut self) -> Option<&mut dyn Outbox> {
        self.outboxes.is_some().then_some(self as &mut dyn Outbox)
    }

    fn with_job<T>(&self, id: JobId, read: impl FnOnce(&Entry) -> T) -> Result<Option<T>> {
        self.check_job(id);
        Ok(self.jobs.get(&id).map(|entry| read(entry)))
    }

    fn take(&mut self, id: JobId) -> Result<Option<Box<Entry>>> {
        self.check_change_of(id);
        let entry = self.jobs.remove(&id);
        if let Some(entry) = &entry {
            self.index.remove(entry);
        }
        Ok(entry)
    }

    fn put(&mut self, entry: Box<Entry>) -> Result<()> {
        self.check_change(&entry.job.header.queue);
        self.index.insert(&entry);
        self.jobs.insert(entry.id(), entry);
        Ok(())
    }

    fn put_back(&mut self, entry: Box<Entry>) -> Result<()> {
        self.put(entry)
    }

    fn remove(&mut self, entry: Box<Entry>) -> Result<()> {
        self.check_change(&entry.job.header.queue);
        if entry.job.dependencies.total > 0 {
            self.edges.remove(entry.id());
        }
        Ok(())
    }

    fn count_removed(&mut self, key: RemovedKey) -> Result<()> {
        self.removed.add(key, 1);
        Ok(())
    }

    fn append_event(&mut self, queue: &Name, bounds: EventBounds, event: Event) -> Result<()> {
        self.events.append(queue, bounds, event);
        Ok(())
    }

    fn reset_events(&mut self, queue: &Name, now: Timestamp) -> Result<()> {
        self.events.reset(queue, now);
        Ok(())
    }

    fn lanes(&self, queue: &Name) -> Vec<LaneKey> {
        self.index.ready_lanes(queue).cloned().collect()
    }

    fn lanes_before(&self, lane: &LaneKey) -> Option<usize> {
        (!self.index.lanes.contains_key(lane)).then(|| self.index.lane_count(&lane.0))
    }

    fn ready(&self, lane: &LaneKey, after: Option<(i64, u64)>, limit: usize) -> Result<Vec<Head>> {
        let Some(lane) = self.index.lanes.get(lane) else { return Ok(Vec::new()) };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let heads = lane.ready.range((from, Bound::Unbounded)).take(limit);
        let head = |((rank, seq), (id, suspect)): (&(i64, u64), &(JobId, bool))| Head {
            rank: *rank,
            seq: *seq,
            id: *id,
            suspect: *suspect,
        };
        Ok(heads.map(head).collect())
    }

    fn depth(&self, queue: &Name) -> u64 {
        self.index.depth(queue)
    }

    fn line(&self, queue: &Name, key: &str) -> Result<Line> {
        self.check_queue(queue);
        let line = self.index.lines.get(&(queue.clone(), key.to_owned()));
        Ok(line.map_or_else(Line::default, |line| Line {
            holder: line.holder,
            first: line.waiting.first().copied(),
        }))
    }

    fn held(&self, session: &SessionId) -> Vec<JobId> {
        self.index.held.get(session).into_iter().flatten().copied().collect()
    }

    fn unique(&self, slot: &UniqueSlot) -> Result<Option<UniqueHold>> {
        self.check_queue(&slot.queue);
        Ok(self.uniques.get(slot).copied())
    }

    fn set_unique(&mut self, slot: UniqueSlot, hold: Option<UniqueHold>) -> Result<()> {
        self.check_queue(&slot.queue);
        match hold {
            Some(hold) => self.uniques.insert(slot, hold),
            None => self.uniques.remove(&slot),
        };
        Ok(())
    }

    fn running_under(&self, limit: &Name, group: Option<&str>) -> Result<u64> {
        Ok(self.index.running_under(limit, group))
    }

    fn with_meter<T>(
        &self,
        limit: &Name,
        group: &str,
        read: impl FnOnce(&Meter) -> T,
    ) -> Result<T> {
        Ok(self.meters.read(limit, group, read))
    }

    fn save_meter(&mut self, limit: &Name, group: &str, meter: &Meter) -> Result<()> {
        self.meters.save(limit, group, meter);
        Ok(())
    }

    fn group_line(&self, lane: &LaneKey, group: &str) -> Result<GroupLine> {
        let opens_at = self.openings.at(lane, group);
        Ok(GroupLine { opens_at, ..self.index.group_line(lane, group) })
    }

    fn lanes_in_line(&self, group: &str) -> Result<Vec<LaneKey>> {
        Ok(self.index.lanes_in_line(group))
    }

    fn set_opening(&mut self, lane: &LaneKey, group: &str, at: Option<Timestamp>) -> Result<()> {
        self.openings.set(lane, group, at);
        Ok(())
    }

    fn openings(&self, queue: &Name, limit: usize) -> Result<Vec<Opening>> {
        Ok(self.openings.of_queue(queue, limit))
    }

    fn inputs(&self, dependent: JobId) -> Result<Vec<Input>> {
        self.check_job(dependent);
        Ok(self.edges.inputs(dependent).to_vec())
    }

    fn inputs_from(&self, dependent: JobId, from: u32, limit: usize) -> Result<Vec<Input>> {
        self.check_job(dependent);
        let inputs = self.edges.inputs(dependent).iter();
        Ok(inputs.skip(from as usize).take(limit).cloned().collect())
    }

    fn input(&self, dependent: JobId, position: u32) -> Result<Option<Input>> {
        self.check_job(dependent);
        Ok(self.edges.inputs(dependent).get(position as usize).cloned())
    }

    fn add_inputs(&mut self, dependent: JobId, from: u32, inputs: Vec<Input>) -> Result<()> {
        self.check_change_of(dependent);
        self.edges.add(dependent, from, inputs);
        Ok(())
    }

    fn set_input(&mut self, dependent: JobId, position: u32, input: Input) -> Result<()> {
        self.check_change_of(dependent);
        self.edges.set(dependent, position, input);
        Ok(())
    }

    fn open_edges(&self, upstream: JobId, limit: usize) -> Result<OpenEdges> {
        let edges = self.edges.open_on(upstream).filter(|(dependent, _)| self.is_here(*dependent));
        Ok(OpenEdges::of(edges, limit))
    }

    fn reopen(&mut self, queue: Option<&Name>, kind: Option<&Name>, at: Timestamp) -> Result<()> {
        for (lane, group) in self.index.lines() {
            let fits = queue.is_none_or(|queue| *queue == lane.0)
                && kind.is_none_or(|kind| *kind == lane.1);
            if fits {
                self.openings.set(lane, group, Some(at));
            }
        }
        Ok(())
    }
}

/// The first entries in order, each job once: one that is due by age and by number is due when it ended.
fn first(mut due: Vec<Due>, limit: usize) -> Vec<Due> {
    due.sort_unstable();
    let mut seen = HashSet::new();
    due.retain(|(_, id)| seen.insert(*id));
    due.truncate(limit);
    due
}

impl Maintenance for MemoryRows {
    fn last_rank(&self, queue: &Name) -> Result<Option<i64>> {
        let last =
            |lane: &crate::index::Lane| lane.ready.last_key_value().map(|((rank, _), _)| *rank);
        Ok(self.index.lanes_of(queue).filter_map(|(_, lane)| last(lane)).max())
    }

    fn stats(&self) -> Result<Vec<LaneStats>> {
        let stats = |((queue, kind), lane): (&LaneKey, &crate::index::Lane)| {
            let mut stats = LaneStats::empty(queue.clone(), kind.clone());
            for state in State::ALL {
                *stats.counter(state) = lane.count(state);
            }
            stats.next_due_at = lane.listed(State::Scheduled).first().map(|place| place.at);
            let head = lane.ready.first_key_value().and_then(|(_, (id, _))| self.jobs.get(id));
            stats.head_ready_at = head.map(|entry| entry.ready_at);
            stats
        };
        Ok(self.index.lanes.iter().map(stats).collect())
    }

    fn limit_counts(&self, most: usize) -> Result<LimitCounts> {
        Ok(self.index.limit_counts(most))
    }

    fn scheduled(&self, limit: usize) -> Result<Vec<Due>> {
        Ok(self.index.scheduled.iter().take(limit).map(|(at, _, id)| (*at, *id)).collect())
    }

    fn all_openings(&self, limit: usize) -> Result<Vec<(Name, Opening)>> {
        Ok(self.openings.first(limit))
    }

    fn unresolved(&self, limit: usize) -> Result<Vec<JobId>> {
        Ok(self.index.unresolved.iter().take(limit).copied().collect())
    }

    fn to_expire(&self, limit_ms: &dyn Fn(&Name) -> Option<u64>, limit: usize) -> Result<Vec<Due>> {
        Ok(self.index.waiting.first(|queue, _| limit_ms(queue), limit))
    }

    fn to_remove(
        &mut self,
        settings: &dyn Fn(&Name) -> QueueSettings,
        _now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Due>> {
        let kept_ms = |queue: &Name, state| Some(settings(queue).retention.of(state));
        let mut due = self.index.finished.first(kept_ms, limit);
        for queue in self.index.queues() {
            for (state, most) in settings(queue).keep_max.limits() {
                due.extend(self.index.finished.surplus(&(queue.clone(), state), most, limit));
            }
        }
        if let Some(outboxes) = &self.outboxes {
            let is_held = |id: &JobId| {
                self.jobs.get(id).is_some_and(|entry| outboxes.holds(&entry.job.header.queue, *id))
            };
            due.retain(|(_, id)| !is_held(id));
        }
        Ok(first(due, limit))
    }

    fn removed(&mut self, query: &RemovedQuery) -> Result<Page<RemovedCount>> {
        self.removed.page(query)
    }

    fn forget_removed(&mut self, before: Timestamp, limit: usize) -> Result<()> {
        self.removed.forget(before, limit);
        Ok(())
    }

    fn events(&mut self, request: &EventsRequest) -> Result<EventsReply> {
        self.events.page(request)
    }

    fn drop_events(
        &mut self,
        bounds: &dyn Fn(&Name) -> Option<EventBounds>,
        now: Timestamp,
        limit: usize,
    ) -> Result<bool> {
        Ok(self.events.drop_old(bounds, now, limit))
    }

    fn compact(&mut self, now: Timestamp, _limit: usize) -> Result<()> {
        // A lane ends with the last of its jobs.
        self.uniques.retain(|_, hold| hold.until.is_none_or(|until| now < until));
        self.meters.forget(now);
        Ok(())
    }

    fn check(&mut self, is_open: &dyn Fn(&SessionId) -> bool, repair: bool) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        report.jobs = self.jobs.len() as u64;
        let mut find = |what: String| report.findings.push(Finding::new(what, repair));
        for entry in self.jobs.values() {
            entry.contradictions(is_open).into_iter().for_each(&mut find);
        }
        for (slot, hold) in self.uniques.iter().filter(|(_, hold)| !self.may_hold(hold)) {
            find(format!("unique key {slot:?} is held by {}, which has ended", hold.holder));
        }
        for (upstream, dependent) in self.edges.all_open() {
            let followed = self.is_followed(upstream, dependent);
            if !followed || !self.jobs.contains_key(&dependent) {
                find(format!("job {dependent} depends on {upstream}, which does not know it"));
            }
        }
        let mut readers: BTreeMap<JobId, u32> = BTreeMap::new();
        for entry in self.jobs.values() {
            let inputs = self.edges.inputs(entry.id());
            let counted = inputs.iter().filter(|input| input.is_open()).count();
            let open = entry.job.dependencies.open as usize;
            if (counted, inputs.len()) != (open, entry.job.dependencies.total as usize) {
                let id = entry.id();
                find(format!("job {id} waits for {open} dependencies, and {counted} are open"));
            }
            let kept = inputs.iter().filter(|input| input.kept).map(|input| input.job);
            kept.clone().for_each(|job| *readers.entry(job).or_default() += 1);
            let (counted, ours) = (kept.count(), entry.job.dependencies.kept);
            if counted != ours as usize {
                find(format!("job {} keeps {counted} jobs, not {ours}", entry.id()));
            }
        }
        for entry in self.jobs.values() {
            let (id, ours) = (entry.id(), entry.job.dependencies.readers);
            let counted = readers.remove(&id).unwrap_or_default();
            // The number may be on its way.
            let is_settled = self.outboxes.as_ref().is_none_or(Outboxes::is_empty);
            if counted != ours && is_settled {
                find(format!("job {id} is read by {counted} dependents, not {ours}"));
            }
        }
        let rebuilt = Index::of(self.jobs.values().map(|entry| &**entry));
        if rebuilt != self.index {
            find("the index does not agree with the jobs".to_owned());
        }
        if repair {
            self.index = rebuilt;
            let mut uniques = std::mem::take(&mut self.uniques);
            uniques.retain(|_, hold| self.may_hold(hold));
            self.uniques = uniques;
        }
        Ok(report)
    }
}

impl MemoryRows {
    /// Whether a unique key can be held as recorded: by a job that has not ended, that exists, or for a window.
    fn may_hold(&self, hold: &UniqueHold) -> bool {
        let holder = self.jobs.get(&hold.holder);
        match hold.until {
            None => holder.is_some_and(|entry| !entry.job.state.is_terminal()),
            Some(UniqueHold::WHILE_STORED) => holder.is_some(),
            Some(_) => true,
        }
    }
}

impl windlass_executor::Records for MemoryRows {
    fn record(&mut self, op: RecordOp, now: Timestamp) -> Result<RecordReply> {
        self.records.perform(op, now)
    }
}

/// The error for a cursor that this engine did not issue.
pub(crate) fn bad_cursor(cursor: &Cursor) -> Error {
    Error::invalid("cursor", cursor, "use a cursor that an earlier page returned")
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::engine::{Claim, ClaimId, Claimant, Configure, Enqueue, Jobs as _};
    use windlass_core::model::{Due as ModelDue, Limit, NewJob, QueuePatch};
    use windlass_core::random::Seeded;
    use windlass_executor::Executor;

    #[test]
    fn unique_keys_are_forgotten_when_their_window_is_over_and_no_others() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let holder = JobId::new(now, &Seeded::new(1));
        let slot = |key: &str| UniqueSlot { queue: "q".into(), kind: "k".into(), key: key.into() };
        let mut rows = MemoryRows::default();
        for (key, until) in [("window", Some(now.plus(10))), ("finished", None)] {
            rows.set_unique(slot(key), Some(UniqueHold { holder, until })).unwrap();
        }
        rows.compact(now.plus(9), 1).unwrap();
        assert!(rows.unique(&slot("window")).unwrap().is_some());
        rows.compact(now.plus(10), 1).unwrap();
        assert!(rows.unique(&slot("window")).unwrap().is_none());
        assert!(rows.unique(&slot("finished")).unwrap().is_some());
    }

    #[test]
    fn a_claim_that_the_machine_refuses_leaves_the_job_where_it_is() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let id = JobId::new(now, &Seeded::new(1));
        let capabilities = crate::MemoryEngine::new().capabilities().clone();
        let random = std::sync::Arc::new(Seeded::new(2));
        let mut executor = Executor::new(capabilities, random, MemoryRows::default(), 0);
        let ready = NewJob::new("k").queue("q");
        let later = ready.clone().id(id).due(ModelDue::After(1_000));
        executor.enqueue(Enqueue::each([ready, later]), now).unwrap();
        // A corrupt index: the job is scheduled but listed as the first ready one.
        let lane = executor.rows_mut().index.lanes.get_mut(&("q".into(), "k".into())).unwrap();
        lane.ready.insert((-1, 0), (id, false));
        let by =
            Claimant::Alone { claim_id: ClaimId::new("c"), worker: "w".into(), lease_ms: 60_000 };
        let refused = executor.claim(&Claim::new(by, "q", 1), now).unwrap_err();
        assert_eq!(refused.code(), "refused");
        let state = executor.rows().with_job(id, |entry| entry.job.state).unwrap();
        assert_eq!(state, Some(State::Scheduled));
    }

    #[test]
    fn a_check_finds_and_releases_a_line_that_waits_for_nothing() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let capabilities = crate::MemoryEngine::new().capabilities().clone();
        let random = std::sync::Arc::new(Seeded::new(2));
        let mut executor = Executor::new(capabilities, random, MemoryRows::default(), 0);
        let limits = [
            Configure::limit("l", Limit::max_running(1).by_group()),
            Configure::queue("q", QueuePatch::limits(["l"])),
        ];
        executor.configure(limits.into(), now).unwrap();
        let job = || NewJob::new("k").queue("q").group("g");
        let stored = executor.enqueue(Enqueue::each([job(), job()]), now).unwrap();
        let [first, second] = [0, 1].map(|at: usize| stored[at].as_ref().unwrap().id);
        let state = |executor: &Executor<MemoryRows>| {
            executor.rows().with_job(second, |entry| entry.job.state).unwrap().unwrap()
        };
        assert_eq!(executor.check(false, now).unwrap().findings, []);
        // Corrupt: the job ahead is gone without a trace.
        let taken = executor.rows_mut().take(first).unwrap().unwrap();
        executor.rows_mut().remove(taken).unwrap();
        let found = executor.check(false, now).unwrap().findings;
        assert!(found.len() == 1 && found[0].what.contains("waits for limit l"), "{found:?}");
        assert_eq!(state(&executor), State::Blocked);
        assert!(executor.check(true, now).unwrap().findings[0].repaired);
        assert_eq!(state(&executor), State::Available);
        assert_eq!(executor.check(false, now).unwrap().findings, []);
    }
}
