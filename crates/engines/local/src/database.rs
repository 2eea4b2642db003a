//! The database file: how it is opened, and which format it has.

use crate::lock::unavailable;
use crate::log::Log;
use crate::private;
use crate::rows::failed;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension as _};
use std::path::Path;
use windlass_core::random::Random;
use windlass_core::{Error, Result};

/// The file inside a directory.
pub(crate) const FILE: &str = "windlass.db";

/// The format this build writes. Older ones are migrated, newer ones refused.
const FORMAT: i64 = 2;

/// One script per format: from the one before to it.
const MIGRATIONS: [&str; FORMAT as usize] =
    [include_str!("../sql/format_1.sql"), include_str!("../sql/format_2.sql")];

/// Tells our files from others ("wndl").
const APPLICATION_ID: i64 = 0x776E_646C;

/// Bits of an order of entry that count within one opening of the directory.
const SEQ_BITS: u32 = 40;

/// How long a statement waits for locks of other processes.
pub(crate) const BUSY_PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// An open file, and which opening of it this is.
pub(crate) struct Database {
    pub(crate) conn: Connection,
    pub(crate) log: Log,
    /// Identity of the store and number of this opening.
    pub(crate) epoch: String,
    /// Orders of entry begin here: later than those of every opening before.
    pub(crate) seq: u64,
}

impl Database {
    pub(crate) fn open(dir: &Path, random: &dyn Random) -> Result<Self> {
        let path = dir.join(FILE);
        // SQLite gives its log and its index the mode of the database.
        let created = private::create_file(&path);
        created.map_err(|error| unavailable(dir, "its database cannot be created", &error))?;
        let conn = connect(&path).map_err(|error| named(dir, &failed(&error)))?;
        migrate(&conn, dir)?;
        let (epoch, opens) = begin(&conn, random).map_err(|error| named(dir, &failed(&error)))?;
        let log = Log::of_database(&path);
        let log = log.map_err(|error| unavailable(dir, "its log cannot be opened", &error))?;
        Ok(Self { conn, log, epoch, seq: opens << SEQ_BITS })
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open(path)?;
    conn.set_prepared_statement_cache_capacity(128);
    // Plans must not look at bound values: where they do (partial indexes), every use of a
    // statement would compile it anew.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Only an empty file takes it, and only then can the file shrink again later.
    conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // While it is opened; later the writer sees to it.
    conn.pragma_update(None, "synchronous", "FULL")?;
    // 64 MiB: enough for the edges of all tables at any depth.
    conn.pragma_update(None, "cache_size", -65_536)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    // 16 MiB of WAL between checkpoints: the edges of the tables, written in every commit, go back
    // to the file a fourth as often as by default, and a checkpoint still takes only milliseconds.
    conn.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    // The lock file keeps other owners away; this is for people who look with sqlite3.
    conn.busy_timeout(BUSY_PATIENCE)?;
    Ok(conn)
}

/// One more connection to a file that is open already, for looking only.
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

/// Brings the file to our format.
fn migrate(conn: &Connection, dir: &Path) -> Result<()> {
    let sql = |error: rusqlite::Error| named(dir, &failed(&error));
    let found: i64 =
        conn.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(sql)?;
    let tables = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = conn.query_row(tables, [], |row| row.get(0)).map_err(sql)?;
    let owner: i64 =
        conn.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(sql)?;
    if tables > 0 && owner != APPLICATION_ID {
        return Err(Error::invalid(
            "directory",
            dir.display(),
            format!("its {FILE} is somebody else's database; choose another directory"),
        ));
    }
    if found > FORMAT {
        return Err(Error::invalid(
            "format",
            found,
            format!(
                "{} was written by a newer Windlass; this one reads formats up to {FORMAT}: use \
                 the newer one",
                dir.display()
            ),
        ));
    }
    for (format, script) in (1_i64..).zip(MIGRATIONS).filter(|(format, _)| *format > found) {
        let script = format!(
            "BEGIN EXCLUSIVE; {script}; PRAGMA user_version = {format};
             PRAGMA application_id = {APPLICATION_ID}; COMMIT"
        );
        conn.execute_batch(&script).map_err(sql)?;
    }
    Ok(())
}

/// Counts this opening.
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

/// An error of SQLite's that names the directory.
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
