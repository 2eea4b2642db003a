//! Lanes in memory: their numbers, and their job counts by state.
//!
//! They are small, read on every call, and rebuilt from the tables when a directory is opened. Counts of ended jobs are
//! stored, because there may be too many of those to count.

use super::codec;
use super::load::{failed, get};
use super::ready::SLOT_BYTES;
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::engine::Filter;
use windlass_core::limits::LANE_IDLE_MS;
use windlass_core::model::{Name, State};
use windlass_core::{Error, Result, Timestamp};
use windlass_executor::LaneKey;

/// Counts the ended jobs of all lanes, one by one.
pub(super) const RECOUNT: &str =
    "SELECT lane, state, count(*) FROM life WHERE state IN (5, 6, 7, 8) GROUP BY lane, state";

/// Job counts, indexed by state.
pub(super) type Counts = [u64; State::ALL.len()];

#[derive(Debug, PartialEq)]
struct Lane {
    key: LaneKey,
    counts: Counts,
    /// Time at which maintenance first found no live job in the lane.
    idle_since: Option<Timestamp>,
}

impl Lane {
    /// Whether the lane has neither live nor dead jobs.
    fn is_idle(&self) -> bool {
        let ends = [State::Completed, State::Cancelled, State::Expired];
        State::ALL.iter().all(|state| ends.contains(state) || self.counts[*state as usize] == 0)
    }
}

/// All lanes, by number and by name.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Lanes {
    lanes: BTreeMap<i64, Lane>,
    /// Lane numbers by queue and kind.
    numbers: BTreeMap<Name, BTreeMap<Name, i64>>,
    /// Lanes with ready jobs. Claims look at these only, regardless of the number of other lanes.
    ready: BTreeSet<LaneKey>,
    /// Number of waiting jobs per queue.
    depths: BTreeMap<Name, u64>,
    /// Lanes and terminal states whose counts have changed since they were stored.
    unsaved: BTreeSet<(i64, State)>,
}

/// Where the counts of ended jobs are read from.
#[derive(Clone, Copy)]
pub(super) enum EndedCounts {
    /// The stored counts.
    Stored,
    /// The jobs themselves, one by one.
    Recounted,
}

impl Lanes {
    /// Reads the lanes and their counts from the tables, without running jobs.
    pub(super) fn read(conn: &Connection, ended: EndedCounts) -> Result<Self> {
        let mut lanes = Self::default();
        lanes.read_keys(conn).map_err(|error| failed(&error))?;
        let ready = format!(
            "SELECT lane, {}, sum(length(jobs)) / {SLOT_BYTES} FROM ready GROUP BY lane",
            State::Available as i64
        );
        let scheduled = format!(
            "SELECT lane, {}, count(*) FROM scheduled GROUP BY lane",
            State::Scheduled as i64
        );
        let aside = "SELECT lane, state, count(*) FROM aside GROUP BY lane, state";
        let ended = match ended {
            EndedCounts::Stored => "SELECT lane, state, jobs FROM ended_count".to_owned(),
            EndedCounts::Recounted => RECOUNT.to_owned(),
        };
        for query in [&*ready, &*scheduled, aside, &*ended] {
            lanes.read_counts(conn, query)?;
        }
        Ok(lanes)
    }

    fn read_keys(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let mut statement = conn.prepare("SELECT id, queue, kind, idle_since FROM lane")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (queue, kind): (String, String) = (row.get(1)?, row.get(2)?);
            let idle_since: Option<i64> = row.get(3)?;
            let idle_since = idle_since.map(Timestamp::from_millis);
            self.add(row.get(0)?, (queue.into(), kind.into()), idle_since);
        }
        Ok(())
    }

    /// Adds the counts of a query: lane, state, number of jobs.
    fn read_counts(&mut self, conn: &Connection, query: &str) -> Result<()> {
        let mut statement = conn.prepare(query).map_err(|error| failed(&error))?;
        let mut rows = statement.query([]).map_err(|error| failed(&error))?;
        while let Some(row) = rows.next().map_err(|error| failed(&error))? {
            let (number, count): (i64, i64) = (get(row, 0)?, get(row, 2)?);
            let state = codec::state(get(row, 1)?)?;
            if let Some(lane) = self.lanes.get_mut(&number) {
                let count = count.cast_unsigned();
                lane.counts[state as usize] = count;
                note(&mut self.ready, &mut self.depths, lane, state, (0, count));
            }
        }
        Ok(())
    }

    /// Stores the counts of ended jobs that have changed.
    pub(super) fn flush(&mut self, conn: &Connection) -> Result<()> {
        for (number, state) in std::mem::take(&mut self.unsaved) {
            let count = self.lanes.get(&number).map_or(0, |lane| lane.counts[state as usize]);
            let save = || match count {
                0 => conn
                    .prepare_cached("DELETE FROM ended_count WHERE lane = ?1 AND state = ?2")?
                    .execute([number, state as i64]),
                count => conn
                    .prepare_cached("REPLACE INTO ended_count VALUES (?1, ?2, ?3)")?
                    .execute([number, state as i64, count.cast_signed()]),
            };
            save().map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    /// Adds the lanes that were created since the last call, without counts; for the reader. New lanes always have
    /// the highest number. Lanes that were removed in the meantime stay known, which is harmless because they have
    /// no jobs.
    pub(super) fn learn(&mut self, conn: &Connection) -> Result<()> {
        let last =
            || conn.prepare_cached("SELECT max(id) FROM lane")?.query_row([], |row| row.get(0));
        let last: Option<i64> = last().map_err(|error| failed(&error))?;
        if last > self.highest() {
            self.read_keys(conn).map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    fn highest(&self) -> Option<i64> {
        self.lanes.last_key_value().map(|(number, _)| *number)
    }

    fn add(&mut self, number: i64, key: LaneKey, idle_since: Option<Timestamp>) {
        self.numbers.entry(key.0.clone()).or_default().insert(key.1.clone(), number);
        self.lanes.insert(number, Lane { key, counts: Counts::default(), idle_since });
    }

    /// Returns the number of the lane of a new or changed job; creates the lane if necessary.
    pub(super) fn number(&mut self, conn: &Connection, queue: &Name, kind: &Name) -> Result<i64> {
        if let Some(number) = self.known(queue, kind) {
            self.set_idle(conn, number, None)?;
            return Ok(number);
        }
        let insert = "INSERT INTO lane (queue, kind) VALUES (?1, ?2)";
        conn.execute(insert, [&**queue, &**kind]).map_err(|error| failed(&error))?;
        let number = conn.last_insert_rowid();
        self.add(number, (queue.clone(), kind.clone()), None);
        Ok(number)
    }

    /// Stores the time since which a lane is idle; `None` if it is not.
    fn set_idle(&mut self, conn: &Connection, number: i64, since: Option<Timestamp>) -> Result<()> {
        let lane = self.lanes.get_mut(&number).filter(|lane| lane.idle_since != since);
        let Some(lane) = lane else { return Ok(()) };
        lane.idle_since = since;
        let update = "UPDATE lane SET idle_since = ?2 WHERE id = ?1";
        let update =
            || conn.prepare_cached(update)?.execute((number, since.map(|at| at.as_millis())));
        update().map(|_| ()).map_err(|error| failed(&error))
    }

    /// Examines up to `limit` lanes after a number: marks idle lanes, and removes those that have been idle for
    /// [`LANE_IDLE_MS`] and have no ended jobs left. Returns the number to continue after.
    pub(super) fn forget_idle(
        &mut self,
        conn: &Connection,
        after: i64,
        limit: usize,
        now: Timestamp,
    ) -> Result<i64> {
        let range = self.lanes.range(after.saturating_add(1)..).take(limit);
        let looked: Vec<i64> = range.map(|(number, _)| *number).collect();
        for number in &looked {
            let Some(lane) = self.lanes.get(number) else { continue };
            match (lane.is_idle(), lane.idle_since) {
                (false, _) => self.set_idle(conn, *number, None)?,
                (true, None) => self.set_idle(conn, *number, Some(now))?,
                (true, Some(since)) if now.since(since) < LANE_IDLE_MS => {}
                (true, Some(_)) => self.forget(conn, *number)?,
            }
        }
        Ok(if looked.len() < limit { 0 } else { looked.last().copied().unwrap_or(0) })
    }

    /// Removes a lane without live jobs, unless it has ended jobs. The lane with the highest number always stays,
    /// so that numbers are never reused.
    fn forget(&mut self, conn: &Connection, number: i64) -> Result<()> {
        if self.highest() == Some(number) {
            return Ok(());
        }
        let sql = "DELETE FROM lane WHERE id = ?1
            AND NOT EXISTS (SELECT 1 FROM ended WHERE lane = ?1)
            AND NOT EXISTS (SELECT 1 FROM deadline WHERE work = 1 AND lane = ?1)";
        let delete = || conn.prepare_cached(sql)?.execute([number]);
        if delete().map_err(|error| failed(&error))? == 0 {
            return Ok(());
        }
        if let Some(Lane { key: (queue, kind), .. }) = self.lanes.remove(&number)
            && let Some(kinds) = self.numbers.get_mut(&queue)
        {
            kinds.remove(&kind);
            if kinds.is_empty() {
                self.numbers.remove(&queue);
            }
        }
        Ok(())
    }

    /// Number of lanes of a queue.
    pub(super) fn count_of(&self, queue: &Name) -> usize {
        self.numbers.get(queue).map_or(0, BTreeMap::len)
    }

    /// The lanes of a queue that have ready jobs.
    pub(super) fn ready_of(&self, queue: &Name) -> impl Iterator<Item = &LaneKey> {
        let first: LaneKey = (queue.clone(), "".into());
        let queue = queue.clone();
        self.ready.range(first..).take_while(move |(of, _)| *of == queue)
    }

    /// Number of waiting jobs of a queue.
    pub(super) fn depth(&self, queue: &Name) -> u64 {
        self.depths.get(queue).copied().unwrap_or(0)
    }

    /// The number of a lane, if it exists.
    pub(super) fn known(&self, queue: &Name, kind: &Name) -> Option<i64> {
        self.numbers.get(queue)?.get(kind).copied()
    }

    /// The queue and kind of a lane.
    pub(super) fn key(&self, number: i64) -> Option<LaneKey> {
        self.lanes.get(&number).map(|lane| lane.key.clone())
    }

    /// Counts a job that entered a state (`came`) or left it.
    pub(super) fn count(&mut self, number: i64, state: State, came: bool) -> Result<()> {
        let Some(lane) = self.lanes.get_mut(&number) else { return Ok(()) };
        let was = lane.counts[state as usize];
        let now = if came { was.checked_add(1) } else { was.checked_sub(1) };
        let now = now.ok_or_else(|| Error::Corrupt {
            store: "the local store".into(),
            reason: format!("more jobs left {state} than ever came into it"),
        })?;
        lane.counts[state as usize] = now;
        if state.is_terminal() {
            self.unsaved.insert((number, state));
        }
        note(&mut self.ready, &mut self.depths, lane, state, (was, now));
        Ok(())
    }

    /// The numbers of the lanes that a filter selects.
    pub(super) fn selected(&self, filter: &Filter) -> Vec<i64> {
        let queues: Vec<&BTreeMap<Name, i64>> = match &filter.queue {
            Some(queue) => self.numbers.get(queue).into_iter().collect(),
            None => self.numbers.values().collect(),
        };
        let kinds = queues.into_iter().flatten();
        let selected = kinds.filter(|(kind, _)| filter.kind.as_ref().is_none_or(|it| it == *kind));
        selected.map(|(_, number)| *number).collect()
    }

    /// All lanes with their numbers and counts, in order of their names.
    pub(super) fn all(&self) -> impl Iterator<Item = (&LaneKey, i64, &Counts)> {
        self.numbers.values().flat_map(|kinds| self.those(kinds))
    }

    /// The lanes of a queue with their numbers and counts.
    pub(super) fn of_queue(&self, queue: &Name) -> impl Iterator<Item = (&LaneKey, i64, &Counts)> {
        self.numbers.get(queue).into_iter().flat_map(|kinds| self.those(kinds))
    }

    fn those<'a>(
        &'a self,
        kinds: &'a BTreeMap<Name, i64>,
    ) -> impl Iterator<Item = (&'a LaneKey, i64, &'a Counts)> {
        kinds.values().filter_map(|number| {
            self.lanes.get(number).map(|lane| (&lane.key, *number, &lane.counts))
        })
    }
}

/// Updates the set of ready lanes and the depth of the queue after the count of a state changed.
fn note(
    ready: &mut BTreeSet<LaneKey>,
    depths: &mut BTreeMap<Name, u64>,
    lane: &Lane,
    state: State,
    (was, now): (u64, u64),
) {
    if state == State::Available && (was == 0) != (now == 0) {
        if now == 0 {
            ready.remove(&lane.key);
        } else {
            ready.insert(lane.key.clone());
        }
    }
    if state.is_waiting() {
        let depth = depths.entry(lane.key.0.clone()).or_default();
        *depth = depth.saturating_add(now).saturating_sub(was);
        if *depth == 0 {
            depths.remove(&lane.key.0);
        }
    }
}
