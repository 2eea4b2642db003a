//! Jobs in a terminal state by the time of their end, for retention and for listings. Jobs of a lane that ended in the
//! same state within one transaction share a row.
//!
//! A row may list jobs that were replayed or removed since, and a job may be listed twice; the rows of the job
//! itself decide whether it is due, and whether it is listed.

use super::failed;
use super::load::get;
use super::pack::{Pack, Unpack};
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};
use std::collections::{BTreeSet, HashMap};
use windlass_core::engine::{ListOrder, ListPlace};
use windlass_core::{JobId, Result, Timestamp};
use windlass_executor::Due;

/// Maximum number of jobs in a row.
const ROW_MAX: usize = 256;
/// Maximum time between the first and the last end of a row. A listing that starts at a time need not read rows that
/// are later than this.
const SPAN_MS: i64 = 1_000;

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
        for ((lane, state), mut jobs) in self.fresh.drain() {
            jobs.sort_by_key(|(_, at)| *at);
            for jobs in rows(&jobs) {
                // The row is due with its last job, so that no job is removed too early.
                let at = jobs.last().map_or(0, |(_, at)| *at);
                let mut pack = Pack::default();
                for (id, ended_at) in jobs {
                    pack.id(*id);
                    pack.int(at - ended_at);
                }
                let sql = "INSERT INTO ended (lane, state, at, number, jobs)
                    SELECT ?1, ?2, ?3, 1 + coalesce(max(number), 0), ?4 FROM ended
                    WHERE lane = ?1 AND state = ?2 AND at = ?3";
                run(conn, sql, params![lane, state, at, pack.into_bytes()])?;
            }
        }
        Ok(())
    }
}

/// Splits jobs, sorted by the time of their end, into rows.
fn rows(jobs: &[(JobId, i64)]) -> Vec<&[(JobId, i64)]> {
    let spans = jobs.chunk_by(|(_, one), (_, next)| one / SPAN_MS == next / SPAN_MS);
    spans.flat_map(|jobs| jobs.chunks(ROW_MAX)).collect()
}

/// Decodes the jobs of a row with the times of their ends; `at` is the time of the row.
pub(super) fn unpack(bytes: &[u8], at: i64) -> Result<Vec<(JobId, i64)>> {
    let (mut list, mut jobs) = (Unpack(bytes), Vec::new());
    while !list.is_empty() {
        jobs.push((list.id()?, at - list.int()?));
    }
    Ok(jobs)
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
            let before = oldest.len();
            for (id, _) in unpack(&bytes, at)? {
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
        for (id, _) in unpack(&bytes, at)? {
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

/// Returns the first `limit` jobs of a group in the order of a listing, after a position. They may include jobs that are
/// no longer in this state.
pub(super) fn listed(
    conn: &Connection,
    group: Group,
    order: ListOrder,
    after: ListPlace,
    limit: usize,
) -> Result<Vec<ListPlace>> {
    let mut places = of_rows(conn, group, order, after, limit)?;
    places.extend(of_own(conn, group, order, after, limit)?);
    sort(&mut places, order, limit);
    Ok(places)
}

/// Sorts positions and keeps the first ones.
pub(super) fn sort(places: &mut Vec<ListPlace>, order: ListOrder, limit: usize) {
    places.sort_unstable_by(|one, other| order.compare(one, other));
    places.dedup();
    places.truncate(limit);
}

/// Returns the ids of about `limit` jobs that are listed in a lane.
pub(super) fn ids(conn: &Connection, lane: i64, limit: usize) -> Result<Vec<JobId>> {
    let sql = "SELECT at, jobs FROM ended WHERE lane = ?1";
    let mut statement = conn.prepare_cached(sql).map_err(|error| failed(&error))?;
    let mut rows = statement.query([lane]).map_err(|error| failed(&error))?;
    let mut ids = Vec::new();
    while ids.len() < limit
        && let Some(row) = rows.next().map_err(|error| failed(&error))?
    {
        let bytes: Vec<u8> = get(row, 1)?;
        ids.extend(unpack(&bytes, get(row, 0)?)?.into_iter().map(|(id, _)| id));
    }
    Ok(ids)
}

fn of_rows(
    conn: &Connection,
    (lane, state): Group,
    order: ListOrder,
    after: ListPlace,
    limit: usize,
) -> Result<Vec<ListPlace>> {
    let after_ms = after.at.as_millis();
    // A row contains ends up to its own time, and from less than a span before it.
    let (sql, bound) = match order {
        ListOrder::Newest => (
            "SELECT at, jobs FROM ended WHERE lane = ?1 AND state = ?2 AND at <= ?3
                ORDER BY at DESC, number DESC",
            after_ms.saturating_add(SPAN_MS),
        ),
        ListOrder::Oldest => (
            "SELECT at, jobs FROM ended WHERE lane = ?1 AND state = ?2 AND at >= ?3
                ORDER BY at, number",
            after_ms,
        ),
    };
    let mut statement = conn.prepare_cached(sql).map_err(|error| failed(&error))?;
    let mut rows = statement.query([lane, state, bound]).map_err(|error| failed(&error))?;
    let mut places: Vec<ListPlace> = Vec::new();
    while let Some(row) = rows.next().map_err(|error| failed(&error))? {
        let (at, bytes): (i64, Vec<u8>) = (get(row, 0)?, get(row, 1)?);
        if let Some(last) = places.get(limit.saturating_sub(1)).map(|place| place.at.as_millis())
            && match order {
                ListOrder::Newest => at < last,
                ListOrder::Oldest => at.saturating_sub(SPAN_MS) > last,
            }
        {
            break;
        }
        let place = |(id, ms)| ListPlace { at: Timestamp::from_millis(ms), id };
        let jobs = unpack(&bytes, at)?.into_iter().map(place);
        places.extend(jobs.filter(|place| order.is_after(place, Some(&after))));
        sort(&mut places, order, limit);
    }
    Ok(places)
}

fn of_own(
    conn: &Connection,
    (lane, state): Group,
    order: ListOrder,
    after: ListPlace,
    limit: usize,
) -> Result<Vec<ListPlace>> {
    let sql = match order {
        ListOrder::Newest => {
            "SELECT at, id FROM ended_own WHERE lane = ?1 AND state = ?2 AND (at, id) < (?3, ?4)
                ORDER BY at DESC, id DESC LIMIT ?5"
        }
        ListOrder::Oldest => {
            "SELECT at, id FROM ended_own WHERE lane = ?1 AND state = ?2 AND (at, id) > (?3, ?4)
                ORDER BY at, id LIMIT ?5"
        }
    };
    let ListPlace { at, id } = after;
    places(conn, sql, params![lane, state, at.as_millis(), id.as_bytes(), limit as i64])
}

/// Reads positions: a time and an id.
pub(super) fn places(conn: &Connection, sql: &str, params: impl Params) -> Result<Vec<ListPlace>> {
    let place = |row: &Row<'_>| {
        Ok(ListPlace {
            at: Timestamp::from_millis(row.get(0)?),
            id: JobId::from_bytes(row.get(1)?),
        })
    };
    let read = || -> rusqlite::Result<Vec<ListPlace>> {
        conn.prepare_cached(sql)?.query_map(params, place)?.collect()
    };
    read().map_err(|error| failed(&error))
}

fn run(conn: &Connection, sql: &str, params: impl Params) -> Result<()> {
    let act = || conn.prepare_cached(sql)?.execute(params);
    act().map(|_| ()).map_err(|error| failed(&error))
}
