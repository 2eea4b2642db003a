//! Durable background jobs.
//!
//! Once an enqueue is acknowledged, the job either completes or is visibly dead. No job is lost silently and
//! no job runs forever.
//!
//! A job is a Rust type with a name; a handler is a function that takes it; a worker runs handlers:
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use std::time::Duration;
//! use windlass::{Ctx, Data, Job, State, Stop};
//!
//! #[derive(Job, Serialize, Deserialize)]
//! #[job(queue = "mail", output = u32, max_attempts = 3, timeout = "30s")]
//! struct SendEmail {
//!     to: String,
//! }
//!
//! #[derive(Clone)]
//! struct Mailer;
//!
//! impl Mailer {
//!     async fn send(&self, to: &str) -> std::io::Result<u32> {
//!         Ok(to.len() as u32)
//!     }
//! }
//!
//! /// An error is a retry; the value is the job's result.
//! async fn send_email(job: SendEmail, Data(mailer): Data<Mailer>, ctx: Ctx) -> Result<u32, Stop> {
//!     if !job.to.contains('@') {
//!         return Err(Stop::fatal("not an address")); // dead at once
//!     }
//!     tracing::info!(attempt = ctx.attempt(), "sending");
//!     Ok(mailer.send(&job.to).await?)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> windlass::Result<()> {
//! // `file:./jobs` is durable; `memory:` keeps nothing.
//! let client = windlass::connect("memory:").await?;
//! let worker = client.worker().handle(send_email).data(Mailer).concurrency(50).build()?.start();
//!
//! // The job is stored when this returns. Its handle waits for the result.
//! let job = client.enqueue(SendEmail { to: "ada@example.org".into() }).await?;
//! assert_eq!(job.wait().await?, 15);
//!
//! // One job can differ from the others of its kind, and can be read and changed.
//! let later = client
//!     .enqueue(SendEmail { to: "alan@example.org".into() })
//!     .delay(Duration::from_secs(3_600))
//!     .unique("welcome:alan")
//!     .await?;
//! later.cancel().await?;
//! assert_eq!(later.state().await?, State::Cancelled);
//!
//! // Lets running jobs finish, releases the rest, delivers every result.
//! worker.drain().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Concepts
//!
#![cfg_attr(
    all(feature = "memory", feature = "worker"),
    doc = "[`book`] explains each concept on a page of its own, with an example: [jobs](book::jobs), \
           [enqueueing](book::enqueueing), [workers](book::workers), [handlers](book::handlers), \
           [retries](book::retries), [schedules](book::schedules), [uniqueness](book::uniqueness), \
           [transactions](book::transactions), [flows](book::flows), [engines](book::engines) and [testing](book::testing)."
)]
//!
//! - [`connect`] and [`Client`]: enqueue, read, wait, change.
//! - [`Job`]: the derive macro and the trait behind it. [`JobHandle`]: one job. [`JobQuery`]: many.
#![cfg_attr(
    feature = "worker",
    doc = "- [`Client::worker`]: handlers, extractors, middleware, limits, shutdown ([`worker`])."
)]
#![cfg_attr(
    all(feature = "process", unix),
    doc = "- [`process`]: commands of any language as handlers."
)]
#![cfg_attr(
    feature = "services",
    doc = "- [`Client::schedule`]: recurring jobs, and the other [`services`] of a store."
)]
#![cfg_attr(
    feature = "memory",
    doc = "- [`testing`]: a queue for tests, without a server, with time travel and assertions."
)]
#![cfg_attr(
    feature = "postgres",
    doc = "- [`postgres`]: jobs that are enqueued and completed in your own transactions."
)]
//! - [`engine`], [`model`], [`policy`], [`limits`]: the underlying engine contract; [`Client::engine`] gives
//!   access to all of it.
//!
//! # Features
//!
//! | feature | adds | default |
//! |---|---|---|
//! | `local` | `file:DIR`: durable, in one directory | yes |
//! | `memory` | `memory:`, and `testing` | yes |
//! | `remote` | `http://…`: the store behind a server | yes |
//! | `worker` | `Client::worker`, with `services`; producers do not need it | yes |
//! | `services` | schedules, history and samples of a store; part of `worker` | yes |
//! | `postgres` | `postgres://…`, with TLS; jobs in transactions of `tokio-postgres` | no |
//! | `sqlx`, `diesel`, `diesel-async` | jobs in transactions of these crates | no |
//! | `process` | commands as handlers, on Unix | no |
//! | `otel` | OpenTelemetry traces that link the enqueueing span to the handler's span | no |
//! | `chrono` | conversions between [`Timestamp`] and `chrono::DateTime` | no |
//! | `jiff` | conversions between [`Timestamp`] and `jiff::Timestamp` | no |
//!
//! Without default features the crate contains the client and the contract, and no engine: a producer that
//! talks to a server needs `default-features = false, features = ["remote"]`.

pub mod backoff;
#[cfg(all(any(doc, doctest), feature = "memory", feature = "worker"))]
pub mod book;
mod client;
mod connect;
mod error;
mod json;
#[cfg(feature = "postgres")]
pub mod postgres;
mod postgres_url;
mod redis_url;
#[cfg(feature = "memory")]
pub mod testing;
mod unique_key;
mod url;

pub use client::{
    Client, EventItem, EventQuery, EventStream, Finished, HasOutput, IntoJob, JobBuilder,
    JobHandle, JobQuery, JobStream, Kind, Queue, Replay, Untyped, job, job_of,
};
/// Graphs of jobs: [`Client::flow`](crate::Client::flow), its nodes, and their inputs.
pub mod flow {
    pub use crate::client::flow::{
        After, Flow, Group, Inputs, Node, NodeBuilder, Receives, StoredFlow, Tree,
    };
}

pub use connect::{OpenOptions, connect, connect_with};
pub use error::{Error, Result};
pub use postgres_url::PostgresUrl;
pub use redis_url::RedisUrl;
pub use url::Url;

#[doc = include_str!("job.md")]
pub use windlass_macros::Job;

/// Building blocks of handlers and workers. [`Ctx`], [`Data`], [`Stop`] and others are also exported at the top
/// level.
#[cfg(feature = "worker")]
pub mod worker {
    pub use windlass_worker::*;
}

/// Commands as handlers.
#[cfg(all(feature = "process", unix))]
pub mod process {
    pub use windlass_worker::process::*;
}

/// The services that maintain a store, hosted by its workers.
#[cfg(feature = "services")]
pub mod services {
    pub use windlass_services::*;
}

#[cfg(feature = "worker")]
pub use windlass_worker::{
    Batched, Ctx, Data, Extension, Health, Json, Middleware, Next, Raw, Stop, Worker, WorkerHandle,
};

pub use windlass_core::TypedJob as Job;
pub use windlass_core::engine::{Changed, Disposition, Enqueued};
pub use windlass_core::model::{Job as StoredJob, NewJob, Signal, SignalWait, State, Wake};
pub use windlass_core::policy::{Backoff, OnConflict, Retention, Unique, UniqueScope, Until};
pub use windlass_core::{JobId, Timestamp, engine, limits, model, policy};

#[doc(hidden)]
pub mod __private;

/// The guides and the README, so that their code blocks run as doctests.
#[cfg(all(doctest, feature = "local", feature = "memory", feature = "worker"))]
mod guides {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guides/rust.md")]
    struct Rust;
    #[cfg(feature = "postgres")]
    #[doc = include_str!("../../../docs/guides/comparison.md")]
    struct Comparison;
    #[doc = include_str!("../../../docs/guides/testing.md")]
    struct Testing;
    #[doc = include_str!("../../../docs/guides/schedules.md")]
    struct Schedules;
    #[doc = include_str!("../../../docs/guides/limits.md")]
    struct Limits;
    #[doc = include_str!("../../../docs/guides/web-application.md")]
    struct WebApplication;
    #[doc = include_str!("../../../docs/guides/idempotent-handlers.md")]
    struct IdempotentHandlers;
    #[doc = include_str!("../../../docs/guides/services.md")]
    struct Services;
    #[cfg(all(feature = "process", unix))]
    #[doc = include_str!("../../../docs/guides/processes.md")]
    struct Processes;
}
