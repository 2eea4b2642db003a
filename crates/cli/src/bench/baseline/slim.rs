//! The upper bound for SQLite: narrow tables, one writer, no checks.

use super::{LEASE_MS, Op, Store, Taken, now_ms};
use anyhow::{Context as _, Result, ensure};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, params};
use std::path::Path;

/// The tables of the prototype that the engine is compared with.
const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA cache_size = -262144;
    PRAGMA temp_store = MEMORY;
    PRAGMA wal_autocheckpoint = 1000;
    CREATE TABLE job(seq INTEGER PRIMARY KEY, id BLOB NOT NULL, queue TEXT NOT NULL,
        priority INT NOT NULL, run_at INT NOT NULL, payload BLOB NOT NULL);
    CREATE TABLE ready(queue TEXT, priority INT, run_at INT, seq INT, attempts INT,
        PRIMARY KEY (queue, priority, run_at, seq)) WITHOUT ROWID;
    CREATE TABLE running(seq INTEGER PRIMARY KEY, lease INT, attempts INT, queue TEXT,
        priority INT);
    CREATE TABLE done(seq INTEGER PRIMARY KEY, done_at INT, attempts INT, state INT);";

const INSERT_JOB: &str =
    "INSERT INTO job(id, queue, priority, run_at, payload) VALUES (?1, ?2, ?3, ?4, ?5)";
const INSERT_READY: &str =
    "INSERT INTO ready(queue, priority, run_at, seq, attempts) VALUES (?1, ?2, ?3, ?4, 0)";
const READY_HEAD: &str = "SELECT priority, run_at, seq, attempts FROM ready WHERE queue = ?1
    ORDER BY priority, run_at, seq LIMIT ?2";
const DELETE_HEAD: &str =
    "DELETE FROM ready WHERE queue = ?1 AND (priority, run_at, seq) <= (?2, ?3, ?4)";
const INSERT_RUNNING: &str =
    "INSERT INTO running(seq, lease, attempts, queue, priority) VALUES (?1, ?2, ?3, ?4, ?5)";
const PAYLOAD: &str = "SELECT payload FROM job WHERE seq = ?1";
const DELETE_RUNNING: &str = "DELETE FROM running WHERE seq = ?1 RETURNING attempts";
const INSERT_DONE: &str = "INSERT INTO done(seq, done_at, attempts, state) VALUES (?1, ?2, ?3, 2)";

const QUEUE: &str = "bench";
const PRIORITY: i64 = 0;

/// A database with only the bare tables.
pub(in crate::bench) struct Slim {
    connection: Connection,
}

impl Slim {
    /// Creates a database in `dir`.
    pub(in crate::bench) fn create(dir: &Path) -> Result<Self> {
        let connection = Connection::open(dir.join("slim.db"))
            .and_then(|connection| connection.execute_batch(SCHEMA).map(|()| connection))
            .with_context(|| format!("cannot create a database in {}", dir.display()))?;
        connection.set_prepared_statement_cache_capacity(32);
        // Stable query plans: without them, a claim of a different size would recompile its statement.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(Self { connection })
    }

    fn execute(&self, sql: &str) -> Result<()> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    fn enqueue(&self, payloads: &[Vec<u8>], now: i64) -> Result<()> {
        let mut job = self.connection.prepare_cached(INSERT_JOB)?;
        let mut ready = self.connection.prepare_cached(INSERT_READY)?;
        for payload in payloads {
            let id = now.to_be_bytes().repeat(2);
            let seq = job.insert(params![id, QUEUE, PRIORITY, now, payload])?;
            ready.execute(params![QUEUE, PRIORITY, now, seq])?;
        }
        Ok(())
    }

    fn complete(&self, done: &[u128], now: i64) -> Result<()> {
        let mut running = self.connection.prepare_cached(DELETE_RUNNING)?;
        let mut finished = self.connection.prepare_cached(INSERT_DONE)?;
        for id in done {
            let seq = i64::try_from(*id).context("no such job")?;
            let attempts: i64 = running
                .query_row([seq], |row| row.get(0))
                .with_context(|| format!("job {seq} is not running"))?;
            finished.execute(params![seq, now, attempts])?;
        }
        Ok(())
    }

    /// Moves the first `want` ready jobs to running.
    fn take(&self, want: usize, now: i64) -> Result<Vec<Taken>> {
        let mut head = self.connection.prepare_cached(READY_HEAD)?;
        let read = |row: &rusqlite::Row<'_>| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get(2)?, row.get::<_, i64>(3)?))
        };
        let heads = head.query_map(params![QUEUE, want as i64], read)?;
        let heads: Vec<(i64, i64, i64, i64)> = heads.collect::<rusqlite::Result<_>>()?;
        let Some((priority, run_at, seq, _)) = heads.last() else { return Ok(Vec::new()) };
        self.connection
            .prepare_cached(DELETE_HEAD)?
            .execute(params![QUEUE, priority, run_at, seq])?;
        let mut running = self.connection.prepare_cached(INSERT_RUNNING)?;
        let mut payload = self.connection.prepare_cached(PAYLOAD)?;
        let mut taken = Vec::with_capacity(heads.len());
        for (priority, _, seq, attempts) in heads {
            running.execute(params![seq, now + LEASE_MS, attempts + 1, QUEUE, priority])?;
            let payload = payload.query_row([seq], |row| row.get(0))?;
            taken.push(Taken { id: u128::try_from(seq)?, payload });
        }
        Ok(taken)
    }

    fn carry_out(&self, ops: &mut [Op], now: i64) -> Result<()> {
        let mut wanted = 0;
        for op in &mut *ops {
            match op {
                Op::Enqueue(payloads) => self.enqueue(payloads, now)?,
                Op::Next { done, want, .. } => {
                    self.complete(done, now)?;
                    wanted += *want;
                }
            }
        }
        // One statement claims the jobs for all operations of a commit; they are distributed afterwards.
        let mut all = match wanted {
            0 => Vec::new(),
            _ => self.take(wanted, now)?,
        }
        .into_iter();
        for op in ops {
            if let Op::Next { want, taken, .. } = op {
                taken.extend(all.by_ref().take(*want));
            }
        }
        ensure!(all.next().is_none(), "more jobs were claimed than requested");
        Ok(())
    }
}

impl Store for Slim {
    fn commit(&mut self, ops: &mut [Op], durable: bool) -> Result<()> {
        if !durable {
            self.connection.execute_batch("PRAGMA synchronous = NORMAL")?;
        }
        self.execute("BEGIN IMMEDIATE")?;
        let outcome = self.carry_out(ops, now_ms());
        self.execute(if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
        if !durable {
            self.connection.execute_batch("PRAGMA synchronous = FULL")?;
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_in_one_place() {
        let dir = tempfile::tempdir().unwrap();
        let mut slim = Slim::create(dir.path()).unwrap();
        assert_eq!(super::super::tests::exercise(&mut slim), [0, 1]);
        for table in ["ready", "running", "done"] {
            let count = format!("SELECT count(*) FROM {table}");
            let count: i64 = slim.connection.query_row(&count, [], |row| row.get(0)).unwrap();
            assert_eq!(count, 1, "{table}");
        }
    }
}
