//! The database file: connection settings, format and schema.

use crate::lock::unavailable;
use crate::log::Log;
use crate::private;
use crate::rows::{EVENT_TABLES, failed};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension as _};
use std::path::Path;
use windlass_core::random::Random;
use windlass_core::{Error, Result};

/// Name of the database file in the directory.
pub(crate) const FILE: &str = "windlass.db";

/// The format that this build reads and writes, in SQLite's `user_version`; newer ones are refused.
const FORMAT: i64 = 1;

/// The tables of a new database.
const SCHEMA: &str = include_str!("../sql/schema.sql");

/// SQLite's `application_id` of our files ("wndl"); a database with another one is refused.
const APPLICATION_ID: i64 = 0x776E_646C;

/// Low bits of a sequence number, which count up within one opening of the directory. The bits above are the number of
/// the opening.
const SEQ_BITS: u32 = 40;

/// How long a statement waits for locks of other processes.
pub(crate) const BUSY_PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// An open database and the identity of this opening.
pub(crate) struct Database {
    pub(crate) conn: Connection,
    pub(crate) log: Log,
    /// Identity of the store, and the number of this opening.
    pub(crate) epoch: String,
    /// First sequence number of this opening, above those of all earlier openings.
    pub(crate) seq: u64,
}

impl Database {
    pub(crate) fn open(dir: &Path, random: &dyn Random) -> Result<Self> {
        let path = dir.join(FILE);
        // SQLite creates the log and the shared-memory index with the mode of the database.
        let created = private::create_file(&path);
        created.map_err(|error| unavailable(dir, "its database cannot be created", &error))?;
        let conn = connect(&path).map_err(|error| named(dir, &failed(&error)))?;
        prepare(&conn, dir)?;
        let (epoch, opens) = begin(&conn, random).map_err(|error| named(dir, &failed(&error)))?;
        let log = Log::of_database(&path);
        let log = log.map_err(|error| unavailable(dir, "its log cannot be opened", &error))?;
        Ok(Self { conn, log, epoch, seq: opens << SEQ_BITS })
    }

    /// Stores the payload limit if one is given, and returns the stored one.
    pub(crate) fn payload_bytes_max(&self, given: Option<usize>) -> Result<Option<usize>> {
        let store = "INSERT INTO meta (name, value) VALUES ('payload_bytes_max', ?1)
            ON CONFLICT DO UPDATE SET value = excluded.value WHERE value <> excluded.value";
        let load = "SELECT value FROM meta WHERE name = 'payload_bytes_max'";
        let stored = || {
            if let Some(bytes_max) = given {
                self.conn.execute(store, [bytes_max as i64])?;
            }
            self.conn.query_row(load, [], |row| row.get::<_, i64>(0)).optional()
        };
        let stored = stored().map_err(|error| failed(&error))?;
        Ok(stored.map(|bytes_max| usize::try_from(bytes_max).unwrap_or_default()))
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open(path)?;
    conn.set_prepared_statement_cache_capacity(128);
    // With partial indexes, the planner would otherwise look at bound values and recompile a statement on every
    // use.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Takes effect on an empty file only; `incremental_vacuum` needs it to shrink the file later.
    conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // For the opening only; the writer lowers it once the syncer is responsible for durability.
    conn.pragma_update(None, "synchronous", "FULL")?;
    // 64 MiB: holds the first and last pages of all tables, at any queue depth.
    conn.pragma_update(None, "cache_size", -65_536)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    // 16 MiB of log between checkpoints. Every commit rewrites the edge pages of the tables; these are copied back
    // a fourth as often as with the default, and a checkpoint still takes only milliseconds.
    conn.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    // The lock file excludes other owners; the timeout is for people who use `sqlite3` on the open file.
    conn.busy_timeout(BUSY_PATIENCE)?;
    Ok(conn)
}

/// Opens a second, read-only connection to a database that is already open.
pub(crate) fn connect_to_read(dir: &Path) -> Result<Connection> {
    let connect = || {
        let conn = Connection::open(dir.join(FILE))?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        conn.pragma_update(None, "query_only", true)?;
        conn.busy_timeout(BUSY_PATIENCE)?;
        Ok(conn)
    };
    connect().map_err(|error| named(dir, &failed(&error)))
}

/// Creates the tables in a new database; refuses newer formats and databases of other applications.
fn prepare(conn: &Connection, dir: &Path) -> Result<()> {
    let sql = |error: rusqlite::Error| named(dir, &failed(&error));
    let pragma =
        |name| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(sql);
    let tables = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = conn.query_row(tables, [], |row| row.get(0)).map_err(sql)?;
    if tables == 0 {
        let script = format!(
            "BEGIN EXCLUSIVE; {SCHEMA}; PRAGMA user_version = {FORMAT};
             PRAGMA application_id = {APPLICATION_ID}; COMMIT"
        );
        conn.execute_batch(&script).map_err(sql)?;
        return conn.execute_batch(EVENT_TABLES).map_err(sql);
    }
    if pragma("application_id")? != APPLICATION_ID {
        return Err(Error::invalid(
            "directory",
            dir.display(),
            format!("its {FILE} is the database of another application; choose another directory"),
        ));
    }
    let found = pragma("user_version")?;
    if found == FORMAT {
        return conn.execute_batch(EVENT_TABLES).map_err(sql);
    }
    let way_out = format!(
        "{} was written by a newer Windlass; this one reads format {FORMAT}: use the newer one",
        dir.display()
    );
    Err(Error::invalid("format", found, way_out))
}

/// Counts this opening; returns the epoch and the number of the opening.
fn begin(conn: &Connection, random: &dyn Random) -> rusqlite::Result<(String, u64)> {
    let fresh = format!("{:032x}", random.next_u128());
    let insert = "INSERT INTO meta (name, value) VALUES ('store', ?1) ON CONFLICT DO NOTHING";
    conn.execute(insert, [fresh])?;
    let store: Option<String> = conn
        .query_row("SELECT value FROM meta WHERE name = 'store'", [], |row| row.get(0))
        .optional()?;
    let count = "INSERT INTO meta (name, value) VALUES ('opens', 1)
        ON CONFLICT DO UPDATE SET value = value + 1 RETURNING value";
    let opens: i64 = conn.query_row(count, [], |row| row.get(0))?;
    Ok((format!("{}.{opens}", store.unwrap_or_default()), opens.cast_unsigned()))
}

/// The same error with the directory as the name of the store.
#[expect(clippy::wildcard_enum_match_arm, reason = "other errors do not name a store")]
pub(crate) fn named(dir: &Path, error: &Error) -> Error {
    match error {
        Error::Unavailable { reason, .. } => {
            Error::Unavailable { store: dir.display().to_string(), reason: reason.clone() }
        }
        Error::StoreFull { reason, .. } => {
            Error::StoreFull { store: dir.display().to_string(), reason: reason.clone() }
        }
        Error::Corrupt { reason, .. } => {
            Error::Corrupt { store: dir.display().to_string(), reason: reason.clone() }
        }
        other => other.clone(),
    }
}
