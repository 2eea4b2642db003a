//! Records: versioned documents and bounded logs. Independent of jobs.

use crate::conn::Lent;
use crate::conn::Row;
use crate::conn::error::{Trouble, Try, unavailable};
use crate::engine::{PostgresEngine, bad_cursor};
use crate::rows::entries::at;
use crate::slow::perform::CLOCK;
use bytes::Bytes;
use std::time::Duration;
use windlass_core::engine::{
    Cursor, Expect, Item, LogEntry, Page, Record, RecordOp, RecordReply, Stamped, check_items,
};
use windlass_core::{Error, Result, Timestamp};

const GET: &str = "SELECT key, version, value, updated_at FROM {s}.record WHERE key = $1";
const LOCK: &str = "SELECT version FROM {s}.record WHERE key = $1 FOR UPDATE";
const INSERT: &str = "INSERT INTO {s}.record (key, version, value, updated_at)
    VALUES ($1, nextval({'s.version'}), $2, $3) RETURNING version";
const UPDATE: &str = "UPDATE {s}.record SET version = nextval({'s.version'}), value = $2,
    updated_at = $3 WHERE key = $1 RETURNING version";
const DELETE: &str = "DELETE FROM {s}.record WHERE key = $1";
const LIST: &str = "SELECT key, version, value, updated_at FROM {s}.record
    WHERE key >= $1 AND ($2::text IS NULL OR key > $2) AND starts_with(key, $1) ORDER BY key LIMIT $3";
const NUMBER: &str = "INSERT INTO {s}.log AS l (name, last) VALUES ($1, $2)
    ON CONFLICT (name) DO UPDATE SET last = l.last + excluded.last RETURNING last";
const APPEND: &str = "INSERT INTO {s}.log_entry (name, number, at, value)
    SELECT $1, $2 + n - 1, $3, value FROM unnest($4::bytea[]) WITH ORDINALITY e (value, n)";
const CUT: &str = "DELETE FROM {s}.log_entry WHERE name = $1 AND number <= $2";
const READ: &str = "SELECT number, at, value FROM {s}.log_entry WHERE name = $1 AND number > $2
    ORDER BY number LIMIT $3";

/// Prefix of our cursors, because a record's name could be any text.
const CURSOR_PREFIX: &str = "after:";
/// Maximum runs of a batch after write conflicts.
const TRIES_MAX: u32 = 40;

impl PostgresEngine {
    pub(crate) async fn perform_records(
        &self,
        batch: Vec<RecordOp>,
    ) -> Result<Stamped<Vec<Item<RecordReply>>>> {
        check_items(&batch)?;
        let mut again = unavailable("it was never tried");
        for tries in 0..TRIES_MAX {
            match self.try_records(&batch).await {
                Ok(reply) => return Ok(reply),
                Err(Trouble::Retryable(error)) => again = error,
                Err(Trouble::Fatal(error)) => return Err(error),
            }
            let pause = self.inner.shared.random.below(u64::from(tries) + 2);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        Err(again)
    }

    async fn try_records(&self, batch: &[RecordOp]) -> Try<Stamped<Vec<Item<RecordReply>>>> {
        let conn = self.inner.shared.pool.lend().await?;
        match self.records_in_turn(&conn, batch).await {
            Ok((now, items)) => {
                let epoch = conn.epoch.clone();
                conn.give_back();
                Ok(Stamped { now, epoch, value: items })
            }
            Err(trouble) => {
                if conn.command("ROLLBACK").await.is_ok() {
                    conn.give_back();
                }
                Err(trouble)
            }
        }
    }

    async fn records_in_turn(
        &self,
        conn: &Lent,
        batch: &[RecordOp],
    ) -> Try<(Timestamp, Vec<Item<RecordReply>>)> {
        conn.command("BEGIN").await?;
        let now = self.inner.shared.now_in(&conn.query(CLOCK, &[]).await?);
        let mut items = Vec::with_capacity(batch.len());
        for op in batch {
            let done = match op.check() {
                Ok(()) => perform(conn, op, now).await,
                Err(error) => Err(error.into()),
            };
            match done {
                Ok(reply) => items.push(Ok(reply)),
                // An error of the store ends the batch; a refusal fails this operation alone.
                Err(Trouble::Fatal(error)) if !matches!(error, Error::Unavailable { .. }) => {
                    items.push(Err(error));
                }
                Err(trouble) => return Err(trouble),
            }
        }
        conn.command("COMMIT").await?;
        Ok((now, items))
    }
}

async fn perform(conn: &Lent, op: &RecordOp, now: Timestamp) -> Try<RecordReply> {
    match op {
        RecordOp::Get { key } => {
            let rows = conn.query(GET, &[key]).await?;
            Ok(RecordReply::Record(rows.first().map(document)))
        }
        RecordOp::Put { key, value, expect } => {
            let there = lock(conn, key, *expect).await?;
            let sql = if there { UPDATE } else { INSERT };
            let rows = conn.query(sql, &[key, &&**value, &now.as_millis()]).await?;
            let version = rows.first().map_or(0, |row| row.get::<_, i64>(0));
            Ok(RecordReply::Written { version: version.cast_unsigned() })
        }
        RecordOp::Delete { key, expect } => {
            lock(conn, key, *expect).await?;
            Ok(RecordReply::Deleted(conn.execute(DELETE, &[key]).await? > 0))
        }
        RecordOp::List { prefix, after, limit } => {
            list(conn, prefix, after.as_ref(), *limit).await.map(RecordReply::Records)
        }
        RecordOp::Append { log, entries, keep } => append(conn, log, entries, *keep, now).await,
        RecordOp::Read { log, after, limit } => {
            let after = i64::try_from(*after).unwrap_or(i64::MAX);
            let rows = conn.query(READ, &[log, &after, &i64::from(*limit)]).await?;
            Ok(RecordReply::Entries(rows.iter().map(entry).collect()))
        }
        _ => Err(Error::invalid("op", "?", "this engine is older than the request").into()),
    }
}

/// Locks a record if it is as expected; returns whether it exists.
async fn lock(conn: &Lent, key: &str, expect: Expect) -> Try<bool> {
    let rows = conn.query(LOCK, &[&key]).await?;
    let found = rows.first().map_or(0, |row| row.get::<_, i64>(0).cast_unsigned());
    if !expect.holds(found) {
        let expected = expect.version();
        return Err(Error::VersionConflict { key: key.to_owned(), expected, found }.into());
    }
    Ok(found > 0)
}

async fn list(conn: &Lent, prefix: &str, after: Option<&Cursor>, limit: u32) -> Try<Page<Record>> {
    let key = |cursor: &Cursor| match cursor.as_str().strip_prefix(CURSOR_PREFIX) {
        Some(key) => Ok(key.to_owned()),
        None => Err(bad_cursor(cursor)),
    };
    let after = after.map(key).transpose()?;
    let rows = conn.query(LIST, &[&prefix, &after, &(i64::from(limit) + 1)]).await?;
    let more = rows.len() > limit as usize;
    let rows: Vec<Record> = rows.iter().take(limit as usize).map(document).collect();
    let last = rows.last().filter(|_| more);
    let next = last.map(|record| Cursor::new(format!("{CURSOR_PREFIX}{}", record.key)));
    Ok(Page::new(rows, next))
}

async fn append(
    conn: &Lent,
    log: &str,
    entries: &[Bytes],
    keep: u32,
    now: Timestamp,
) -> Try<RecordReply> {
    let count = entries.len() as i64;
    let rows = conn.query(NUMBER, &[&log, &count]).await?;
    let last: i64 = rows.first().map_or(0, |row| row.get(0));
    let values: Vec<&[u8]> = entries.iter().map(|value| &**value).collect();
    let first = last - count + 1;
    conn.execute(APPEND, &[&log, &first, &now.as_millis(), &values]).await?;
    conn.execute(CUT, &[&log, &(last - i64::from(keep))]).await?;
    Ok(RecordReply::Appended { last: last.cast_unsigned() })
}

fn document(row: &Row) -> Record {
    Record {
        key: row.get(0),
        version: row.get::<_, i64>(1).cast_unsigned(),
        value: row.get::<_, Vec<u8>>(2).into(),
        updated_at: at(row.get(3)),
    }
}

fn entry(row: &Row) -> LogEntry {
    LogEntry {
        number: row.get::<_, i64>(0).cast_unsigned(),
        at: at(row.get(1)),
        value: row.get::<_, Vec<u8>>(2).into(),
    }
}
