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
//! use windlass::worker::State;
//! use windlass::{Ctx, Job, Stop};
//!
//! #[derive(Job, Serialize, Deserialize)]
//! #[job(queue = "mail", max_attempts = 3, timeout = "30s")]
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
//! /// An error is a retry; what it returns is kept as the job's result.
//! async fn send_email(job: SendEmail, State(mailer): State<Mailer>, ctx: Ctx) -> Result<u32, Stop> {
//!     if !job.to.contains('@') {
//!         return Err(Stop::fatal("not an address")); // dead at once; an operator decides
//!     }
//!     tracing::info!(attempt = ctx.attempt(), "sending");
//!     Ok(mailer.send(&job.to).await?)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> windlass::Result<()> {
//! // `file:./jobs` is durable; `memory:` keeps nothing.
//! let client = windlass::connect("memory:").await?;
//! let worker =
//!     client.worker().queue("mail").state(Mailer).handle(send_email).concurrency(50).build()?.start();
//!
//! // Acknowledged means stored: the job is safe now.
//! let job = client.enqueue(&SendEmail { to: "ada@example.org".into() }).await?;
//! let sent: u32 = client.wait_for(job.id, Duration::from_secs(5)).await?.result()?;
//! assert_eq!(sent, 15);
//!
//! // One job can differ from the others of its kind, and be read and changed.
//! let later = client
//!     .job(SendEmail { to: "alan@example.org".into() })
//!     .delay(Duration::from_secs(3_600))
//!     .unique("welcome:alan")
//!     .await?;
//! client.cancel(later.id).await?;
//! assert_eq!(client.wait(later.id).await?.state(), windlass::State::Cancelled);
//!
//! // Lets what runs finish, gives back the rest, delivers every result.
//! worker.drain().await;
//! # Ok(())
//! # }
//! ```
//!
//! - [`connect`] and [`Client`]: enqueue, read, wait, change. Concurrent single enqueues are merged into
//!   batches automatically.
//! - [`Job`]: the derive macro and the trait behind it.
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
//! - [`engine`], [`model`], [`policy`], [`limits`]: the underlying engine contract; [`Client::engine`] gives
//!   access to all of it.
//!
//! # Features
//!
//! | feature | adds | default |
//! |---|---|---|
//! | `memory` | `memory:` and `testing` | yes |
//! | `local` | `file:DIR`, durable in one directory | yes |
//! | `worker` | `Client::worker`; not needed by producers | yes |
//! | `process` | commands as handlers, on Unix | no |
//! | `otel` | OpenTelemetry traces that link the enqueueing span to the handler's span | no |
//! | `services` | schedules, history and samples of a store; part of `worker` | yes |

pub mod backoff;
mod client;
mod connect;
mod error;
mod json;
mod millis;
mod postgres_url;
#[cfg(feature = "memory")]
pub mod testing;
mod url;

pub use client::{Client, Finished, IntoJob, JobBuilder, Kind, Queue, Replay};
pub use connect::connect;
pub use error::{Error, Result};
pub use postgres_url::PostgresUrl;
pub use url::Url;

#[doc = include_str!("job.md")]
pub use windlass_macros::Job;

/// Building blocks of handlers and workers. [`Ctx`], [`Stop`] and others are also exported at the top level;
/// the extractor [`State`](worker::State) is not, because it would collide with the [`State`] of a job.
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
    Ctx, Extension, Health, Json, Middleware, Next, Raw, Stop, Worker, WorkerHandle,
};

pub use windlass_core::TypedJob as Job;
pub use windlass_core::engine::{Changed, Disposition, Enqueued};
pub use windlass_core::model::{Job as StoredJob, NewJob, State};
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
    #[doc = include_str!("../../../docs/guides/testing.md")]
    struct Testing;
    #[doc = include_str!("../../../docs/guides/schedules.md")]
    struct Schedules;
    #[doc = include_str!("../../../docs/guides/services.md")]
    struct Services;
    #[cfg(all(feature = "process", unix))]
    #[doc = include_str!("../../../docs/guides/processes.md")]
    struct Processes;
}
