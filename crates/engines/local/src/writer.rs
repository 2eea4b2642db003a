//! The writer: one thread that owns the rows and commits whatever is waiting in one transaction.
//!
//! While one transaction is being carried out, the next calls gather; there is no timer, and a lone
//! call waits for nobody. Waiting for the disk is the business of the [`Syncer`]. A group that holds
//! only claims and the like does not wait for it: losing it with the machine only runs jobs again.

use crate::database::{Database, named};
use crate::rows::{SqliteRows, failed};
use crate::syncer::{Group, Syncer};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use tokio::sync::{oneshot, watch};
use windlass_core::engine::{Capabilities, Epoch, Stamped};
use windlass_core::random::Random;
use windlass_core::time::Clock;
use windlass_core::{Error, Result, Timestamp};
use windlass_executor::Executor;

/// Calls in one transaction, at most: bounds how long the first of them waits.
const GROUP_MAX: usize = 1_024;

pub(crate) type LocalExecutor<'c> = Executor<SqliteRows<'c>>;

/// What a call must be, before it may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Needs {
    /// Nothing is written.
    Read,
    /// Written, but a loss of power may take it back.
    Written,
    /// Safe on disk.
    Durable,
}

/// A call that waits for the writer.
pub(crate) trait Call: Send {
    fn needs(&self) -> Needs;
    /// Does it; may be called again if the transaction failed because of another call.
    fn run(&mut self, executor: &mut LocalExecutor<'_>, now: Timestamp);
    /// Answers, once what it did is as safe as it needs to be, or nothing was done.
    fn answer(self: Box<Self>, outcome: Result<()>, epoch: &Epoch);
}

/// A call made of a closure.
pub(crate) struct Asked<T, F> {
    pub(crate) needs: Needs,
    pub(crate) act: F,
    pub(crate) done: Option<(Result<T>, Timestamp)>,
    pub(crate) reply: oneshot::Sender<Result<Stamped<T>>>,
}

impl<T, F> Call for Asked<T, F>
where
    T: Send,
    F: FnMut(&mut LocalExecutor<'_>, Timestamp) -> Result<T> + Send,
{
    fn needs(&self) -> Needs {
        self.needs
    }

    fn run(&mut self, executor: &mut LocalExecutor<'_>, now: Timestamp) {
        self.done = Some(((self.act)(executor, now), now));
    }

    fn answer(self: Box<Self>, outcome: Result<()>, epoch: &Epoch) {
        let answer = match (outcome, self.done) {
            (Ok(()), Some((result, now))) => {
                result.map(|value| Stamped { now, epoch: epoch.clone(), value })
            }
            (Ok(()), None) => Err(closed()),
            (Err(error), _) => Err(error),
        };
        // Whoever asked may have gone away; what was done stays done.
        let _ = self.reply.send(answer);
    }
}

/// The error for calls that come after the end.
pub(crate) fn closed() -> Error {
    Error::Unavailable { store: "the local store".into(), reason: "it was closed".into() }
}

/// Counters of what was written.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) calls: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) syncs: AtomicU64,
}

/// The thread's own things.
pub(crate) struct Writer<'c> {
    dir: PathBuf,
    executor: LocalExecutor<'c>,
    clock: Arc<dyn Clock>,
    syncer: Syncer,
    readied: watch::Sender<u64>,
    tally: Arc<Tally>,
}

impl<'c> Writer<'c> {
    pub(crate) fn open(
        dir: PathBuf,
        database: &'c Database,
        capabilities: Capabilities,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        readied: watch::Sender<u64>,
        tally: Arc<Tally>,
    ) -> Result<Self> {
        let Database { conn, log, epoch, seq } = database;
        let rows = SqliteRows::open(conn).map_err(|error| named(&dir, &error))?;
        let executor = Executor::new(capabilities, random, rows, *seq);
        let syncer = Syncer::start(log.clone(), Epoch::new(epoch.as_str()), Arc::clone(&tally))?;
        let mut writer = Self { dir, executor, clock, syncer, readied, tally };
        writer.remember()?;
        writer.settle_sessions()?;
        writer.leave_the_disk_to_the_syncer()?;
        Ok(writer)
    }

    /// Gives the executor what the tables remember.
    fn remember(&mut self) -> Result<()> {
        let rows = self.executor.rows();
        let (sessions, queues, kinds) = (rows.sessions()?, rows.queues()?, rows.kinds()?);
        self.executor.remember(sessions, queues, kinds)
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
            for done in self.perform(group) {
                // If others came meanwhile, they are carried out while the disk takes these.
                next = next.or_else(|| calls.try_recv().ok());
                self.syncer.give(done, next.is_some());
            }
            let readied = self.executor.readied();
            self.readied.send_if_modified(|seen| std::mem::replace(seen, readied) != readied);
        }
    }

    /// Carries calls out: all together, or each for itself if that fails.
    fn perform(&mut self, mut calls: Vec<Box<dyn Call>>) -> Vec<Group> {
        self.tally.calls.fetch_add(calls.len() as u64, Ordering::Relaxed);
        let needs = calls.iter().map(|call| call.needs()).max().unwrap_or(Needs::Read);
        let outcome = self.syncer.check().and_then(|()| self.transact(&mut calls));
        if outcome.is_err() {
            self.recover();
            // One of them may be to blame: each for itself, so that it fails alone.
            if calls.len() > 1 {
                return calls.into_iter().flat_map(|call| self.perform(vec![call])).collect();
            }
        }
        let outcome = outcome.map_err(|error| named(&self.dir, &error));
        vec![Group { calls, needs, outcome }]
    }

    /// Does all calls in one transaction.
    fn transact(&mut self, calls: &mut [Box<dyn Call>]) -> Result<()> {
        self.begin()?;
        for call in calls {
            call.run(&mut self.executor, self.clock.now());
            if let Some(error) = self.executor.rows().failure() {
                return Err(error);
            }
        }
        self.executor.rows_mut().flush()?;
        self.commit()?;
        self.tally.commits.fetch_add(1, Ordering::Relaxed);
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
        let _ = self.executor.rows_mut().reload();
        let _ = self.remember();
    }
}
