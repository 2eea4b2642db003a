//! Reading a job from its rows.

use super::codec::{self, Spec, Tail, flag};
use super::key::{PROBES, first_key};
use super::lanes::Lanes;
use super::leases::{Leases, is_held};
use rusqlite::types::FromSql;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Row, params};
use std::sync::LazyLock;
use windlass_core::engine::Lease;
use windlass_core::model::{Attempt, Counters, Finish, Header, Job, Part, PartName, Parts, State};
use windlass_core::{Error, JobId, Result, Timestamp};
use windlass_executor::Entry;

/// A job and where its rows are.
pub(crate) struct Loaded {
    pub(super) entry: Box<Entry>,
    pub(super) n: i64,
    /// Whether it has a row in `life`.
    pub(super) lived: bool,
    /// Whether it has rows in `part`.
    pub(super) side_parts: bool,
    /// The row its lease is in, if it runs and that is written.
    pub(super) lease_row: Option<i64>,
}

const COLUMNS: &str = "j.n, j.id, j.lane, j.state, j.seq, j.rank, j.priority, j.run_at,
    j.created_at, j.flags, j.spec, j.payload, j.envelope,
    l.state, l.seq, l.rank, l.priority, l.run_at, l.attempt, l.failures, l.crashes, l.flags,
    l.ready_at, l.started_at, l.finished_at, l.lease, l.worker, l.attempt_end, l.ended_at, l.tail";

/// The query for jobs, narrowed by `condition`.
pub(super) fn query(condition: &str) -> String {
    format!("SELECT {COLUMNS} FROM job j LEFT JOIN life l ON l.n = j.n WHERE {condition}")
}

/// A job by its id. Of a running one it tells what was so when its lease was given.
pub(super) fn by_id(conn: &Connection, lanes: &Lanes, id: JobId) -> Result<Option<Loaded>> {
    let first = first_key(id);
    static BY_ID: LazyLock<String> =
        LazyLock::new(|| query("j.n >= ?1 AND j.n < ?2 AND j.id = ?3"));
    let mut statement = conn.prepare_cached(&BY_ID).map_err(|error| failed(&error))?;
    let found = statement
        .query_row(params![first, first + PROBES, id.as_bytes()], |row| Ok(read(row, lanes)))
        .optional()
        .map_err(|error| failed(&error))?;
    let Some(mut loaded) = found.transpose()? else { return Ok(None) };
    add_parts(conn, &mut loaded)?;
    Ok(Some(loaded))
}

/// Reads a row of [`query`]; parts in rows of their own are added by [`add_parts`].
pub(super) fn read(row: &Row<'_>, lanes: &Lanes) -> Result<Loaded> {
    let (n, lane): (i64, i64) = (get(row, 0)?, get(row, 2)?);
    let id = JobId::from_bytes(get(row, 1)?);
    let (queue, kind) = lanes.key(lane).ok_or_else(|| {
        codec::corrupt(&format_args!("job {id} is in lane {lane}, which is none"))
    })?;
    let spec: Spec = codec::from_text(get::<Option<String>>(row, 10)?.as_deref())?;
    let lived = get::<Option<i64>>(row, 13)?.is_some();
    // The columns that `life` repeats come from there, if the job has lived.
    let at = |of_job: usize, of_life: usize| if lived { of_life } else { of_job };
    let header = Header {
        id,
        queue,
        kind,
        priority: get(row, at(6, 16))?,
        run_at: Timestamp::from_millis(get(row, at(7, 17))?),
        created_at: Timestamp::from_millis(get(row, 8)?),
        tenant: spec.tenant,
        key: spec.key,
        unique: spec.unique,
        parent: spec.parent,
        tags: spec.tags,
        trace: spec.trace,
        policy: spec.policy,
        counters: Counters::default(),
    };
    let mut parts = Parts::default();
    if let Some(bytes) = get::<Option<Vec<u8>>>(row, 11)? {
        parts.payload = Some(codec::part(bytes, get::<Option<String>>(row, 12)?.as_deref())?);
    }
    let state = codec::state(get(row, at(3, 13))?)?;
    let mut entry = Entry::new(Job::new(header, state, parts));
    entry.seq = get::<i64>(row, at(4, 14))?.cast_unsigned();
    entry.rank = get(row, at(5, 15))?;
    entry.ready_at = entry.job.header.created_at;
    let flags: i64 = get(row, at(9, 21))?;
    set_flags(&mut entry, flags);
    if lived {
        read_life(row, &mut entry)?;
    }
    let side_parts = flags & flag::HAS_PARTS != 0;
    Ok(Loaded { entry: Box::new(entry), n, lived, side_parts, lease_row: None })
}

fn read_life(row: &Row<'_>, entry: &mut Entry) -> Result<()> {
    let time = |column: usize| -> Result<Option<Timestamp>> {
        Ok(get::<Option<i64>>(row, column)?.map(Timestamp::from_millis))
    };
    let (attempt, failures, crashes) = (get(row, 18)?, get(row, 19)?, get(row, 20)?);
    let tail: Tail = codec::from_text(get::<Option<String>>(row, 29)?.as_deref())?;
    let job = &mut entry.job;
    job.header.counters = Counters { attempt, failures, crashes };
    entry.ready_at = Timestamp::from_millis(get(row, 22)?);
    (job.started_at, job.finished_at) = (time(23)?, time(24)?);
    job.finish = tail.finish.or_else(|| usual_finish(job.state));
    job.error = tail.error;
    job.progress = tail.progress;
    job.log = tail.log;
    job.result = tail.result.map(Part::from);
    if let Some(policy) = tail.policy {
        job.header.policy = policy;
    }
    entry.past.extend(tail.past);
    if let Some(end) = get::<Option<i64>>(row, 27)? {
        let ended = Attempt {
            number: attempt,
            worker: get(row, 26)?,
            started_at: time(23)?.unwrap_or_default(),
            ended_at: time(28)?.unwrap_or_default(),
            end: codec::attempt_end(end)?,
            error: tail.attempt_error,
        };
        entry.past.push_back((Lease::from(codec::token_text(get(row, 25)?)?), ended));
    }
    Ok(())
}

/// Why a job ended that ended like this, unless it says otherwise.
pub(super) const fn usual_finish(state: State) -> Option<Finish> {
    match state {
        State::Completed => Some(Finish::Completed),
        State::Dead => Some(Finish::Failed),
        State::Cancelled => Some(Finish::Cancelled),
        State::Expired => Some(Finish::Expired),
        _ => None,
    }
}

/// Adds the parts that have rows of their own.
pub(super) fn add_parts(conn: &Connection, loaded: &mut Loaded) -> Result<()> {
    if !loaded.side_parts {
        return Ok(());
    }
    type StoredPart = (i64, Vec<u8>, Option<String>);
    let read = || -> rusqlite::Result<Vec<StoredPart>> {
        let mut statement =
            conn.prepare_cached("SELECT name, bytes, envelope FROM part WHERE n = ?1")?;
        let part = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        statement.query_map([loaded.n], part)?.collect()
    };
    for (name, bytes, envelope) in read().map_err(|error| failed(&error))? {
        let name = usize::try_from(name).ok().and_then(|name| PartName::ALL.get(name));
        let name = name.ok_or_else(|| codec::corrupt(&"a part without a name"))?;
        *loaded.entry.job.parts.slot(*name) = Some(codec::part(bytes, envelope.as_deref())?);
    }
    Ok(())
}

/// The running jobs, as the leases tell after a restart; notes which of those are over.
pub(super) fn running(
    conn: &Connection,
    lanes: &Lanes,
    leases: &mut Leases,
) -> Result<Vec<Loaded>> {
    let mut running = Vec::new();
    for stored in leases.read(conn)? {
        let loaded = by_id(conn, lanes, stored.id)?.filter(|job| is_held(&stored, job));
        let Some(mut loaded) = loaded else {
            leases.end(Some(stored.row));
            continue;
        };
        loaded.lease_row = Some(stored.row);
        let entry = &mut loaded.entry;
        entry.job.state = State::Running;
        entry.job.started_at = Some(stored.leased.started_at);
        entry.job.header.counters.attempt = stored.attempt;
        entry.leased = Some(stored.leased);
        // In the order they were claimed, as it was before.
        entry.seq = running.len() as u64;
        running.push(loaded);
    }
    Ok(running)
}

fn set_flags(entry: &mut Entry, flags: i64) {
    entry.job.cancel_requested = flags & flag::CANCEL_REQUESTED != 0;
    entry.waits = flags & flag::WAITS != 0;
    entry.signalled = flags & flag::SIGNALLED != 0;
    entry.holds_key = flags & flag::HOLDS_KEY != 0;
}

/// A column, or our error.
pub(super) fn get<T: FromSql>(row: &Row<'_>, column: usize) -> Result<T> {
    row.get(column).map_err(|error| failed(&error))
}

/// What SQLite said, as our error: what may pass, or what will not pass by itself.
pub(crate) fn failed(error: &rusqlite::Error) -> Error {
    let store = "the local store".to_owned();
    let hint = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            return Error::Corrupt { store, reason: error.to_string() };
        }
        Some(ErrorCode::DiskFull) => ": make room on the disk",
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            ": give this user the right to write there"
        }
        _ => "",
    };
    // A failed script would be told in full; its first line is enough.
    let told = error.to_string();
    let reason = format!("{}{hint}", told.lines().next().unwrap_or_default());
    Error::Unavailable { store, reason }
}
