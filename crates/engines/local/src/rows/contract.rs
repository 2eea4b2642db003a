//! The executor's storage traits, implemented as SQL statements.

// tidy: long because each trait is one block.

use super::load::Loaded;
use super::save::{Before, EXPIRES, Place, REMOVED, Saver};
use super::{SqliteRows, codec, edges, ended, load, records, removed, saver};
use rusqlite::types::ToSql;
use rusqlite::{Row, params};
use std::collections::{BTreeMap, HashSet};
use windlass_core::engine::{
    CheckReport, Event, EventsReply, EventsRequest, LaneStats, Page, RecordOp, RecordReply,
    RemovedCount, RemovedKey, RemovedQuery, SessionId,
};
use windlass_core::model::{EventBounds, Input, KindSettings, Limit, Name, QueueSettings, State};
use windlass_core::policy::Meter;
use windlass_core::{JobId, Result, Timestamp};
use windlass_executor::{
    Due, Entry, GroupLine, Head, LaneKey, LimitCounts, Line, LineHead, LinePlace, Maintenance,
    OpenEdges, Opening, Records, Rows, SessionEntry, UniqueHold, UniqueSlot,
};

/// Maximum number of pages that one compaction step returns to the file system.
const VACUUM_PAGES: u32 = 2_000;

impl Rows for SqliteRows<'_> {
    fn with_job<T>(&self, id: JobId, read: impl FnOnce(&Entry) -> T) -> Result<Option<T>> {
        if let Some(running) = self.running.get(&id) {
            if !running.light {
                return Ok(Some(read(&running.loaded.entry)));
            }
            let mut entry = running.loaded.entry.clone();
            entry.job.parts = self.parts_of(id)?;
            return Ok(Some(read(&entry)));
        }
        let loaded = self.noted(self.stored(id))?;
        Ok(loaded.map(|loaded| read(&loaded.entry)))
    }

    fn take(&mut self, id: JobId) -> Result<Option<Box<Entry>>> {
        let in_memory = match self.lately.remove(&id) {
            Some(loaded) => Some(loaded),
            None => self.unhold(id)?,
        };
        let loaded = match in_memory {
            Some(loaded) => Some(loaded),
            None => self.noted(self.stored(id))?,
        };
        let Some(loaded) = loaded else { return Ok(None) };
        self.groups.leave(&loaded.entry);
        self.taken = Some((id, Before::of(&loaded)));
        Ok(Some(loaded.entry))
    }

    fn put(&mut self, entry: Box<Entry>) -> Result<()> {
        let written = self.write(entry);
        self.noted(written)
    }

    fn append_event(&mut self, queue: &Name, bounds: EventBounds, event: Event) -> Result<()> {
        self.events.append(queue, bounds, event);
        Ok(())
    }

    fn reset_events(&mut self, queue: &Name, now: Timestamp) -> Result<()> {
        self.events.reset(queue, now);
        Ok(())
    }

    fn count_removed(&mut self, key: RemovedKey) -> Result<()> {
        self.removed.add(key);
        Ok(())
    }

    fn put_back(&mut self, entry: Box<Entry>) -> Result<()> {
        // The rows were not changed; only counts and a running job must return to memory.
        self.groups.enter(&entry);
        let Some((_, Before { n, lived, side_parts, lease_row, .. })) = self.taken.take() else {
            return Ok(());
        };
        if entry.job.state == State::Running {
            self.hold(Loaded { entry, n, lived, side_parts, lease_row });
        }
        Ok(())
    }

    fn remove(&mut self, entry: Box<Entry>) -> Result<()> {
        let Some((_, before)) = self.taken.take() else { return Ok(()) };
        let header = &entry.job.header;
        let lane = self.lanes.known(&header.queue, &header.kind).unwrap_or_default();
        let deleted = saver!(self, &entry, lane).delete(&before);
        self.noted(deleted)?;
        self.leases.end(before.lease_row);
        self.lanes.count(lane, before.place.state, false)
    }

    fn lanes(&self, queue: &Name) -> Vec<LaneKey> {
        self.lanes.ready_of(queue).cloned().collect()
    }

    fn lanes_before(&self, (queue, kind): &LaneKey) -> Option<usize> {
        let known = self.lanes.known(queue, kind).is_some();
        (!known).then(|| self.lanes.count_of(queue))
    }

    fn ready(&self, lane: &LaneKey, after: Option<(i64, u64)>, limit: usize) -> Result<Vec<Head>> {
        let Some(lane) = self.lanes.known(&lane.0, &lane.1) else { return Ok(Vec::new()) };
        self.noted(self.ready.heads(self.conn, lane, after, limit))
    }

    fn depth(&self, queue: &Name) -> u64 {
        self.lanes.depth(queue)
    }

    fn line(&self, queue: &Name, key: &str) -> Result<Line> {
        let sql = "SELECT id FROM key_holder WHERE queue = ?1 AND key = ?2";
        let holder = self.one(sql, [&**queue, key], |row| row.get(0).map(JobId::from_bytes))?;
        let sql = "SELECT seq, id FROM key_line WHERE queue = ?1 AND key = ?2 ORDER BY seq LIMIT 1";
        let first = self.one(sql, [&**queue, key], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), JobId::from_bytes(row.get(1)?)))
        })?;
        Ok(Line { holder, first })
    }

    fn held(&self, session: &SessionId) -> Vec<JobId> {
        self.held.get(session).into_iter().flatten().copied().collect()
    }

    fn unique(&self, slot: &UniqueSlot) -> Result<Option<UniqueHold>> {
        let sql = "SELECT id, until FROM unique_key WHERE queue = ?1 AND kind = ?2 AND key = ?3";
        self.one(sql, [&slot.queue, &slot.kind, &slot.key], |row| {
            let until = row.get::<_, Option<i64>>(1)?.map(Timestamp::from_millis);
            Ok(UniqueHold { holder: JobId::from_bytes(row.get(0)?), until })
        })
    }

    fn set_unique(&mut self, slot: UniqueSlot, hold: Option<UniqueHold>) -> Result<()> {
        let UniqueSlot { queue, kind, key } = slot;
        let Some(hold) = hold else {
            let sql = "DELETE FROM unique_key WHERE queue = ?1 AND kind = ?2 AND key = ?3";
            return self.run(sql, [queue, kind, key]).map(|_| ());
        };
        let sql = "INSERT OR REPLACE INTO unique_key (queue, kind, key, id, until)
            VALUES (?1, ?2, ?3, ?4, ?5)";
        let until = hold.until.map(Timestamp::as_millis);
        self.run(sql, params![queue, kind, key, hold.holder.as_bytes(), until]).map(|_| ())
    }

    fn save_session(&mut self, id: &SessionId, session: Option<&SessionEntry>) -> Result<()> {
        let text = session.map(records::session_text).transpose()?;
        self.save_named("session (id, entry)", "session WHERE id", &id.as_str(), text)
    }

    fn save_queue(&mut self, queue: &Name, settings: Option<&QueueSettings>) -> Result<()> {
        let text = settings.map(records::text).transpose()?;
        self.save_named("queue (name, settings)", "queue WHERE name", &&**queue, text)?;
        let limits = settings.is_some_and(|settings| settings.max_wait_ms.is_some());
        if limits && self.aging.insert(queue.clone()) {
            self.fill_aging(queue)?;
        }
        if !limits && self.aging.remove(queue) {
            self.run("DELETE FROM aging WHERE queue = ?1", [&**queue])?;
        }
        Ok(())
    }

    fn save_kind(&mut self, kind: &Name, settings: Option<&KindSettings>) -> Result<()> {
        let text = settings.map(records::text).transpose()?;
        self.save_named("kind (name, settings)", "kind WHERE name", &&**kind, text)
    }

    fn running_under(&self, limit: &Name, group: Option<&str>) -> Result<u64> {
        Ok(self.groups.running_under(limit, group))
    }

    fn with_meter<T>(
        &self,
        limit: &Name,
        group: &str,
        read: impl FnOnce(&Meter) -> T,
    ) -> Result<T> {
        if !self.groups.is_metered(limit) {
            return Ok(read(&Meter::default()));
        }
        let sql = "SELECT meter FROM meter WHERE name = ?1 AND grp = ?2";
        let text = self.one(sql, [&**limit, group], |row| row.get::<_, String>(0))?;
        let meter: Meter = self.noted(codec::from_text(text.as_deref()))?;
        Ok(read(&meter))
    }

    fn save_meter(&mut self, limit: &Name, group: &str, meter: &Meter) -> Result<()> {
        self.groups.set_metered(limit);
        let sql = "REPLACE INTO meter (name, grp, meter, idle_at) VALUES (?1, ?2, ?3, ?4)";
        let idle_at = meter.idle_at().as_millis();
        self.run(sql, params![&**limit, group, records::text(meter)?, idle_at]).map(|_| ())
    }

    fn group_line(&self, lane: &LaneKey, group: &str) -> Result<GroupLine> {
        let (waits, ahead) = self.groups.line(lane, group);
        let opens_at = self.groups.openings.at(lane, group);
        let Some(number) = self.lanes.known(&lane.0, &lane.1).filter(|_| waits) else {
            return Ok(GroupLine { first: None, ahead, opens_at });
        };
        let sql = "SELECT priority, run_at, seq, id, cost, name FROM group_line
            WHERE lane = ?1 AND grp = ?2 ORDER BY priority, run_at, seq LIMIT 1";
        let first = self.one(sql, params![number, group], |row| {
            let (run_at, seq): (i64, i64) = (row.get(1)?, row.get(2)?);
            Ok(LineHead {
                place: LinePlace {
                    priority: row.get(0)?,
                    run_at: Timestamp::from_millis(run_at),
                    seq: seq.cast_unsigned(),
                },
                id: JobId::from_bytes(row.get(3)?),
                cost: row.get(4)?,
                limit: row.get::<_, String>(5)?.into(),
            })
        })?;
        Ok(GroupLine { first, ahead, opens_at })
    }

    fn lanes_in_line(&self, group: &str) -> Result<Vec<LaneKey>> {
        Ok(self.groups.lanes_in_line(group))
    }

    fn set_opening(&mut self, lane: &LaneKey, group: &str, at: Option<Timestamp>) -> Result<()> {
        self.groups.openings.set(lane, group, at);
        Ok(())
    }

    fn openings(&self, queue: &Name, limit: usize) -> Result<Vec<Opening>> {
        Ok(self.groups.openings.of_queue(queue, limit))
    }

    fn inputs(&self, dependent: JobId) -> Result<Vec<Input>> {
        self.noted(edges::inputs(self.conn, dependent))
    }

    fn inputs_from(&self, dependent: JobId, from: u32, limit: usize) -> Result<Vec<Input>> {
        self.noted(edges::inputs_from(self.conn, dependent, from, limit))
    }

    fn input(&self, dependent: JobId, position: u32) -> Result<Option<Input>> {
        self.noted(edges::input(self.conn, dependent, position))
    }

    fn add_inputs(&mut self, dependent: JobId, from: u32, inputs: Vec<Input>) -> Result<()> {
        for (position, input) in (from..).zip(inputs) {
            self.noted(edges::save(self.conn, dependent, position, &input))?;
        }
        Ok(())
    }

    fn set_input(&mut self, dependent: JobId, position: u32, input: Input) -> Result<()> {
        self.noted(edges::save(self.conn, dependent, position, &input))
    }

    fn open_edges(&self, upstream: JobId, limit: usize) -> Result<OpenEdges> {
        self.noted(edges::open(self.conn, upstream, limit))
    }

    fn reopen(&mut self, queue: Option<&Name>, kind: Option<&Name>, at: Timestamp) -> Result<()> {
        self.groups.reopen(queue, kind, at);
        Ok(())
    }

    fn save_limit(&mut self, name: &Name, limit: Option<&Limit>) -> Result<()> {
        let text = limit.map(records::text).transpose()?;
        self.save_named("limit_rule (name, settings)", "limit_rule WHERE name", &&**name, text)
    }
}

impl Maintenance for SqliteRows<'_> {
    fn last_rank(&self, queue: &Name) -> Result<Option<i64>> {
        let mut last = None;
        for (_, lane, _) in self.lanes.of_queue(queue) {
            last = last.max(self.noted(self.ready.last_rank(self.conn, lane))?);
        }
        Ok(last)
    }

    fn stats(&self) -> Result<Vec<LaneStats>> {
        let mut all = Vec::new();
        for ((queue, kind), number, counts) in self.lanes.all() {
            let mut stats = LaneStats::empty(queue.clone(), kind.clone());
            for state in State::ALL {
                *stats.counter(state) = counts[state as usize];
            }
            if stats.scheduled > 0 {
                let sql = "SELECT min(run_at) FROM scheduled WHERE lane = ?1";
                let next = self.one(sql, [number], |row| row.get::<_, Option<i64>>(0))?;
                stats.next_due_at = next.flatten().map(Timestamp::from_millis);
            }
            if stats.available > 0 {
                let head = self.ready(&(queue.clone(), kind.clone()), None, 1)?;
                let head = head.first().map(|head| self.with_job(head.id, |entry| entry.ready_at));
                stats.head_ready_at = head.transpose()?.flatten();
            }
            all.push(stats);
        }
        Ok(all)
    }

    fn limit_counts(&self, most: usize) -> Result<LimitCounts> {
        Ok(self.groups.limit_counts(most))
    }

    fn scheduled(&self, limit: usize) -> Result<Vec<Due>> {
        let sql = "SELECT run_at, id FROM scheduled ORDER BY run_at, seq LIMIT ?1";
        self.all(sql, [limit as i64], due)
    }

    fn all_openings(&self, limit: usize) -> Result<Vec<(Name, Opening)>> {
        Ok(self.groups.openings.first(limit))
    }

    fn unresolved(&self, limit: usize) -> Result<Vec<JobId>> {
        let sql = "SELECT id FROM unresolved ORDER BY id LIMIT ?1";
        self.all(sql, [limit as i64], |row| row.get(0).map(JobId::from_bytes))
    }

    fn to_expire(&self, limit_ms: &dyn Fn(&Name) -> Option<u64>, limit: usize) -> Result<Vec<Due>> {
        let mut expire = self.deadlines(EXPIRES, limit)?;
        for queue in &self.aging {
            let Some(ms) = limit_ms(queue) else { continue };
            let sql = "SELECT run_at, id FROM aging WHERE queue = ?1 ORDER BY run_at, id LIMIT ?2";
            let oldest = self.all(sql, params![&**queue, limit as i64], due)?;
            expire.extend(oldest.into_iter().map(|(since, id)| (since.plus(ms), id)));
        }
        Ok(first(expire, limit))
    }

    fn to_remove(
        &mut self,
        settings: &dyn Fn(&Name) -> QueueSettings,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Due>> {
        let flushed = self.flush();
        self.noted(flushed)?;
        let mut remove = self.deadlines(REMOVED, limit)?;
        let groups = self.noted(ended::groups(self.conn))?;
        for (lane, state) in &groups {
            let Some((queue, kind)) = self.lanes.key(*lane) else { continue };
            let kept_ms = settings(&queue).retention.of(codec::state(*state)?);
            let due = now.as_millis().saturating_sub_unsigned(kept_ms);
            // A job may have been moved to another queue since it was listed.
            let ended_here = |entry: &Entry| {
                let header = &entry.job.header;
                let is_here = header.queue == queue && header.kind == kind;
                let counts = is_here && entry.job.state as i64 == *state && !entry.job.is_read();
                entry.job.finished_at.filter(|_| counts)
            };
            let ended_at = |id| Ok(self.with_job(id, ended_here)?.flatten());
            let oldest = ended::oldest(self.conn, (*lane, *state), due, limit, ended_at);
            let oldest = self.noted(oldest)?;
            remove.extend(oldest.into_iter().map(|(since, id)| (since.plus(kept_ms), id)));
        }
        remove.extend(self.surplus(&groups, settings, limit)?);
        Ok(first(remove, limit))
    }

    fn removed(&mut self, query: &RemovedQuery) -> Result<Page<RemovedCount>> {
        let flushed = self.flush();
        self.noted(flushed)?;
        self.noted(removed::page(self.conn, query))
    }

    fn forget_removed(&mut self, before: Timestamp, limit: usize) -> Result<()> {
        self.noted(removed::forget(self.conn, before, limit))
    }

    fn events(&mut self, request: &EventsRequest) -> Result<EventsReply> {
        let flushed = self.flush();
        self.noted(flushed)?;
        self.noted(self.events.page(self.conn, request))
    }

    fn drop_events(
        &mut self,
        bounds: &dyn Fn(&Name) -> Option<EventBounds>,
        now: Timestamp,
        limit: usize,
    ) -> Result<bool> {
        let flushed = self.flush();
        self.noted(flushed)?;
        let dropped = self.events.drop_old(self.conn, bounds, now, limit);
        self.noted(dropped)
    }

    fn compact(&mut self, now: Timestamp, limit: usize) -> Result<()> {
        let windows = "DELETE FROM unique_key WHERE until IS NOT NULL AND until <= ?1";
        self.run(windows, [now.as_millis()])?;
        self.run("DELETE FROM meter WHERE idle_at <= ?1", [now.as_millis()])?;
        self.remove_idle_lanes(now, limit)?;
        let sql = format!("PRAGMA incremental_vacuum({VACUUM_PAGES})");
        let freed = self.conn.execute_batch(&sql).map_err(|error| load::failed(&error));
        self.noted(freed)
    }

    fn check(&mut self, is_open: &dyn Fn(&SessionId) -> bool, repair: bool) -> Result<CheckReport> {
        let flushed = self.flush();
        self.noted(flushed)?;
        let report = self.check_all(is_open, repair);
        self.noted(report)
    }
}

impl Records for SqliteRows<'_> {
    fn record(&mut self, op: RecordOp, now: Timestamp) -> Result<RecordReply> {
        self.perform(op, now)
    }
}

impl SqliteRows<'_> {
    fn remove_idle_lanes(&mut self, now: Timestamp, limit: usize) -> Result<()> {
        // Flushes first, so that jobs which ended in this transaction count.
        let flushed = self.flush();
        self.noted(flushed)?;
        let looked = self.lanes.forget_idle(self.conn, self.lanes_looked, limit, now);
        self.lanes_looked = self.noted(looked)?;
        Ok(())
    }

    /// When a job ended in this state; `None` if it is not in this state.
    fn ended_at(&self, id: JobId, state: i64) -> Result<Option<Timestamp>> {
        let ended = |entry: &Entry| (entry.job.state as i64, entry.job.finished_at);
        let found = self.with_job(id, ended)?.filter(|(now, _)| *now == state);
        Ok(found.and_then(|(_, at)| at))
    }

    /// The oldest jobs beyond the numbers that their queues keep, with the times at which they ended: at most `limit`
    /// of each queue and state. Reads as many jobs as a queue keeps; queues without such a limit cost nothing.
    fn surplus(
        &self,
        groups: &[ended::Group],
        settings: &dyn Fn(&Name) -> QueueSettings,
        limit: usize,
    ) -> Result<Vec<Due>> {
        let mut of_queue: BTreeMap<(Name, i64), (u64, Vec<ended::Group>)> = BTreeMap::new();
        for (lane, state) in groups {
            let Some((queue, _)) = self.lanes.key(*lane) else { continue };
            let most = settings(&queue).keep_max.of(codec::state(*state)?);
            if let Some(most) = most {
                let (_, lanes) = of_queue.entry((queue, *state)).or_insert((most, Vec::new()));
                lanes.push((*lane, *state));
            }
        }
        let mut surplus = Vec::new();
        for ((_, state), (most, lanes)) in of_queue {
            let (most, ended_at) = (most as usize, |id| self.ended_at(id, state));
            let (mut newest, mut oldest) = (Vec::new(), Vec::new());
            for lane in &lanes {
                newest.extend(self.noted(ended::newest(self.conn, *lane, most + 1, ended_at))?);
            }
            newest.sort_unstable_by(|one, other| other.cmp(one));
            let Some(first) = newest.get(most).copied() else { continue };
            for lane in lanes {
                let found = ended::oldest(self.conn, lane, i64::MAX, limit, ended_at);
                oldest.extend(self.noted(found)?.into_iter().filter(|job| *job <= first));
            }
            oldest.sort_unstable();
            oldest.truncate(limit);
            surplus.extend(oldest);
        }
        Ok(surplus)
    }

    fn deadlines(&self, work: i64, limit: usize) -> Result<Vec<Due>> {
        let sql = "SELECT at, id FROM deadline WHERE work = ?1 ORDER BY at LIMIT ?2";
        self.all(sql, [work, limit as i64], due)
    }

    fn save_named(
        &self,
        into: &str,
        from: &str,
        name: &dyn ToSql,
        text: Option<String>,
    ) -> Result<()> {
        match text {
            Some(text) => {
                let sql = format!("INSERT OR REPLACE INTO {into} VALUES (?1, ?2)");
                self.run(&sql, params![name, text])
            }
            None => self.run(&format!("DELETE FROM {from} = ?1"), params![name]),
        }
        .map(|_| ())
    }

    /// Adds all waiting jobs of a queue to `aging`, once, when the queue gets a limit on waiting time.
    fn fill_aging(&self, queue: &Name) -> Result<()> {
        let lanes: Vec<i64> = self.lanes.of_queue(queue).map(|(_, lane, _)| lane).collect();
        for lane in lanes {
            let heads = self.noted(self.ready.heads(self.conn, lane, None, usize::MAX))?;
            let mut ids: Vec<JobId> = heads.into_iter().map(|head| head.id).collect();
            let aside = "SELECT j.id FROM aside a JOIN job j ON j.n = a.n WHERE a.lane = ?1";
            ids.extend(self.all(aside, [lane], |row| row.get(0).map(JobId::from_bytes))?);
            for id in ids {
                let place = self.with_job(id, Place::of)?;
                if let Some(place) = place.filter(|place| place.ages) {
                    let sql = "INSERT OR IGNORE INTO aging (queue, run_at, id) VALUES (?1, ?2, ?3)";
                    self.run(sql, params![&**queue, place.run_at, id.as_bytes()])?;
                }
            }
        }
        Ok(())
    }
}

fn due(row: &Row<'_>) -> rusqlite::Result<Due> {
    Ok((Timestamp::from_millis(row.get(0)?), JobId::from_bytes(row.get(1)?)))
}

/// Returns the earliest entries, sorted, each job once.
fn first(mut all: Vec<Due>, limit: usize) -> Vec<Due> {
    all.sort_unstable();
    let mut seen = HashSet::new();
    all.retain(|(_, id)| seen.insert(*id));
    all.truncate(limit);
    all
}
