//! Runs a verb in one transaction: load and run until nothing is missing, then save.

use crate::conn::Row;
use crate::conn::error::{Trouble, Try, unavailable};
use crate::conn::{Lent, Pool};
use crate::rows::entries::JobRow;
use crate::rows::entries::at;
use crate::slow::load::{Loaded, Loader};
use crate::slow::save::Batch;
use futures_util::future::{join, try_join_all};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::engine::{Capabilities, Stamped};
use windlass_core::model::Name;
use windlass_core::random::Random;
use windlass_core::time::Clock;
use windlass_core::{Result, Timestamp};
use windlass_executor::LaneKey;
use windlass_workset::{Context, Ran, Store as _, Wants, pause_ms, rounds};

/// Maximum runs of a verb after conflicts.
const TRIES_MAX: u32 = 40;

/// The required durability of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Committed asynchronously: a crash of the server may lose it.
    Written,
    /// Durable as the server is configured.
    Durable,
    /// Durable; waits at most this many milliseconds for keys held by others.
    Keys { wait_ms: u64 },
}

/// The executor of one run.
pub(crate) type Run<'l> = windlass_workset::Run<'l, JobRow>;

/// The body of a verb.
pub(crate) type Act<'a, T> = windlass_workset::Act<'a, JobRow, T>;

/// Reads the store's clock, for [`Shared::now_in`].
pub(crate) const CLOCK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// State shared by all verbs.
pub(crate) struct Shared {
    pub(crate) capabilities: Capabilities,
    pub(crate) pool: Pool,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) random: Arc<dyn Random>,
    /// How long an enqueue waits for a key held by another transaction.
    pub(crate) lock_timeout_ms: u64,
}

/// The result of a verb.
pub(crate) struct Done<T> {
    pub(crate) reply: Stamped<T>,
    /// Whether jobs may have become claimable.
    pub(crate) readied: bool,
    /// The lowest number of the new claimable jobs, and of those that other claims may have skipped meanwhile.
    pub(crate) lowest: Option<i64>,
    /// The queues whose events have news for readers.
    pub(crate) events: BTreeSet<Name>,
}

/// The outcome of one run.
enum Tried<T> {
    Done(Done<T>),
    /// It was rolled back, because it adds jobs to these lanes as well, which must be created first.
    Lanes(Vec<LaneKey>),
}

impl Shared {
    /// The time: a test's clock, or else the `store`'s.
    pub(crate) fn now(&self, store: Timestamp) -> Timestamp {
        self.test_now().unwrap_or(store)
    }

    /// The time returned by [`CLOCK`].
    pub(crate) fn now_in(&self, rows: &[Row]) -> Timestamp {
        self.now(rows.first().map_or(Timestamp::EPOCH, |row| at(row.get(0))))
    }

    /// The time of a test's clock, which replaces the store's in statements.
    pub(crate) fn test_now(&self) -> Option<Timestamp> {
        self.clock.as_ref().map(|clock| clock.now())
    }

    /// Runs a verb that may add jobs to these lanes, and again if it turns out to add jobs to others. `act` may be called
    /// several times: only the changes of the last call are saved.
    pub(crate) async fn perform<T>(
        &self,
        needs: Needs,
        wants: &Wants,
        lanes: &[LaneKey],
        act: &mut Act<'_, T>,
    ) -> Result<Done<T>> {
        let mut again = unavailable("it was never tried");
        let mut lanes = Cow::Borrowed(lanes);
        for tries in 0..TRIES_MAX {
            // Boxed: the future contains a working set, and debug builds copy futures on the stack of every caller.
            match Box::pin(self.attempt(needs, wants, &lanes, act)).await {
                Ok(Tried::Done(done)) => return Ok(done),
                Ok(Tried::Lanes(more)) => {
                    lanes.to_mut().extend(more);
                    continue;
                }
                Err(Trouble::Retryable(error)) => again = error,
                Err(Trouble::Fatal(error)) => return Err(error),
            }
            let pause = pause_ms(tries, &*self.random);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        Err(again)
    }

    async fn attempt<T>(
        &self,
        needs: Needs,
        wants: &Wants,
        lanes: &[LaneKey],
        act: &mut Act<'_, T>,
    ) -> Try<Tried<T>> {
        let conn = self.pool.lend().await?;
        let now = self.test_now().map(Timestamp::as_millis);
        conn.lanes.intern(&conn, lanes, now).await?;
        let tried = self.transact(&conn, needs, wants, lanes, act).await;
        match &tried {
            Ok(Tried::Done(_)) => conn.give_back(),
            Ok(Tried::Lanes(_)) | Err(_) => {
                // If even this fails, the connection is closed.
                if conn.command("ROLLBACK").await.is_ok() {
                    conn.give_back();
                }
            }
        }
        tried
    }

    async fn transact<T>(
        &self,
        conn: &Lent,
        needs: Needs,
        wants: &Wants,
        lanes: &[LaneKey],
        act: &mut Act<'_, T>,
    ) -> Try<Tried<T>> {
        let begin = match needs {
            Needs::Durable => "BEGIN".to_owned(),
            Needs::Written => "BEGIN; SET LOCAL synchronous_commit = off".to_owned(),
            Needs::Keys { wait_ms } => format!("BEGIN; SET LOCAL lock_timeout = {wait_ms}"),
        };
        let loader = Loader::new(conn, self.clock.as_ref());
        let mut loaded = Loaded::default();
        // Together, in one round trip.
        let (begun, first) = join(conn.command(&begin), loader.load(wants, &mut loaded)).await;
        begun?;
        first?;
        let Ran { value, saves, readied } =
            rounds(&loader, self.context(), &mut loaded, wants.parts, act).await?;
        let more = loader.lanes_beside(lanes);
        if !more.is_empty() {
            return Ok(Tried::Lanes(more));
        }
        // A job that others depend on is locked by the enqueue of each dependent, and seldom changed by it.
        let lowest = saves.lowest.into_iter().chain(loaded.lowest_skipped()).min();
        commit(conn, saves.batches).await?;
        let reply = Stamped { now: loaded.now, epoch: conn.epoch.clone(), value: value? };
        let events = saves.events;
        Ok(Tried::Done(Done { reply, readied, lowest, events }))
    }

    /// The parameters of an executor.
    pub(crate) const fn context(&self) -> Context<'_> {
        Context { capabilities: &self.capabilities, random: &self.random }
    }
}

/// Writes rows and commits, in one round trip.
pub(crate) async fn commit(conn: &Lent, batches: Vec<Batch>) -> Try<()> {
    let statements: Vec<&'static str> = batches.iter().map(|batch| batch.sql).collect();
    conn.prepare(&statements).await?;
    let writes = try_join_all(batches.iter().map(|batch| batch.write(conn)));
    let (written, committed) = join(writes, conn.command("COMMIT")).await;
    written?;
    committed
}
