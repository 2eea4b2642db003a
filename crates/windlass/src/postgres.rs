//! Jobs in your own transactions on PostgreSQL.
//!
//! [`Jobs`] enqueues jobs, and ends the job of a handler, inside a transaction of your own on the same database. What it
//! does is there if the transaction commits, and never was if it does not. It works with `tokio_postgres`, and with the
//! features `sqlx`, `diesel` and `diesel-async` with transactions of those crates.
//!
//! ```no_run
//! use serde::{Deserialize, Serialize};
//! use windlass::Job;
//! use windlass::postgres::Jobs;
//!
//! #[derive(Job, Serialize, Deserialize)]
//! struct SendInvoice {
//!     order: i64,
//! }
//!
//! async fn order(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
//!     let jobs = Jobs::in_schema("windlass")?;
//!     let mut transaction = client.transaction().await?;
//!     transaction.execute("INSERT INTO orders (id) VALUES (42)", &[]).await?;
//!     jobs.enqueue(&mut transaction, SendInvoice { order: 42 }).await?;
//!     transaction.commit().await?; // the order and the job, or neither
//!     Ok(())
//! }
//! ```
#![cfg_attr(
    feature = "worker",
    doc = "
A handler completes its job together with its writes, exactly once:

```no_run
# use serde::{Deserialize, Serialize};
# use windlass::{Ctx, Job, Stop};
# use windlass::postgres::Jobs;
# #[derive(Job, Serialize, Deserialize)]
# struct SendInvoice { order: i64 }
# async fn connect() -> Result<tokio_postgres::Client, tokio_postgres::Error> {
#     let (client, connection) =
#         tokio_postgres::connect(\"host=localhost\", tokio_postgres::NoTls).await?;
#     tokio::spawn(connection);
#     Ok(client)
# }
async fn send_invoice(job: SendInvoice, ctx: Ctx) -> Result<(), Stop> {
    let (jobs, mut client) = (Jobs::in_schema(\"windlass\")?, connect().await?);
    let mut transaction = client.transaction().await?;
    transaction.execute(\"UPDATE orders SET invoiced = true WHERE id = $1\", &[&job.order]).await?;
    jobs.complete(&mut transaction, &ctx, &()).await?;
    transaction.commit().await?; // the worker's own report finds the job completed
    Ok(())
}
```
"
)]

use crate::client::IntoJob;
use crate::error::Result;
#[cfg(feature = "worker")]
use crate::json;
#[cfg(feature = "worker")]
use serde::Serialize;
use windlass_core::engine::{Enqueue, Enqueued, Item};
#[cfg(feature = "worker")]
use windlass_core::engine::{SettleItem, Settled};
use windlass_core::model::NewJob;
pub use windlass_postgres::{OpenTransaction, Options, PostgresEngine, SqlEnqueue, Transactional};
#[cfg(feature = "worker")]
use windlass_worker::Ctx;

/// Jobs of one schema, in transactions of the application.
#[derive(Clone, Debug)]
pub struct Jobs {
    inner: Transactional,
}

impl Jobs {
    /// The jobs of this schema; a URL without `schema=` means `windlass`.
    pub fn in_schema(schema: &str) -> Result<Self> {
        Ok(Self { inner: Transactional::new(schema)? })
    }

    /// Access to everything else: batches, every outcome, timeouts.
    pub const fn transactional(&self) -> &Transactional {
        &self.inner
    }

    /// Enqueues a job in this transaction, with all options of its builder.
    ///
    /// After an error nothing was stored, and the transaction can continue.
    pub async fn enqueue<T: OpenTransaction>(
        &self,
        on: &mut T,
        job: impl IntoJob + Send,
    ) -> Result<Enqueued> {
        let request = Enqueue::each([job.into_new_job()?]);
        one(self.inner.enqueue(on, request).await?)
    }

    /// Enqueues a job described in the terms of the engine contract.
    pub async fn enqueue_new<T: OpenTransaction>(
        &self,
        on: &mut T,
        job: NewJob,
    ) -> Result<Enqueued> {
        one(self.inner.enqueue(on, Enqueue::each([job])).await?)
    }

    /// Completes the job of a handler in this transaction, with its result, its changes and its follow-ups.
    ///
    /// It fails if the job runs elsewhere by now, or was completed by an earlier transaction: the writes of this one
    /// must not be kept, so roll it back. Return from the handler after the commit.
    #[cfg(feature = "worker")]
    pub async fn complete<T: OpenTransaction, R: Serialize + Sync + ?Sized>(
        &self,
        on: &mut T,
        ctx: &Ctx,
        result: &R,
    ) -> Result<()> {
        fresh(self.inner.settle(on, report(ctx, result)?).await?)
    }
}

/// With the synchronous `diesel`. These calls block the thread, so use them in blocking handlers and outside of async
/// code.
#[cfg(feature = "diesel")]
impl Jobs {
    /// Enqueues a job in the transaction of this connection, with all options of its builder.
    pub fn enqueue_diesel<C>(&self, on: &mut C, job: impl IntoJob) -> Result<Enqueued>
    where
        C: diesel::connection::LoadConnection<Backend = diesel::pg::Pg> + Send,
    {
        one(self.inner.enqueue_diesel(on, Enqueue::each([job.into_new_job()?]))?)
    }

    /// Completes the job of a handler in the transaction of this connection; see [`complete`](Self::complete).
    #[cfg(feature = "worker")]
    pub fn complete_diesel<C, R: Serialize + ?Sized>(
        &self,
        on: &mut C,
        ctx: &Ctx,
        result: &R,
    ) -> Result<()>
    where
        C: diesel::connection::LoadConnection<Backend = diesel::pg::Pg> + Send,
    {
        fresh(self.inner.settle_diesel(on, report(ctx, result)?)?)
    }
}

/// The answer to a request for one job.
fn one(mut answers: Vec<Item<Enqueued>>) -> Result<Enqueued> {
    Ok(answers.pop().unwrap_or_else(|| {
        let reason = "an enqueue without an answer".to_owned();
        Err(windlass_core::Error::Unavailable { store: "postgres".into(), reason })
    })?)
}

/// The report of a completion; a result of `()` is none.
#[cfg(feature = "worker")]
fn report<R: Serialize + ?Sized>(ctx: &Ctx, result: &R) -> Result<SettleItem> {
    let part = json::write(format_args!("job {}", ctx.id()), "result", result)?;
    Ok(ctx.completion((&*part.bytes != b"null").then_some(part)))
}

/// Refuses a completion that another transaction has made.
#[cfg(feature = "worker")]
fn fresh(settled: Settled) -> Result<()> {
    match settled.already {
        false => Ok(()),
        true => Err(windlass_core::Error::LeaseLost { id: settled.id }.into()),
    }
}
