//! Jobs in a terminal state by age, for retention. Jobs of a lane that ended in the same state within one
//! transaction share a row.
//!
//! A row may list jobs that were replayed or removed since, and a job may be listed twice; the rows of the job
//! itself decide whether it is due.

use super::failed;
use super::load::get;
use super::pack::{Pack, Unpack};
use rusqlite::{Connection, OptionalExtension as _, Params, params};
use std::collections::{BTreeSet, HashMap};
use windlass_core::{JobId, Result, Timestamp};
use windlass_executor::Due;

/// Maximum number of jobs in a row.
const ROW_MAX: usize = 256;

/// A lane and a terminal state.
pub(super) type Group = (i64, i64);

/// Jobs that ended in the current transaction.
#[derive(Default)]
pub(super) struct Ended {
    fresh: HashMap<Group, Vec<(JobId, i64)>>,
}

impl Ended {
    pub(super) fn clear(&mut self) {
        self.fresh.clear();
    }

    /// Adds a job that ended at `at`.
    pub(super) fn add(&mut self, group: Group, id: JobId, at: i64) {
        self.fresh.entry(group).or_default().push((id, at));
    }

    /// Writes the jobs that ended in this transaction.
    pub(super) fn flush(&mut self, conn: &Connection) -> Result<()> {
        for ((lane, state), jobs) in self.fresh.drain() {
            for jobs in jobs.chunks(ROW_MAX) {
                let mut pack = Pack::default();
                jobs.iter().for_each(|(id, _)| pack.id(*id));
                // The row is due with its last job, so that no job is removed too early.
                let at = jobs.iter().map(|(_, at)| *at).max().unwrap_or_default();
                let sql = "INSERT INTO ended (lane, state, at, number, jobs)
                    SELECT ?1, ?2, ?3, 1 + coalesce(max(number), 0), ?4 FROM ended
                    WHERE lane = ?1 AND state = ?2 AND at = ?3";
                run(conn, sql, params![lane, state, at, pack.into_bytes()])?;
            }
        }
        Ok(())
    }
}

/// Returns the groups that have jobs, with one index lookup each.
pub(super) fn groups(conn: &Connection) -> Result<Vec<Group>> {
    let sql = "SELECT lane, state FROM ended WHERE (lane, state) > (?1, ?2)
        ORDER BY lane, state LIMIT 1";
    let mut statement = conn.prepare_cached(sql).map_err(|error| failed(&error))?;
    let (mut found, mut last) = (Vec::new(), (i64::MIN, i64::MIN));
    while let Some(next) = statement
        .query_row(params![last.0, last.1], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
        .map_err(|error| failed(&error))?
    {
        found.push(next);
        last = next;
    }
    Ok(found)
}

/// Returns the oldest jobs of a group with the time at which they ended: the jobs of rows up to `due`, and the first
/// job after it. Stops after the row with which `limit` jobs are reached. Deletes the rows of which, according to
/// `ended_at`, no job counts any more.
pub(super) fn oldest(
    conn: &Connection,
    (lane, state): Group,
    due: i64,
    limit: usize,
    ended_at: impl Fn(JobId) -> Result<Option<Timestamp>>,
) -> Result<Vec<Due>> {
    let mut oldest: Vec<Due> = Vec::new();
    let mut empty = Vec::new();
    let sql = "SELECT at, number, jobs FROM ended WHERE lane = ?1 AND state = ?2
        ORDER BY at, number";
    {
        let mut statement = conn.prepare_cached(sql).map_err(|error| failed(&error))?;
        let mut rows = statement.query([lane, state]).map_err(|error| failed(&error))?;
        'rows: while oldest.len() < limit
            && empty.len() < limit
            && let Some(row) = rows.next().map_err(|error| failed(&error))?
        {
            let (at, number): (i64, i64) = (get(row, 0)?, get(row, 1)?);
            let bytes: Vec<u8> = get(row, 2)?;
            let (mut list, before) = (Unpack(&bytes), oldest.len());
            while !list.is_empty() {
                let id = list.id()?;
                // A job that ended again since is listed again in a later row.
                if let Some(since) = ended_at(id)?.filter(|since| since.as_millis() <= at) {
                    oldest.push((since, id));
                    if at > due {
                        break 'rows;
                    }
                }
            }
            if oldest.len() == before {
                empty.push((at, number));
            }
        }
    }
    for (at, number) in empty {
        let sql = "DELETE FROM ended WHERE lane = ?1 AND state = ?2 AND at = ?3 AND number = ?4";
        run(conn, sql, params![lane, state, at, number])?;
    }
    Ok(oldest)
}

/// Returns the newest `limit` jobs of a group with the time at which they ended, in any order.
pub(super) fn newest(
    conn: &Connection,
    (lane, state): Group,
    limit: usize,
    ended_at: impl Fn(JobId) -> Result<Option<Timestamp>>,
) -> Result<Vec<Due>> {
    let sql = "SELECT at, jobs FROM ended WHERE lane = ?1 AND state = ?2
        ORDER BY at DESC, number DESC";
    let mut statement = conn.prepare_cached(sql).map_err(|error| failed(&error))?;
    let mut rows = statement.query([lane, state]).map_err(|error| failed(&error))?;
    let mut newest: BTreeSet<Due> = BTreeSet::new();
    while let Some(row) = rows.next().map_err(|error| failed(&error))? {
        let at: i64 = get(row, 0)?;
        // The jobs of a row ended at its time or before.
        if newest.len() >= limit && newest.first().is_some_and(|first| first.0.as_millis() > at) {
            break;
        }
        let bytes: Vec<u8> = get(row, 1)?;
        let mut list = Unpack(&bytes);
        while !list.is_empty() {
            let id = list.id()?;
            if let Some(since) = ended_at(id)?.filter(|since| since.as_millis() <= at) {
                newest.insert((since, id));
            }
        }
        while newest.len() > limit {
            newest.pop_first();
        }
    }
    Ok(newest.into_iter().collect())
}

fn run(conn: &Connection, sql: &str, params: impl Params) -> Result<()> {
    let act = || conn.prepare_cached(sql)?.execute(params);
    act().map(|_| ()).map_err(|error| failed(&error))
}
