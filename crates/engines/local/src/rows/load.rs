//! Loads jobs from their rows, and converts SQLite's errors.

use super::body;
use super::codec::{self, Spec, Tail};
use super::key::{PROBES, first_key};
use super::lanes::Lanes;
use super::leases::Stored;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
use rusqlite::types::FromSql;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Row, Statement, params};
use windlass_core::model::{
    Counters, Finish, Header, HeaderFields, Job, Part, PartName, PartSet, Parts, State,
};
use windlass_core::{Error, JobId, Result, Timestamp};
use windlass_executor::Entry;

/// A job and the location of its rows.
pub(crate) struct Loaded {
    pub(super) entry: Box<Entry>,
    pub(super) n: i64,
    /// Whether it has a row in `life`.
    pub(super) lived: bool,
    /// Whether it has rows in `part`.
    pub(super) side_parts: bool,
    /// The row that contains its lease, if the job runs and its lease is written.
    pub(super) lease_row: Option<i64>,
}

const COLUMNS: &str =
    "j.n, j.id, j.lane, j.body, j.spec, j.payload, j.envelope, l.state, l.body, l.tail";

/// Like [`COLUMNS`] without payloads, which pages do not return and most filters do not read. SQLite does not read
/// columns that are not selected, and a filtered page may examine thousands of rows.
const COLUMNS_OF_PAGES: &str =
    "j.n, j.id, j.lane, j.body, j.spec, NULL, NULL, l.state, l.body, l.tail";

/// The condition of [`query`] that selects one job by its id.
pub(super) const BY_ID: &str = "j.n >= ?1 AND j.n < ?2 AND j.id = ?3";

/// The query for jobs that satisfy `condition`.
pub(super) fn query(condition: &str) -> String {
    format!("SELECT {COLUMNS} FROM job j LEFT JOIN life l ON l.n = j.n WHERE {condition}")
}

/// Like [`query`], for pages: with the payload only if it is one of `parts`.
pub(super) fn query_of_pages(condition: &str, parts: PartSet) -> String {
    let columns = if parts.has(PartName::Payload) { COLUMNS } else { COLUMNS_OF_PAGES };
    format!("SELECT {columns} FROM job j LEFT JOIN life l ON l.n = j.n WHERE {condition}")
}

/// Loads a job by its id. `statement` is [`query`] with [`BY_ID`].
pub(super) fn by_id(
    conn: &Connection,
    statement: &mut Statement<'_>,
    lanes: &Lanes,
    id: JobId,
) -> Result<Option<Loaded>> {
    let first = first_key(id);
    let found = statement
        .query_row(params![first, first + PROBES, id.as_bytes()], |row| Ok(read(row, lanes)))
        .optional()
        .map_err(|error| failed(&error))?;
    let Some(mut loaded) = found.transpose()? else { return Ok(None) };
    add_parts(conn, &mut loaded)?;
    Ok(Some(loaded))
}

/// Decodes a row of [`query`]. [`add_parts`] adds the parts in rows of their own.
pub(super) fn read(row: &Row<'_>, lanes: &Lanes) -> Result<Loaded> {
    let (n, lane): (i64, i64) = (get(row, 0)?, get(row, 2)?);
    let id = JobId::from_bytes(get(row, 1)?);
    let (queue, kind) = lanes.key(lane).ok_or_else(|| {
        codec::corrupt(&format_args!("job {id} is in lane {lane}, which is none"))
    })?;
    let spec: Spec = codec::from_text(text(row, 4)?)?;
    let header = Header::from(HeaderFields {
        id,
        queue,
        kind,
        priority: 0,
        run_at: Timestamp::EPOCH,
        created_at: Timestamp::EPOCH,
        tenant: spec.tenant,
        key: spec.key,
        group: spec.group,
        cost: spec.cost.unwrap_or(1),
        unique: spec.unique,
        parent: spec.parent,
        flow: spec.flow,
        tags: spec.tags,
        trace: spec.trace,
        policy: spec.policy,
        counters: Counters::default(),
    });
    let mut parts = Parts::default();
    if let Some(bytes) = get::<Option<Vec<u8>>>(row, 5)? {
        parts.payload = Some(codec::part(bytes, text(row, 6)?)?);
    }
    let mut entry = Entry::new(Job::new(header, State::Scheduled, parts));
    let mut side_parts = body::unpack_job(blob(row, 3)?, &mut entry)?;
    let state: Option<i64> = get(row, 7)?;
    if let Some(state) = state {
        entry.job.state = codec::state(state)?;
        let tail: Tail = codec::from_text(text(row, 9)?)?;
        side_parts = body::unpack_life(blob(row, 8)?, &mut entry)?;
        add_tail(tail, &mut entry);
    }
    Ok(Loaded { entry: Box::new(entry), n, lived: state.is_some(), side_parts, lease_row: None })
}

/// Adds the tail. Destructured, so that a new field cannot be forgotten.
fn add_tail(tail: Tail, entry: &mut Entry) {
    let Tail {
        finish,
        error,
        progress,
        log,
        past,
        attempt_error,
        result,
        policy,
        limits,
        dependencies,
        continuation,
    } = tail;
    let job = &mut entry.job;
    job.finish = finish.or_else(|| usual_finish(job.state));
    (job.error, job.progress, job.log) = (error, progress, log);
    (job.limits, job.dependencies) = (limits, dependencies);
    job.waits = continuation.as_ref().is_some_and(|kept| kept.wait.is_some());
    job.continuation = continuation;
    job.result = result.map(Part::from);
    if let Some(policy) = policy {
        job.header.policy = policy;
    }
    if let Some((_, latest)) = entry.past.back_mut() {
        latest.error = attempt_error;
    }
    for earlier in past.into_iter().rev() {
        entry.past.push_front(earlier);
    }
}

/// The usual reason for a terminal state; only other reasons are stored.
pub(super) const fn usual_finish(state: State) -> Option<Finish> {
    match state {
        State::Completed => Some(Finish::Completed),
        State::Dead => Some(Finish::Failed),
        State::Cancelled => Some(Finish::Cancelled),
        State::Expired => Some(Finish::Expired),
        State::Scheduled | State::Blocked | State::Available | State::Running | State::Paused => {
            None
        }
        // Its reason is always stored.
        _ => None,
    }
}

/// Loads the parts that have rows of their own.
pub(super) fn add_parts(conn: &Connection, loaded: &mut Loaded) -> Result<()> {
    add_some_parts(conn, loaded, PartSet::ALL)
}

/// Loads those parts of a set that have rows of their own.
pub(super) fn add_some_parts(conn: &Connection, loaded: &mut Loaded, set: PartSet) -> Result<()> {
    if !loaded.side_parts || set == PartSet::NONE {
        return Ok(());
    }
    type StoredPart = (i64, Vec<u8>, Option<String>);
    let bit = |name: PartName| i64::from(set.has(name)) << name as i64;
    let bits: i64 = PartName::ALL.into_iter().map(bit).sum();
    let read = || -> rusqlite::Result<Vec<StoredPart>> {
        let mut statement = conn.prepare_cached(
            "SELECT name, bytes, envelope FROM part WHERE n = ?1 AND (1 << name) & ?2 <> 0",
        )?;
        let part = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        statement.query_map([loaded.n, bits], part)?.collect()
    };
    for (name, bytes, envelope) in read().map_err(|error| failed(&error))? {
        let name = usize::try_from(name).ok().and_then(|name| PartName::ALL.get(name));
        let name = name.ok_or_else(|| codec::corrupt(&"a part without a name"))?;
        *loaded.entry.job.parts.slot(*name) = Some(codec::part(bytes, envelope.as_deref())?);
    }
    Ok(())
}

/// Applies a lease to a job: state, start, attempt and lease token.
pub(super) fn add_lease(stored: Stored, loaded: &mut Loaded) {
    loaded.lease_row = Some(stored.row);
    let job = &mut loaded.entry.job;
    // The claim, unless `life` was written since and includes it.
    if job.state != State::Running {
        job.transitions = job.transitions.saturating_add(1);
    }
    job.changed_at = stored.leased.started_at;
    job.state = State::Running;
    job.started_at = Some(stored.leased.started_at);
    job.header.counters.attempt = stored.attempt;
    loaded.entry.leased = Some(stored.leased);
}

/// A column of bytes, borrowed from the row.
fn blob<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a [u8]> {
    let bytes = row.get_ref(column).map_err(|error| failed(&error))?;
    bytes.as_blob().map_err(|error| codec::corrupt(&error))
}

/// A nullable column of text, borrowed from the row.
fn text<'a>(row: &'a Row<'_>, column: usize) -> Result<Option<&'a str>> {
    let text = row.get_ref(column).map_err(|error| failed(&error))?;
    text.as_str_or_null().map_err(|error| codec::corrupt(&error))
}

/// A column of any type, with errors converted.
pub(super) fn get<T: FromSql>(row: &Row<'_>, column: usize) -> Result<T> {
    row.get(column).map_err(|error| failed(&error))
}

/// The reason in the error for a full disk, seen by callers once the reserve is used up.
const FULL: &str = "the disk is full: make room on it";

fn extended_code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}

/// Converts an error of SQLite: corruption, a full disk, or else a store that is unavailable.
pub(crate) fn failed(error: &rusqlite::Error) -> Error {
    let store = "the local store".to_owned();
    let hint = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            return Error::Corrupt { store, reason: error.to_string() };
        }
        Some(ErrorCode::DiskFull) => return Error::StoreFull { store, reason: FULL.to_owned() },
        // SQLite could not extend the shared-memory index of the log.
        Some(ErrorCode::SystemIoFailure) if extended_code(error) == Some(SQLITE_IOERR_SHMSIZE) => {
            return Error::StoreFull { store, reason: FULL.to_owned() };
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            ": give this user the right to write there"
        }
        _ => "",
    };
    // The error of a failed script contains the whole script; the first line is enough.
    let text = error.to_string();
    let reason = format!("{}{hint}", text.lines().next().unwrap_or_default());
    Error::Unavailable { store, reason }
}
