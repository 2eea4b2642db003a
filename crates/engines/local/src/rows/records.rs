//! Records, logs, and the JSON of sessions.

use super::reader::bad_cursor;
use super::{SqliteRows, codec, failed};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::{Deserialize, Serialize};
use windlass_core::engine::{
    Cursor, Expect, LogEntry, Page, Record, RecordOp, RecordReply, SessionId, WorkerInfo,
};
use windlass_core::{Error, Result, Timestamp};
use windlass_executor::SessionEntry;

/// Prefix of our cursors. A bare record key could be mistaken for another format.
const CURSOR_PREFIX: &str = "after:";

/// The stored form of a session.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct StoredSession {
    worker: String,
    opened_at: Timestamp,
    ttl_ms: u64,
    expires_at: Timestamp,
    #[serde(default)]
    alone: bool,
    #[serde(default)]
    remote: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    info: WorkerInfo,
}

fn is_default(info: &WorkerInfo) -> bool {
    *info == WorkerInfo::default()
}

impl From<StoredSession> for SessionEntry {
    fn from(stored: StoredSession) -> Self {
        let StoredSession { worker, opened_at, ttl_ms, expires_at, alone, remote, info } = stored;
        Self { worker, info, opened_at, ttl_ms, expires_at, alone, remote }
    }
}

pub(super) fn session_text(session: &SessionEntry) -> Result<String> {
    let SessionEntry { worker, info, opened_at, ttl_ms, expires_at, alone, remote } =
        session.clone();
    text(&StoredSession { worker, opened_at, ttl_ms, expires_at, alone, remote, info })
}

/// Reads a session, for the reader.
pub(super) fn session(conn: &Connection, id: &SessionId) -> Result<Option<SessionEntry>> {
    let sql = "SELECT entry FROM session WHERE id = ?1";
    let read = || {
        conn.prepare_cached(sql)?.query_row([id.as_str()], |row| row.get::<_, String>(0)).optional()
    };
    let Some(text) = read().map_err(|error| failed(&error))? else { return Ok(None) };
    let stored: StoredSession = codec::from_text(Some(&text))?;
    Ok(Some(stored.into()))
}

/// Encodes a value as JSON.
pub(super) fn text<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| codec::corrupt(&error))
}

impl SqliteRows<'_> {
    pub(super) fn perform(&mut self, op: RecordOp, now: Timestamp) -> Result<RecordReply> {
        match op {
            RecordOp::Get { key } => Ok(RecordReply::Record(self.document(&key)?)),
            RecordOp::Put { key, value, expect } => {
                self.expect(&key, expect)?;
                let version = self.next_version()?;
                let sql = "INSERT OR REPLACE INTO record (key, version, value, updated_at)
                    VALUES (?1, ?2, ?3, ?4)";
                let stored = version.cast_signed();
                self.run(sql, params![key, stored, &*value, now.as_millis()])?;
                Ok(RecordReply::Written { version })
            }
            RecordOp::Delete { key, expect } => {
                self.expect(&key, expect)?;
                let deleted = self.run("DELETE FROM record WHERE key = ?1", [key])?;
                Ok(RecordReply::Deleted(deleted > 0))
            }
            RecordOp::List { prefix, after, limit } => {
                Ok(RecordReply::Records(self.documents(&prefix, after.as_ref(), limit)?))
            }
            RecordOp::Append { log, entries, keep } => self.append(&log, &entries, keep, now),
            RecordOp::Read { log, after, limit } => self.read_log(&log, after, limit),
            _ => Err(Error::invalid("op", "?", "this engine is older than the request")),
        }
    }

    fn document(&self, key: &str) -> Result<Option<Record>> {
        let sql = "SELECT key, version, value, updated_at FROM record WHERE key = ?1";
        self.one(sql, [key], document)
    }

    fn expect(&self, key: &str, expect: Expect) -> Result<()> {
        let found = self.document(key)?.map_or(0, |record| record.version);
        if expect.holds(found) {
            return Ok(());
        }
        Err(Error::VersionConflict { key: key.to_owned(), expected: expect.version(), found })
    }

    /// A version that no record has ever had.
    fn next_version(&self) -> Result<u64> {
        let sql = "INSERT INTO meta (name, value) VALUES ('record_version', 1)
            ON CONFLICT DO UPDATE SET value = value + 1 RETURNING value";
        let version = self.one(sql, [], |row| row.get::<_, i64>(0))?;
        Ok(version.unwrap_or(1).cast_unsigned())
    }

    fn documents(&self, prefix: &str, after: Option<&Cursor>, limit: u32) -> Result<Page<Record>> {
        let key = |cursor: &Cursor| match cursor.as_str().strip_prefix(CURSOR_PREFIX) {
            Some(key) => Ok(key.to_owned()),
            None => Err(bad_cursor(cursor)),
        };
        let after = after.map(key).transpose()?;
        // The scan starts at the prefix, and `substr` excludes the keys after the last match.
        let sql = "SELECT key, version, value, updated_at FROM record
            WHERE key >= ?1 AND key > ?2 AND substr(key, 1, length(?1)) = ?1
            ORDER BY key LIMIT ?3";
        let after = after.unwrap_or_default();
        let mut rows = self.all(sql, params![prefix, after, i64::from(limit) + 1], document)?;
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let last = rows.last().filter(|_| more);
        let next = last.map(|record| Cursor::new(format!("{CURSOR_PREFIX}{}", record.key)));
        Ok(Page::new(rows, next))
    }

    fn append(
        &self,
        log: &str,
        entries: &[Bytes],
        keep: u32,
        now: Timestamp,
    ) -> Result<RecordReply> {
        let sql = "SELECT last FROM log WHERE name = ?1";
        let mut last = self.one(sql, [log], |row| row.get::<_, i64>(0))?.unwrap_or(0);
        for value in entries {
            last += 1;
            let sql = "INSERT INTO log_entry (name, number, at, value) VALUES (?1, ?2, ?3, ?4)";
            self.run(sql, params![log, last, now.as_millis(), &**value])?;
        }
        self.run("INSERT OR REPLACE INTO log (name, last) VALUES (?1, ?2)", params![log, last])?;
        let sql = "DELETE FROM log_entry WHERE name = ?1 AND number <= ?2";
        self.run(sql, params![log, last - i64::from(keep)])?;
        Ok(RecordReply::Appended { last: last.cast_unsigned() })
    }

    fn read_log(&self, log: &str, after: u64, limit: u32) -> Result<RecordReply> {
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let sql = "SELECT number, at, value FROM log_entry WHERE name = ?1 AND number > ?2
            ORDER BY number LIMIT ?3";
        let entries = self.all(sql, params![log, after, limit], |row| {
            Ok(LogEntry {
                number: row.get::<_, i64>(0)?.cast_unsigned(),
                at: Timestamp::from_millis(row.get(1)?),
                value: row.get::<_, Vec<u8>>(2)?.into(),
            })
        })?;
        Ok(RecordReply::Entries(entries))
    }
}

fn document(row: &Row<'_>) -> rusqlite::Result<Record> {
    Ok(Record {
        key: row.get(0)?,
        version: row.get::<_, i64>(1)?.cast_unsigned(),
        value: row.get::<_, Vec<u8>>(2)?.into(),
        updated_at: Timestamp::from_millis(row.get(3)?),
    })
}
