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

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Lanes {
    keys: HashMap<i64, LaneKey>,
    numbers: BTreeMap<LaneKey, (i64, Counts)>,
}

impl Lanes {
    /// The lanes as the tables tell, without the jobs that run. Of ended jobs only the dead are counted: nobody asks for the
    /// others, and there may be very many.
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
            if let Some(key) = self.key(number)
                && let Some((_, counts)) = self.numbers.get_mut(&key)
            {
                counts[state as usize] = count.cast_unsigned();
            }
        }
        Ok(())
    }

    /// Learns the lanes that came since, by name alone; for those who only look.
    pub(super) fn learn(&mut self, conn: &Connection) -> Result<()> {
        let count =
            || conn.prepare_cached("SELECT count(*) FROM lane")?.query_row([], |row| row.get(0));
        let count: i64 = count().map_err(|error| failed(&error))?;
        if count as usize != self.keys.len() {
            self.read_keys(conn).map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    fn add(&mut self, number: i64, key: LaneKey) {
        self.keys.insert(number, key.clone());
        self.numbers.insert(key, (number, Counts::default()));
    }

    /// The number of a lane, given to it now if it is new.
    pub(super) fn number(&mut self, conn: &Connection, queue: &Name, kind: &Name) -> Result<i64> {
        let key = (queue.clone(), kind.clone());
        if let Some((number, _)) = self.numbers.get(&key) {
            return Ok(*number);
        }
        let insert = "INSERT INTO lane (queue, kind) VALUES (?1, ?2)";
        conn.execute(insert, [&**queue, &**kind]).map_err(|error| failed(&error))?;
        let number = conn.last_insert_rowid();
        self.add(number, key);
        Ok(number)
    }

    /// The number of a lane that has one.
    pub(super) fn known(&self, key: &LaneKey) -> Option<i64> {
        self.numbers.get(key).map(|(number, _)| *number)
    }

    /// The queue and kind of a lane.
    pub(super) fn key(&self, number: i64) -> Option<LaneKey> {
        self.keys.get(&number).cloned()
    }

    /// A job came into a state, or left it.
    pub(super) fn count(&mut self, key: &LaneKey, state: State, came: bool) -> Result<()> {
        let counted = state == State::Dead || !state.is_terminal();
        let Some((_, counts)) = self.numbers.get_mut(key).filter(|_| counted) else {
            return Ok(());
        };
        let count = &mut counts[state as usize];
        *count =
            if came { count.checked_add(1) } else { count.checked_sub(1) }.ok_or_else(|| {
                Error::Corrupt {
                    store: "the local store".into(),
                    reason: format!("more jobs left {state} than ever came into it"),
                }
            })?;
        Ok(())
    }

    /// All lanes with their counts, in order.
    pub(super) fn all(&self) -> impl Iterator<Item = (&LaneKey, i64, &Counts)> {
        self.numbers.iter().map(|(key, (number, counts))| (key, *number, counts))
    }

    /// The lanes of a queue with their counts.
    pub(super) fn of_queue(&self, queue: &Name) -> impl Iterator<Item = (&LaneKey, i64, &Counts)> {
        let first: LaneKey = (queue.clone(), "".into());
        let queue = queue.clone();
        let lanes = self.numbers.range(first..).take_while(move |((of, _), _)| *of == queue);
        lanes.map(|(key, (number, counts))| (key, *number, counts))
    }
}
