//! Lanes in memory: their numbers, and how many jobs of each state they have.
//!
//! Small, read on every call, and rebuilt from the tables when a directory is opened.

use super::load::failed;
use super::ready::SLOT_BYTES;
use rusqlite::Connection;
use std::collections::{BTreeMap, HashMap};
use windlass_core::model::{Name, State};
use windlass_core::{Error, Result};
use windlass_executor::LaneKey;

/// Jobs by state.
pub(super) type Counts = [u64; State::ALL.len()];

#[derive(Debug, PartialEq)]
struct Lane {
    key: LaneKey,
    counts: Counts,
}

/// All lanes, by number and by name.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Lanes {
    lanes: HashMap<i64, Lane>,
    /// Of each queue, its kinds.
    numbers: BTreeMap<Name, BTreeMap<Name, i64>>,
}

impl Lanes {
    /// The lanes as the tables tell, without the jobs that run. Of ended jobs only the dead are
    /// counted: nobody asks for the others, and there may be very many.
    pub(super) fn read(conn: &Connection) -> Result<Self> {
        let mut lanes = Self::default();
        lanes.read_keys(conn).map_err(|error| failed(&error))?;
        let waiting = [
            (
                State::Available,
                &*format!("SELECT lane, sum(length(jobs)) / {SLOT_BYTES} FROM ready GROUP BY lane"),
            ),
            (State::Scheduled, "SELECT lane, count(*) FROM scheduled GROUP BY lane"),
            (State::Blocked, "SELECT lane, count(*) FROM aside WHERE state = 1 GROUP BY lane"),
            (State::Paused, "SELECT lane, count(*) FROM aside WHERE state = 4 GROUP BY lane"),
        ];
        for (state, query) in waiting {
            lanes.read_counts(conn, state, query).map_err(|error| failed(&error))?;
        }
        let dead = "SELECT lane, count(*) FROM life WHERE state = 6 GROUP BY lane";
        lanes.read_counts(conn, State::Dead, dead).map_err(|error| failed(&error))?;
        Ok(lanes)
    }

    fn read_keys(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let mut statement = conn.prepare("SELECT id, queue, kind FROM lane")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (queue, kind): (String, String) = (row.get(1)?, row.get(2)?);
            self.add(row.get(0)?, (queue.into(), kind.into()));
        }
        Ok(())
    }

    fn read_counts(
        &mut self,
        conn: &Connection,
        state: State,
        query: &str,
    ) -> rusqlite::Result<()> {
        let mut statement = conn.prepare(query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (number, count): (i64, i64) = (row.get(0)?, row.get(1)?);
            if let Some(lane) = self.lanes.get_mut(&number) {
                lane.counts[state as usize] = count.cast_unsigned();
            }
        }
        Ok(())
    }

    /// Learns the lanes that came since, by name alone; for those who only look.
    pub(super) fn learn(&mut self, conn: &Connection) -> Result<()> {
        let count =
            || conn.prepare_cached("SELECT count(*) FROM lane")?.query_row([], |row| row.get(0));
        let count: i64 = count().map_err(|error| failed(&error))?;
        if count as usize != self.lanes.len() {
            self.read_keys(conn).map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    fn add(&mut self, number: i64, key: LaneKey) {
        self.numbers.entry(key.0.clone()).or_default().insert(key.1.clone(), number);
        self.lanes.insert(number, Lane { key, counts: Counts::default() });
    }

    /// The number of a lane, given to it now if it is new.
    pub(super) fn number(&mut self, conn: &Connection, queue: &Name, kind: &Name) -> Result<i64> {
        if let Some(number) = self.known(queue, kind) {
            return Ok(number);
        }
        let insert = "INSERT INTO lane (queue, kind) VALUES (?1, ?2)";
        conn.execute(insert, [&**queue, &**kind]).map_err(|error| failed(&error))?;
        let number = conn.last_insert_rowid();
        self.add(number, (queue.clone(), kind.clone()));
        Ok(number)
    }

    /// The number of a lane that has one.
    pub(super) fn known(&self, queue: &Name, kind: &Name) -> Option<i64> {
        self.numbers.get(queue)?.get(kind).copied()
    }

    /// The queue and kind of a lane.
    pub(super) fn key(&self, number: i64) -> Option<LaneKey> {
        self.lanes.get(&number).map(|lane| lane.key.clone())
    }

    /// A job came into a state, or left it.
    pub(super) fn count(&mut self, number: i64, state: State, came: bool) -> Result<()> {
        let counted = state == State::Dead || !state.is_terminal();
        let Some(lane) = self.lanes.get_mut(&number).filter(|_| counted) else { return Ok(()) };
        let count = &mut lane.counts[state as usize];
        let now = if came { count.checked_add(1) } else { count.checked_sub(1) };
        *count = now.ok_or_else(|| Error::Corrupt {
            store: "the local store".into(),
            reason: format!("more jobs left {state} than ever came into it"),
        })?;
        Ok(())
    }

    /// All lanes with their counts, in order.
    pub(super) fn all(&self) -> impl Iterator<Item = (&LaneKey, i64, &Counts)> {
        self.numbers.values().flat_map(|kinds| self.those(kinds))
    }

    /// The lanes of a queue with their counts.
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
