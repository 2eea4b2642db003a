//! The writer: the only thread that changes rows. It commits all pending calls in one transaction (group commit).
//!
//! While a transaction runs, the next calls queue up; there is no timer, so a single call is not delayed. The
//! [`Syncer`] waits for the disk. A group without durable calls (claims, heartbeats, sessions) is not synced:
//! losing it in a power failure only means that jobs run again.

use crate::call::{Call, LocalExecutor, Needs};
use crate::database::{BUSY_PATIENCE, Database, named};
use crate::log::Log;
use crate::reserve::Reserve;
use crate::rows::{SqliteRows, failed};
use crate::syncer::{Group, Syncer};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;
use tokio::sync::watch;
use windlass_core::engine::{Capabilities, Epoch, FastPaths};
use windlass_core::random::Random;
use windlass_core::time::Clock;
use windlass_core::{Error, Result, Timestamp};
use windlass_executor::Executor;

/// Maximum number of calls in one transaction; bounds the latency of the first of them.
const GROUP_MAX: usize = 1_024;

/// Commits before the log is filled, so that a command which makes a few calls does not write 17 MB for them.
const FILL_LOG_AFTER: u64 = 32;

/// Interval of checkpoints while the disk is full. They return the space of removed jobs.
const WRITE_BACK_EVERY_MS: u64 = 1_000;
/// How long such a checkpoint waits for readers in other processes.
const READERS_PATIENCE: Duration = Duration::from_millis(100);

/// Counters behind `LocalEngine::counters`.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) calls: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) syncs: AtomicU64,
}

/// Everything that a writer needs besides its database.
pub(crate) struct WriterOptions {
    pub(crate) dir: PathBuf,
    pub(crate) capabilities: Capabilities,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) fast_paths: FastPaths,
    pub(crate) tally: Arc<Tally>,
    pub(crate) reserve: Reserve,
    pub(crate) appended: watch::Sender<u64>,
}

/// The state of the writer thread.
pub(crate) struct Writer<'c> {
    dir: PathBuf,
    executor: LocalExecutor<'c>,
    clock: Arc<dyn Clock>,
    /// Whether rows are kept in memory between transactions. Off in tests only.
    fast_paths: FastPaths,
    syncer: Syncer,
    /// Waits that have found no job yet.
    waits: Vec<Box<dyn Call>>,
    /// Value of `Executor::readied` when the waits were last run.
    readied: u64,
    tally: Arc<Tally>,
    reserve: Reserve,
    log: Log,
    /// Whether filling the log was attempted; it is attempted once.
    log_filled: bool,
    /// Time of the last checkpoint on a full disk.
    written_back: Option<Timestamp>,
    /// Number of events appended.
    appended: watch::Sender<u64>,
}

impl<'c> Writer<'c> {
    pub(crate) fn open(database: &'c Database, options: WriterOptions) -> Result<Self> {
        let WriterOptions {
            dir,
            capabilities,
            clock,
            random,
            fast_paths,
            tally,
            reserve,
            appended,
        } = options;
        let Database { conn, log, epoch, seq } = database;
        let rows = SqliteRows::open(conn).map_err(|error| named(&dir, &error))?;
        let executor = Executor::new(capabilities, random, rows, *seq);
        let syncer = Syncer::start(log.clone(), Epoch::new(epoch.as_str()), Arc::clone(&tally))?;
        let written_back = None;
        let mut writer = Self {
            dir,
            executor,
            clock,
            fast_paths,
            syncer,
            waits: Vec::new(),
            readied: 0,
            tally,
            reserve,
            log: log.clone(),
            log_filled: false,
            written_back,
            appended,
        };
        writer.restore()?;
        let mut written_back = false;
        while let Err(error) = writer.settle_sessions() {
            writer.recover();
            if !matches!(error, Error::StoreFull { .. }) || !writer.make_room(written_back) {
                return Err(error);
            }
            written_back = true;
        }
        writer.leave_the_disk_to_the_syncer()?;
        writer.reserve.refill();
        Ok(writer)
    }

    /// Restores sessions and settings from the tables, and the turns of fair queues.
    fn restore(&mut self) -> Result<()> {
        let rows = self.executor.rows();
        let (sessions, queues, kinds) = (rows.sessions()?, rows.queues()?, rows.kinds()?);
        let limits = rows.limits()?;
        self.executor.restore(sessions, queues, kinds);
        self.executor.restore_limits(limits);
        self.executor.restart_turns()
    }

    /// Expires the sessions of workers that ended with the previous process. Remote workers get their full session
    /// time to reconnect, because the store was unavailable to them.
    fn settle_sessions(&mut self) -> Result<()> {
        let now = self.clock.now();
        self.begin()?;
        self.executor.after_restart(now)?;
        self.commit()
    }

    /// Executes calls until the last handle is dropped.
    pub(crate) fn serve(mut self, calls: &Receiver<Box<dyn Call>>) {
        let mut next = None;
        while let Some(first) = next.take().or_else(|| calls.recv().ok()) {
            let mut group = vec![first];
            while group.len() < GROUP_MAX
                && let Ok(call) = calls.try_recv()
            {
                group.push(call);
            }
            let mut groups = self.perform(group);
            self.run_waits(&mut groups);
            self.publish_events();
            for done in groups {
                // If another call is pending, the writer executes it while the syncer waits for the disk.
                next = next.or_else(|| calls.try_recv().ok());
                self.syncer.give(done, next.is_some());
            }
            self.fill_log_once_in_use();
        }
    }

    /// Keeps the waits that found no job, and runs them again if jobs became ready. Waits that found one are
    /// answered together with the group that made it ready, before its other calls: the latency of workers matters
    /// more than that of producers.
    fn run_waits(&mut self, groups: &mut [Group]) {
        let known = self.waits.len();
        for group in groups.iter_mut() {
            self.waits.extend(group.calls.extract_if(.., |call| call.goes_on()));
        }
        if self.waits.len() > known {
            // Drops the waits whose callers have given up.
            self.waits.retain(|wait| wait.goes_on());
        }
        let done = groups.iter_mut().rev().find(|group| group.outcome.is_ok());
        let (Some(done), readied) = (done, self.executor.readied()) else { return };
        if self.readied == readied {
            return;
        }
        self.readied = readied;
        let now = self.clock.now();
        for wait in &mut self.waits {
            wait.run(&mut self.executor, now);
        }
        // An error is part of the reply to its wait.
        let _ = self.executor.rows().failure();
        let over = self.waits.extract_if(.., |wait| !wait.goes_on());
        done.calls.splice(0..0, over);
    }

    /// Notifies readers that wait if events were appended.
    fn publish_events(&self) {
        let count = self.executor.events_appended();
        self.appended.send_if_modified(|seen| std::mem::replace(seen, count) != count);
    }

    /// Executes calls in one transaction, or one by one if that fails. Refuses new jobs while the disk is full.
    fn perform(&mut self, calls: Vec<Box<dyn Call>>) -> Vec<Group> {
        self.tally.calls.fetch_add(calls.len() as u64, Ordering::Relaxed);
        self.look_for_room();
        self.attempt(calls, false)
    }

    /// See [`Writer::perform`]. `written_back`: the preceding attempt ran out of space and was followed by a
    /// checkpoint.
    fn attempt(&mut self, calls: Vec<Box<dyn Call>>, written_back: bool) -> Vec<Group> {
        let (refused, mut calls) = self.refuse_new_jobs(calls);
        let mut groups = Vec::from_iter(refused);
        if calls.is_empty() {
            return groups;
        }
        let needs = calls.iter().map(|call| call.needs()).max().unwrap_or(Needs::Read);
        let outcome = self.syncer.check().and_then(|()| self.transact(&mut calls, needs));
        if let Err(error) = &outcome {
            self.recover();
            if matches!(error, Error::StoreFull { .. }) && self.make_room(written_back) {
                groups.extend(self.attempt(calls, true));
                return groups;
            }
            // One call may be the cause: run each in its own transaction, so that only that call fails.
            if calls.len() > 1 {
                groups.extend(calls.into_iter().flat_map(|call| self.attempt(vec![call], false)));
                return groups;
            }
        }
        let outcome = outcome.map_err(|error| named(&self.dir, &error));
        groups.push(Group { calls, needs, outcome });
        groups
    }

    /// While the disk is full, separates the calls that add jobs and refuses them.
    fn refuse_new_jobs(&self, calls: Vec<Box<dyn Call>>) -> (Option<Group>, Vec<Box<dyn Call>>) {
        let space = self.reserve.space();
        if !space.is_short() {
            return (None, calls);
        }
        let (refused, rest): (Vec<_>, Vec<_>) =
            calls.into_iter().partition(|call| call.adds_jobs());
        let outcome = Err(space.refusal(&self.dir));
        let group = Group { calls: refused, needs: Needs::Read, outcome };
        ((!group.calls.is_empty()).then_some(group), rest)
    }

    /// Fills the log with zeros once the store is in use, unless the disk is short of space. Best effort: syncing a
    /// log that grows is only slower.
    fn fill_log_once_in_use(&mut self) {
        if self.log_filled || self.tally.commits.load(Ordering::Relaxed) < FILL_LOG_AFTER {
            return;
        }
        self.log_filled = true;
        // The write lock prevents other connections from appending to the log.
        if self.reserve.has_room_beside(self.log.missing()) && self.begin().is_ok() {
            let _ = self.log.fill();
            let _ = self.command("ROLLBACK");
        }
    }

    /// While the disk is full: checkpoints at intervals, and accepts new jobs again if there is room.
    fn look_for_room(&mut self) {
        if !self.reserve.space().is_short() {
            return;
        }
        let now = self.clock.now();
        let due = |last: Timestamp| now < last || now.since(last) >= WRITE_BACK_EVERY_MS;
        if self.written_back.is_none_or(due) {
            self.written_back = Some(now);
            // A checkpoint shortens the database by the pages that retention freed. The log keeps its space for
            // settles, unless releasing it is enough to accept new jobs again.
            self.write_back(match self.reserve.would_suffice(self.log.bytes()) {
                true => "TRUNCATE",
                false => "PASSIVE",
            });
        }
        self.reserve.refill();
    }

    /// Frees space after a write found none: refuses new jobs from now on and checkpoints, so that the log can be
    /// overwritten from its start. If that was done just before, first releases a step of the reserve; returns
    /// false if none is left.
    fn make_room(&mut self, written_back: bool) -> bool {
        if written_back && !self.reserve.release() {
            return false;
        }
        self.reserve.note_full();
        self.write_back("RESTART");
        true
    }

    /// Checkpoints the log. Best effort: if the disk has no room for that either, the log stays as it is.
    fn write_back(&self, mode: &str) {
        let conn = self.executor.rows().conn;
        let run = || -> rusqlite::Result<()> {
            // Calls are pending, so a reader with `sqlite3` may delay them only briefly.
            conn.busy_timeout(READERS_PATIENCE)?;
            conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
        };
        let _ = run();
        let _ = conn.busy_timeout(BUSY_PATIENCE);
    }

    /// Executes all calls in one transaction.
    fn transact(&mut self, calls: &mut [Box<dyn Call>], needs: Needs) -> Result<()> {
        if !self.fast_paths.are_on() {
            self.reload()?;
        }
        match needs {
            // A deferred transaction takes no lock until it reads a table.
            Needs::Read => self.command("BEGIN")?,
            Needs::Written | Needs::Durable => self.begin()?,
        }
        let changes = self.executor.rows().conn.total_changes();
        for call in calls {
            call.run(&mut self.executor, self.clock.now());
            if let Some(error) = self.executor.rows().failure() {
                return Err(error);
            }
        }
        self.executor.rows_mut().flush()?;
        self.commit()?;
        if self.executor.rows().conn.total_changes() != changes {
            self.syncer.note_written();
            self.tally.commits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// From now on, commits are not synced by SQLite. Checkpoints still are, so that the database file is
    /// consistent at any time.
    fn leave_the_disk_to_the_syncer(&self) -> Result<()> {
        let set = self.executor.rows().conn.pragma_update(None, "synchronous", "NORMAL");
        set.map_err(|error| failed(&error))
    }

    fn begin(&self) -> Result<()> {
        self.command("BEGIN IMMEDIATE")
    }

    fn commit(&self) -> Result<()> {
        self.command("COMMIT")
    }

    fn command(&self, sql: &str) -> Result<()> {
        let conn = self.executor.rows().conn;
        let run = || conn.prepare_cached(sql)?.execute([]);
        run().map(|_| ()).map_err(|error| failed(&error))
    }

    /// Rolls back after a failure, and resets the rows in memory to the committed ones.
    fn recover(&mut self) {
        if !self.executor.rows().conn.is_autocommit() {
            // SQLite may have rolled back already.
            let _ = self.command("ROLLBACK");
        }
        // If this fails too, the next call fails with the same error and reports it.
        let _ = self.reload();
    }

    /// Discards the rows in memory and reads them from the tables.
    fn reload(&mut self) -> Result<()> {
        self.executor.rows_mut().reload()?;
        self.restore()
    }
}
