//! Jobs in the application's own transactions, by any supported driver and without an engine: enqueue, and the end of
//! a job together with the writes of its handler.

#[cfg(any(feature = "diesel", feature = "diesel-async"))]
mod diesel;
#[cfg(feature = "sqlx")]
mod sqlx;

use crate::api::schema::Schema;
use crate::conn::error::Trouble;
use crate::conn::options::{LOCK_TIMEOUT_DEFAULT_MS, LOCK_TIMEOUT_MS};
use crate::conn::payloads::payload_bytes_max;
use crate::conn::{Conn, Open};
use crate::engine::{capabilities, lanes_of};
use crate::slow::joined::Joined;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use windlass_core::engine::{
    Capabilities, Enqueue, Enqueued, Item, Lease, Outcome, SettleItem, Settled,
};
use windlass_core::id::Ids;
use windlass_core::model::{NewJob, Part};
use windlass_core::random::{Random, SystemRandom};
use windlass_core::sync::lock;
use windlass_core::time::millis;
use windlass_core::{JobId, Result, Timestamp, within_time};
use windlass_executor::LaneKey;
use windlass_workset::Context;

/// An open transaction of the application.
///
/// Implemented for `tokio_postgres::Transaction`, for `sqlx::Transaction` and `sqlx::PgConnection` (feature `sqlx`),
/// and for `diesel_async::AsyncPgConnection` (feature `diesel-async`). With the synchronous `diesel`, use
/// [`Transactional::enqueue_diesel`] and [`Transactional::settle_diesel`].
pub trait OpenTransaction: sealed::Sealed {}

mod sealed {
    /// Restricts the trait to drivers of this crate.
    pub trait Sealed: Send {
        fn link(&mut self) -> Link<'_>;
    }

    /// A connection with an open transaction.
    #[derive(Debug)]
    pub struct Link<'t>(pub(crate) crate::conn::Open<'t>);
}

impl OpenTransaction for tokio_postgres::Transaction<'_> {}
impl sealed::Sealed for tokio_postgres::Transaction<'_> {
    fn link(&mut self) -> sealed::Link<'_> {
        sealed::Link(Open::Native(self))
    }
}

/// Enqueues jobs and ends attempts inside the application's own transactions: what it does is there if the transaction
/// commits, and never was if it does not.
///
/// It runs the same code as the engine, on the application's connection and under a savepoint, so every option of a
/// job works. It needs no engine and no connection of its own; the role needs the privileges of a worker. After an
/// error nothing was changed, and the transaction can continue.
///
/// ```no_run
/// # async fn order(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use windlass_core::engine::Enqueue;
/// use windlass_core::model::NewJob;
/// use windlass_postgres::Transactional;
///
/// let jobs = Transactional::new("windlass")?;
/// let mut transaction = client.transaction().await?;
/// transaction.execute("INSERT INTO orders (id) VALUES (42)", &[]).await?;
/// let job = NewJob::new("send_invoice").json(r#"{"order":42}"#).key("customer:7");
/// jobs.enqueue(&mut transaction, Enqueue::each([job])).await?;
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Transactional {
    schema: Schema,
    capabilities: Capabilities,
    random: Arc<dyn Random>,
    ids: Arc<Mutex<Ids>>,
    lock_timeout_ms: u64,
}

impl std::fmt::Debug for Transactional {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Transactional({:?})", self.schema.name())
    }
}

impl Transactional {
    /// Jobs of this schema.
    pub fn new(schema: &str) -> Result<Self> {
        Ok(Self {
            schema: Schema::new(schema)?,
            capabilities: capabilities(),
            random: Arc::new(SystemRandom),
            ids: Arc::default(),
            lock_timeout_ms: LOCK_TIMEOUT_DEFAULT_MS,
        })
    }

    /// Sets how long a call waits for a key or a job that another transaction holds, from 1 ms to ten minutes; 2
    /// seconds by default. Then it fails with [`busy`](windlass_core::Error::Busy).
    pub fn lock_timeout(mut self, time: Duration) -> Result<Self> {
        within_time("lock_timeout", time, LOCK_TIMEOUT_MS)?;
        self.lock_timeout_ms = millis(time);
        Ok(self)
    }

    /// Stores jobs, like the engine's `enqueue`: every job has its own result.
    ///
    /// Another enqueue of the same unique or ordering key waits for this transaction. Jobs with such keys need READ
    /// COMMITTED.
    pub async fn enqueue<T: OpenTransaction>(
        &self,
        on: &mut T,
        request: Enqueue,
    ) -> Result<Vec<Item<Enqueued>>> {
        Box::pin(self.enqueue_on(on.link().0, request)).await
    }

    /// Ends an attempt with any outcome, like the engine's `settle`. Needs READ COMMITTED.
    ///
    /// `settled.already` reports that the attempt was settled in this way before, for example by a transaction whose
    /// commit was not answered: its writes are there, so roll back.
    pub async fn settle<T: OpenTransaction>(
        &self,
        on: &mut T,
        item: SettleItem,
    ) -> Result<Settled> {
        Box::pin(self.settle_on(on.link().0, item)).await
    }

    /// Completes a job exactly once with the writes of the transaction.
    ///
    /// If the job runs elsewhere by now, or the attempt ended otherwise, this fails with
    /// [`lease_lost`](windlass_core::Error::LeaseLost): roll back. If `settled.already`, an earlier transaction has
    /// completed it: roll back, too. After the commit, the worker's own report is answered with `already`; after a
    /// rollback the job is not settled.
    pub async fn complete<T: OpenTransaction>(
        &self,
        on: &mut T,
        id: JobId,
        lease: &Lease,
        result: Option<Part>,
    ) -> Result<Settled> {
        Box::pin(self.settle_on(on.link().0, completion(id, lease, result))).await
    }

    async fn enqueue_on(&self, open: Open<'_>, request: Enqueue) -> Result<Vec<Item<Enqueued>>> {
        request.check()?;
        let (conn, lanes) = (Conn::joined(open, &self.schema), lanes_of(request.jobs.iter()));
        let capabilities = self.capabilities_for(&conn, &request.jobs).await?;
        let joined = self.joined(&conn, lanes, &capabilities);
        let give_ids = |jobs: &mut [NewJob], now| self.give_ids(jobs, now);
        joined.enqueue(request, &give_ids).await.map(|(_, answers)| answers)
    }

    async fn settle_on(&self, open: Open<'_>, item: SettleItem) -> Result<Settled> {
        let (conn, lanes) = (Conn::joined(open, &self.schema), lanes_of(item.follow_ups.iter()));
        let capabilities = self.capabilities_for(&conn, &item.follow_ups).await?;
        self.joined(&conn, lanes, &capabilities).settle(item).await
    }

    /// The capabilities of the store. Its payload limit is read only if a job exceeds the default.
    async fn capabilities_for(&self, conn: &Conn<'_>, jobs: &[NewJob]) -> Result<Capabilities> {
        let size = |job: &NewJob| job.parts.payload.as_ref().map_or(0, |part| part.bytes.len());
        if jobs.iter().all(|job| size(job) <= self.capabilities.payload_bytes_max) {
            return Ok(self.capabilities.clone());
        }
        match payload_bytes_max(conn, None).await.map_err(Trouble::into_error)? {
            Some(bytes_max) => self.capabilities.clone().limit_payloads(bytes_max),
            None => Ok(self.capabilities.clone()),
        }
    }

    /// A transaction in which jobs of these lanes may be stored.
    fn joined<'a, 'c>(
        &'a self,
        conn: &'a Conn<'c>,
        lanes: Vec<LaneKey>,
        capabilities: &'a Capabilities,
    ) -> Joined<'a, 'c> {
        Joined {
            conn,
            context: Context { capabilities, random: &self.random },
            clock: None,
            lock_timeout_ms: self.lock_timeout_ms,
            lanes,
            moved: None,
        }
    }

    fn give_ids(&self, jobs: &mut [NewJob], now: Timestamp) -> Vec<JobId> {
        let mut ids = lock(&self.ids);
        give_ids(&mut ids, &*self.random, jobs, now)
    }
}

/// Gives ids to jobs without one; returns the new ids.
pub(crate) fn give_ids(
    ids: &mut Ids,
    random: &dyn Random,
    jobs: &mut [NewJob],
    now: Timestamp,
) -> Vec<JobId> {
    let without = jobs.iter_mut().filter(|job| job.id.is_none() && !job.derived);
    without.map(|job| *job.id.insert(ids.next(now, random))).collect()
}

/// The report of a completion.
fn completion(id: JobId, lease: &Lease, result: Option<Part>) -> SettleItem {
    SettleItem::new(id, lease.clone(), Outcome::Complete { result })
}
