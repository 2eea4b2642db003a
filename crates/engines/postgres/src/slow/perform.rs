//! Runs a verb in one transaction: load and run until nothing is missing, then save.

use crate::conn::error::{Trouble, Try, unavailable};
use crate::conn::{Conn, Lent, Pool};
use crate::rows::entries::JobRow;
use crate::rows::entries::at;
use crate::slow::load::{Loaded, Loader};
use crate::slow::save::Batch;
use futures_util::future::{join, try_join_all};
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use windlass_core::engine::{Capabilities, Stamped};
use windlass_core::random::Random;
use windlass_core::time::Clock;
use windlass_core::{Error, Result, Timestamp};
use windlass_executor::LaneKey;
use windlass_workset::{Context, Ran, Store as _, Wants, pause_ms, rounds};

/// Maximum runs of a verb after conflicts.
const TRIES_MAX: u32 = 40;
/// Maximum runs within an application's transaction, where waiting blocks others.
const TRIES_IN_MAX: u32 = 5;

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

/// Rolls the application's transaction back to our savepoint, which also releases the locks taken since.
const ROLL_BACK: &str = "ROLLBACK TO SAVEPOINT windlass; RELEASE SAVEPOINT windlass";
/// Limits the wait for locks to this many milliseconds, or less if the application's setting is lower; returns the
/// limit. Valid until the transaction ends or is rolled back.
const WAIT_LESS: &str = "SELECT was, current_setting('transaction_isolation'), set_config('lock_timeout', CASE WHEN
        extract(epoch FROM was::interval) * 1000 BETWEEN 1 AND $1::bigint THEN was ELSE $1::bigint || 'ms' END, true)
    FROM current_setting('lock_timeout') was";
const WAIT_AS_BEFORE: &str = "SELECT set_config('lock_timeout', $1::text, true)";

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
    /// The lowest number of the new claimable jobs.
    pub(crate) lowest: Option<i64>,
}

impl Shared {
    /// The time: a test's clock, or else the store's time `told`.
    pub(crate) fn now(&self, told: Timestamp) -> Timestamp {
        self.test_now().unwrap_or(told)
    }

    /// The time returned by [`CLOCK`].
    pub(crate) fn now_in(&self, told: &[Row]) -> Timestamp {
        self.now(told.first().map_or(Timestamp::EPOCH, |row| at(row.get(0))))
    }

    /// The time of a test's clock, which replaces the store's in statements.
    pub(crate) fn test_now(&self) -> Option<Timestamp> {
        self.clock.as_ref().map(|clock| clock.now())
    }

    /// Runs a verb that may add jobs to these lanes. `act` may be called several times: only the changes of the last
    /// call are saved.
    pub(crate) async fn perform<T>(
        &self,
        needs: Needs,
        wants: &Wants,
        lanes: &[LaneKey],
        act: &mut Act<'_, T>,
    ) -> Result<Done<T>> {
        let mut again = unavailable("it was never tried");
        for tries in 0..TRIES_MAX {
            // Boxed: the future contains a working set, and debug builds copy futures on the stack of every caller.
            match Box::pin(self.attempt(needs, wants, lanes, act)).await {
                Ok(done) => return Ok(done),
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
    ) -> Try<Done<T>> {
        let conn = self.pool.lend().await?;
        let now = self.test_now().map(Timestamp::as_millis);
        conn.lanes.intern(&conn, lanes, now).await?;
        let tried = self.transact(&conn, needs, wants, act).await;
        match tried {
            Ok(done) => {
                conn.give_back();
                Ok(done)
            }
            Err(trouble) => {
                // If even this fails, the connection is closed.
                if conn.command("ROLLBACK").await.is_ok() {
                    conn.give_back();
                }
                Err(trouble)
            }
        }
    }

    async fn transact<T>(
        &self,
        conn: &Lent,
        needs: Needs,
        wants: &Wants,
        act: &mut Act<'_, T>,
    ) -> Try<Done<T>> {
        let begin = match needs {
            Needs::Durable => "BEGIN".to_owned(),
            Needs::Written => "BEGIN; SET LOCAL synchronous_commit = off".to_owned(),
            Needs::Keys { wait_ms } => format!("BEGIN; SET LOCAL lock_timeout = {wait_ms}"),
        };
        let loader = Loader { conn, clock: self.clock.as_ref() };
        let mut loaded = Loaded::default();
        // Together, in one round trip.
        let (begun, first) = join(conn.command(&begin), loader.load(wants, &mut loaded)).await;
        begun?;
        first?;
        let Ran { value, saves, readied } =
            rounds(&loader, self.context(), &mut loaded, wants.parts, act).await?;
        let lowest = saves.lowest;
        self.commit(conn, saves.batches).await?;
        Ok(Done {
            reply: Stamped { now: loaded.now, epoch: conn.epoch.clone(), value: value? },
            readied,
            lowest,
        })
    }

    /// The parameters of an executor.
    const fn context(&self) -> Context<'_> {
        Context { capabilities: &self.capabilities, random: &self.random }
    }

    /// Runs a verb inside the application's transaction, under a savepoint. Rolls back to it unless `keeps` accepts the
    /// result.
    pub(crate) async fn perform_in<T>(
        &self,
        conn: &Conn<'_>,
        wants: &Wants,
        act: &mut Act<'_, T>,
        keeps: impl Fn(&T) -> bool,
    ) -> Result<(Timestamp, Option<i64>, T)> {
        let mut again = unavailable("it was never tried");
        for _ in 0..TRIES_IN_MAX {
            conn.command("SAVEPOINT windlass").await.map_err(Trouble::into_error)?;
            match Box::pin(self.attempt_in(conn, wants, act)).await {
                Ok(done) => {
                    let end = match keeps(&done.2) {
                        true => "RELEASE SAVEPOINT windlass",
                        false => ROLL_BACK,
                    };
                    conn.command(end).await.map_err(Trouble::into_error)?;
                    return Ok(done);
                }
                Err(trouble) => {
                    conn.command(ROLL_BACK).await.map_err(Trouble::into_error)?;
                    match trouble {
                        Trouble::Retryable(error) => again = error,
                        Trouble::Fatal(error) => return Err(error),
                    }
                }
            }
        }
        Err(again)
    }

    async fn attempt_in<T>(
        &self,
        conn: &Conn<'_>,
        wants: &Wants,
        act: &mut Act<'_, T>,
    ) -> Try<(Timestamp, Option<i64>, T)> {
        let loader = Loader { conn, clock: self.clock.as_ref() };
        let mut loaded = Loaded::default();
        let was = conn.query(WAIT_LESS, &[&(self.lock_timeout_ms as i64)]).await?;
        if let Some(isolation) = was.first().map(|row| row.get::<_, &str>(1))
            && !["read committed", "read uncommitted"].contains(&isolation)
            && wants.has_keys()
        {
            // Its snapshot may be older than a rewrite of a table, and would see the table empty.
            let expected = "jobs with unique or ordering keys need READ COMMITTED";
            return Err(Error::invalid("transaction", isolation, expected).into());
        }
        let was: Option<String> = was.first().map(|row| row.get(0));
        loader.load(wants, &mut loaded).await?;
        let Ran { value, saves, .. } =
            rounds(&loader, self.context(), &mut loaded, wants.parts, act).await?;
        for batch in &saves.batches {
            self.write(conn, batch).await?;
        }
        conn.query(WAIT_AS_BEFORE, &[&was]).await?;
        Ok((loaded.now, saves.lowest, value?))
    }

    async fn commit(&self, conn: &Lent, batches: Vec<Batch>) -> Try<()> {
        let statements: Vec<&'static str> = batches.iter().map(|batch| batch.sql).collect();
        conn.prepare(&statements).await?;
        let writes = try_join_all(batches.iter().map(|batch| self.write(conn, batch)));
        let (written, committed) = join(writes, conn.command("COMMIT")).await;
        written?;
        committed
    }

    /// Writes rows.
    pub(crate) async fn write(&self, conn: &Conn<'_>, batch: &Batch) -> Try<u64> {
        let params: Vec<&(dyn ToSql + Sync)> =
            batch.params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect();
        conn.execute(batch.sql, &params).await
    }
}
