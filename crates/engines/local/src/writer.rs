//! The writer: one thread that owns the rows and commits whatever is waiting in one transaction.
//!
//! While one transaction is being carried out, the next calls gather; there is no timer, and a lone
//! call waits for nobody. Waiting for the disk is the business of the [`Syncer`]. A group that holds
//! only claims and the like does not wait for it: losing it with the machine only runs jobs again.

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
use windlass_core::engine::{Capabilities, Epoch, FastPaths};
use windlass_core::random::Random;
use windlass_core::time::Clock;
use windlass_core::{Error, Result, Timestamp};
use windlass_executor::Executor;

/// Calls in one transaction, at most: bounds how long the first of them waits.
const GROUP_MAX: usize = 1_024;

/// The log is filled after this many commits: a command that makes a few calls does not write 17 MB for them.
const FILL_LOG_AFTER: u64 = 32;

/// On a full disk the log is written back this often, so that what was removed gives its space back.
const WRITE_BACK_EVERY_MS: u64 = 1_000;
/// How long readers outside this process may hold that up.
const READERS_PATIENCE: Duration = Duration::from_millis(100);

/// Counters of what was written.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) calls: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) syncs: AtomicU64,
}

/// What a writer is given beside its database.
pub(crate) struct Equipment {
    pub(crate) dir: PathBuf,
    pub(crate) capabilities: Capabilities,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) fast_paths: FastPaths,
    pub(crate) tally: Arc<Tally>,
    pub(crate) reserve: Reserve,
}

/// The thread's own things.
pub(crate) struct Writer<'c> {
    dir: PathBuf,
    executor: LocalExecutor<'c>,
    clock: Arc<dyn Clock>,
    /// Whether rows may be kept in memory from one transaction to the next; always, but in tests.
    fast_paths: FastPaths,
    syncer: Syncer,
    /// Waits that found no job so far.
    waits: Vec<Box<dyn Call>>,
    /// How many jobs had become ready when the waits were last run.
    readied: u64,
    tally: Arc<Tally>,
    reserve: Reserve,
    log: Log,
    /// Whether the log was filled, or could not be.
    log_filled: bool,
    /// When the log was last written back on a full disk.
    written_back: Option<Timestamp>,
}

impl<'c> Writer<'c> {
    pub(crate) fn open(database: &'c Database, equipment: Equipment) -> Result<Self> {
        let Equipment { dir, capabilities, clock, random, fast_paths, tally, reserve } = equipment;
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

    /// Restores sessions and settings from the tables.
    fn restore(&mut self) -> Result<()> {
        let rows = self.executor.rows();
        let (sessions, queues, kinds) = (rows.sessions()?, rows.queues()?, rows.kinds()?);
        self.executor.restore(sessions, queues, kinds);
        self.executor.restart_turns()
    }

    /// Sessions of workers in the process that died, died with it; others get their time to come
    /// back, as this store was away too.
    fn settle_sessions(&mut self) -> Result<()> {
        let now = self.clock.now();
        self.begin()?;
        self.executor.after_restart(now)?;
        self.commit()
    }

    /// Serves calls until the last handle is gone.
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
            for done in groups {
                // If others came meanwhile, they are carried out while the disk takes these.
                next = next.or_else(|| calls.try_recv().ok());
                self.syncer.give(done, next.is_some());
            }
            self.fill_log_once_in_use();
        }
    }

    /// Keeps the waits that found no job, and answers those that find one now, with the calls that made it ready and
    /// before them: workers are in more of a hurry than producers.
    fn run_waits(&mut self, groups: &mut [Group]) {
        let known = self.waits.len();
        for group in groups.iter_mut() {
            self.waits.extend(group.calls.extract_if(.., |call| call.goes_on()));
        }
        if self.waits.len() > known {
            // Those whose callers went away meanwhile.
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
        // What went wrong is in the answers of the waits.
        let _ = self.executor.rows().failure();
        let over = self.waits.extract_if(.., |wait| !wait.goes_on());
        done.calls.splice(0..0, over);
    }

    /// Carries calls out: all together, or each for itself if that fails. New jobs are refused while the
    /// disk is full.
    fn perform(&mut self, calls: Vec<Box<dyn Call>>) -> Vec<Group> {
        self.tally.calls.fetch_add(calls.len() as u64, Ordering::Relaxed);
        self.look_for_room();
        self.attempt(calls, false)
    }

    /// See [`Writer::perform`]; `written_back`: for want of space the log was written back just before.
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
            // One of them may be to blame: each for itself, so that it fails alone.
            if calls.len() > 1 {
                groups.extend(calls.into_iter().flat_map(|call| self.attempt(vec![call], false)));
                return groups;
            }
        }
        let outcome = outcome.map_err(|error| named(&self.dir, &error));
        groups.push(Group { calls, needs, outcome });
        groups
    }

    /// Takes out the calls that add jobs, while the disk is full, with the answer to them.
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

    /// Takes the space of the log in advance, once, unless the disk is short of it. Best effort: a log that grows is
    /// slower to sync, and that is all.
    fn fill_log_once_in_use(&mut self) {
        if self.log_filled || self.tally.commits.load(Ordering::Relaxed) < FILL_LOG_AFTER {
            return;
        }
        self.log_filled = true;
        // The write lock keeps others from appending to the log.
        if self.reserve.has_room_beside(self.log.missing()) && self.begin().is_ok() {
            let _ = self.log.fill();
            let _ = self.command("ROLLBACK");
        }
    }

    /// While the disk is full: looks whether it still is.
    fn look_for_room(&mut self) {
        if !self.reserve.space().is_short() {
            return;
        }
        let now = self.clock.now();
        let due = |last: Timestamp| now < last || now.since(last) >= WRITE_BACK_EVERY_MS;
        if self.written_back.is_none_or(due) {
            self.written_back = Some(now);
            // The database gets shorter by what retention freed. The log keeps its space for settles,
            // unless that is what new jobs lack.
            self.write_back(match self.reserve.would_suffice(self.log.bytes()) {
                true => "TRUNCATE",
                false => "PASSIVE",
            });
        }
        self.reserve.refill();
    }

    /// After a write that found no space: refuses new jobs from now on and writes the log back, so that its
    /// space can be used again; if that was done just before, gives up a part of the reserve first. False if
    /// nothing is left to give up.
    fn make_room(&mut self, written_back: bool) -> bool {
        if written_back && !self.reserve.release() {
            return false;
        }
        self.reserve.note_full();
        self.write_back("RESTART");
        true
    }

    /// Writes the log back into the database. Best effort: if there is no room for that either, the log
    /// stays as it is.
    fn write_back(&self, mode: &str) {
        let conn = self.executor.rows().conn;
        let run = || -> rusqlite::Result<()> {
            // Calls wait: not long for somebody who reads with sqlite3.
            conn.busy_timeout(READERS_PATIENCE)?;
            conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
        };
        let _ = run();
        let _ = conn.busy_timeout(BUSY_PATIENCE);
    }

    /// Does all calls in one transaction.
    fn transact(&mut self, calls: &mut [Box<dyn Call>], needs: Needs) -> Result<()> {
        if !self.fast_paths.are_on() {
            self.reload()?;
        }
        match needs {
            // Takes no lock before something is read from the tables.
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

    /// From now on, commits do not wait for the disk; checkpoints still do, so that the file is sound
    /// at every instant.
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

    /// After a failure: back to what is on disk, in memory too.
    fn recover(&mut self) {
        if !self.executor.rows().conn.is_autocommit() {
            // SQLite may have rolled back by itself.
            let _ = self.command("ROLLBACK");
        }
        // If even that fails, the next call will meet the same trouble and say so.
        let _ = self.reload();
    }

    /// Forgets what is in memory, and reads it from the tables.
    fn reload(&mut self) -> Result<()> {
        self.executor.rows_mut().reload()?;
        self.restore()
    }
}
