//! The dependencies of jobs, in the table `input`.

use super::codec::{self, StoredInput};
use super::load::failed;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};
use windlass_core::model::Input;
use windlass_core::{JobId, Result};
use windlass_executor::OpenEdges;

/// The dependencies of a job, in the order of its definition.
pub(super) fn inputs(conn: &Connection, dependent: JobId) -> Result<Vec<Input>> {
    let sql = "SELECT upstream, input FROM input WHERE id = ?1 ORDER BY position";
    let rows = all(conn, sql, [dependent.as_bytes()], stored)?;
    rows.into_iter().map(read).collect()
}

/// Up to `limit` dependencies of a job, from a position on.
pub(super) fn inputs_from(
    conn: &Connection,
    dependent: JobId,
    from: u32,
    limit: usize,
) -> Result<Vec<Input>> {
    let sql = "SELECT upstream, input FROM input WHERE id = ?1 AND position >= ?2 ORDER BY position LIMIT ?3";
    let rows = all(conn, sql, params![dependent.as_bytes(), from, limit as i64], stored)?;
    rows.into_iter().map(read).collect()
}

/// One dependency of a job.
pub(super) fn input(conn: &Connection, dependent: JobId, position: u32) -> Result<Option<Input>> {
    let sql = "SELECT upstream, input FROM input WHERE id = ?1 AND position = ?2";
    let row = || {
        let mut statement = conn.prepare_cached(sql)?;
        statement.query_row(params![dependent.as_bytes(), position], stored).optional()
    };
    row().map_err(|error| failed(&error))?.map(read).transpose()
}

/// Writes a dependency of a job.
pub(super) fn save(
    conn: &Connection,
    dependent: JobId,
    position: u32,
    input: &Input,
) -> Result<()> {
    let sql =
        "REPLACE INTO input (id, position, upstream, open, input) VALUES (?1, ?2, ?3, ?4, ?5)";
    let text = StoredInput::text(input).map_err(|damaged| codec::corrupt(&damaged))?;
    let (id, upstream) = (dependent.as_bytes(), input.job.as_bytes());
    let run = || {
        conn.prepare_cached(sql)?.execute(params![id, position, upstream, input.is_open(), text])
    };
    run().map(|_| ()).map_err(|error| failed(&error))
}

/// The first `limit` open dependencies on a job.
pub(super) fn open(conn: &Connection, upstream: JobId, limit: usize) -> Result<OpenEdges> {
    let sql = "SELECT id, position FROM input WHERE upstream = ?1 AND open ORDER BY id, position
        LIMIT ?2";
    let edge = |row: &Row<'_>| Ok((JobId::from_bytes(row.get(0)?), row.get(1)?));
    let edges = all(conn, sql, params![upstream.as_bytes(), limit as i64 + 1], edge)?;
    Ok(OpenEdges::of(edges, limit))
}

fn stored(row: &Row<'_>) -> rusqlite::Result<(JobId, Option<String>)> {
    Ok((JobId::from_bytes(row.get(0)?), row.get(1)?))
}

fn read((upstream, text): (JobId, Option<String>)) -> Result<Input> {
    StoredInput::read(upstream, text.as_deref()).map_err(|damaged| codec::corrupt(&damaged))
}

fn all<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let read = || -> rusqlite::Result<Vec<T>> {
        conn.prepare_cached(sql)?.query_map(params, row)?.collect()
    };
    read().map_err(|error| failed(&error))
}
