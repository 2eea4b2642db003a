//! The working set as rows of the executor.

use crate::groups::Reopened;
use crate::loaded::LineRows;
use crate::set::{Touched, WorkingSet};
use std::collections::BTreeSet;
use windlass_core::engine::{Event, RemovedKey, SessionId};
use windlass_core::model::{EventBounds, Input, KindSettings, Limit, Name, QueueSettings};
use windlass_core::policy::Meter;
use windlass_core::{JobId, Result, Timestamp};
use windlass_executor::{
    Entry, GroupLine, Head, LaneKey, Line, OpenEdges, Opening, Rows, SessionEntry, Standing,
    UniqueHold, UniqueSlot,
};

impl<X> Rows for WorkingSet<'_, X> {
    fn with_job<T>(&self, id: JobId, read: impl FnOnce(&Entry) -> T) -> Result<Option<T>> {
        match self.jobs.get(&id) {
            Some(Touched::Stored(entry)) => return Ok(Some(read(entry))),
            Some(Touched::Removed | Touched::Taken { .. }) => return Ok(None),
            None => {}
        }
        match self.base.jobs.get(&id) {
            Some(known) => Ok(known.found.as_ref().map(|found| read(&found.entry))),
            None if self.fresh.contains(&id) => Ok(None),
            None => Err(self.miss(|wants| {
                wants.peek.insert(id);
            })),
        }
    }

    fn take(&mut self, id: JobId) -> Result<Option<Box<Entry>>> {
        let base = self.base;
        let entry = match self.jobs.remove(&id) {
            Some(Touched::Stored(entry)) => {
                self.jobs.insert(id, Touched::Taken { changed: true });
                entry
            }
            Some(touched) => {
                self.jobs.insert(id, touched);
                return Ok(None);
            }
            None => match base.jobs.get(&id) {
                Some(known) if known.locked => {
                    let Some(found) = &known.found else { return Ok(None) };
                    self.jobs.insert(id, Touched::Taken { changed: false });
                    Box::new(found.entry.clone())
                }
                _ => {
                    let mates = self.line_mates(id);
                    return Err(self.miss(|wants| {
                        wants.own.insert(id);
                        wants.own.extend(mates);
                    }));
                }
            },
        };
        self.leave(&entry)?;
        Ok(Some(entry))
    }

    fn put(&mut self, entry: Box<Entry>) -> Result<()> {
        self.enter(&entry, true)?;
        self.jobs.insert(entry.id(), Touched::Stored(entry));
        Ok(())
    }

    fn put_back(&mut self, entry: Box<Entry>) -> Result<()> {
        match self.jobs.remove(&entry.id()) {
            Some(Touched::Taken { changed: false }) => self.enter(&entry, false),
            _ => self.put(entry),
        }
    }

    fn remove(&mut self, entry: Box<Entry>) -> Result<()> {
        self.jobs.insert(entry.id(), Touched::Removed);
        Ok(())
    }

    fn count_removed(&mut self, key: RemovedKey) -> Result<()> {
        *self.removed.entry(key).or_default() += 1;
        Ok(())
    }

    fn append_event(&mut self, queue: &Name, _: EventBounds, event: Event) -> Result<()> {
        self.events.push((queue.clone(), event));
        Ok(())
    }

    fn reset_events(&mut self, queue: &Name, now: Timestamp) -> Result<()> {
        // They belong to the stream that ends.
        self.events.retain(|(of, _)| of != queue);
        self.event_resets.insert(queue.clone(), now);
        Ok(())
    }

    fn lanes(&self, queue: &Name) -> Vec<LaneKey> {
        let lanes = self.base.heads.keys().chain(self.readied.keys());
        let lanes: BTreeSet<&LaneKey> = lanes.filter(|(of, _)| of == queue).collect();
        lanes.into_iter().cloned().collect()
    }

    fn lanes_before(&self, lane: &LaneKey) -> Option<usize> {
        self.known_lanes.lanes_before(lane)
    }

    fn ready(&self, lane: &LaneKey, after: Option<(i64, u64)>, limit: usize) -> Result<Vec<Head>> {
        let beyond = |head: &Head| after.is_none_or(|after| (head.rank, head.seq) > after);
        let loaded = self.base.heads.get(lane).into_iter().flatten();
        let loaded = loaded.filter(|head| !self.jobs.contains_key(&head.id)).copied();
        let readied = self.readied.get(lane).into_iter().flatten();
        let readied = readied.map(|((rank, seq), (id, suspect))| Head {
            rank: *rank,
            seq: *seq,
            id: *id,
            suspect: *suspect,
        });
        let mut heads: Vec<Head> = loaded.chain(readied).filter(beyond).collect();
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

    fn running_under(&self, limit: &Name, group: Option<&str>) -> Result<u64> {
        self.running(limit, group)
    }

    fn with_meter<T>(
        &self,
        limit: &Name,
        group: &str,
        read: impl FnOnce(&Meter) -> T,
    ) -> Result<T> {
        self.meter(limit, group, read)
    }

    fn save_meter(&mut self, limit: &Name, group: &str, meter: &Meter) -> Result<()> {
        self.meters.insert((limit.clone(), group.to_owned()), meter.clone());
        Ok(())
    }

    fn group_line(&self, lane: &LaneKey, group: &str) -> Result<GroupLine> {
        self.line_of(lane, group)
    }

    fn lanes_in_line(&self, group: &str) -> Result<Vec<LaneKey>> {
        self.lanes_of_group(group)
    }

    fn set_opening(&mut self, lane: &LaneKey, group: &str, at: Option<Timestamp>) -> Result<()> {
        self.open_line_at(lane, group, at);
        Ok(())
    }

    fn openings(&self, queue: &Name, limit: usize) -> Result<Vec<Opening>> {
        Ok(self.openings_of(queue, limit))
    }

    fn reopen(&mut self, queue: Option<&Name>, kind: Option<&Name>, at: Timestamp) -> Result<()> {
        let (queue, kind) = (queue.cloned(), kind.cloned());
        self.reopened.push(Reopened { queue, kind, at });
        Ok(())
    }

    fn inputs(&self, dependent: JobId) -> Result<Vec<Input>> {
        self.all_inputs(dependent)
    }

    fn inputs_from(&self, dependent: JobId, from: u32, limit: usize) -> Result<Vec<Input>> {
        self.span(dependent, from, limit)
    }

    fn input(&self, dependent: JobId, position: u32) -> Result<Option<Input>> {
        self.edge_input((dependent, position))
    }

    fn add_inputs(&mut self, dependent: JobId, from: u32, inputs: Vec<Input>) -> Result<()> {
        self.inputs.extend((from..).map(|position| (dependent, position)).zip(inputs));
        Ok(())
    }

    fn set_input(&mut self, dependent: JobId, position: u32, input: Input) -> Result<()> {
        self.inputs.insert((dependent, position), input);
        Ok(())
    }

    fn open_edges(&self, upstream: JobId, limit: usize) -> Result<OpenEdges> {
        self.edges_of(upstream, limit)
    }

    fn save_limit(&mut self, name: &Name, limit: Option<&Limit>) -> Result<()> {
        self.limits.insert(name.clone(), limit.cloned());
        Ok(())
    }
}
