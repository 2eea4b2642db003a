//! Durable background jobs.
//!
//! Once an enqueue is acknowledged, the job completes or is visibly dead. Nothing is lost silently,
//! nothing runs forever, nothing lies.
//!
//! A job is a Rust type with a name. Say what it is, connect to a store, and hand jobs over:
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use std::time::Duration;
//! use windlass::Job;
//!
//! #[derive(Job, Serialize, Deserialize)]
//! #[job(queue = "mail", max_attempts = 3, timeout = "30s")]
//! struct SendEmail {
//!     to: String,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> windlass::Result<()> {
//! // `file:./jobs` is durable; `memory:` keeps nothing.
//! let client = windlass::connect("memory:").await?;
//!
//! // Acknowledged means stored: the job is safe now.
//! client.enqueue(&SendEmail { to: "ada@example.org".into() }).await?;
//!
//! // One job can differ from the others of its kind.
//! let later = client
//!     .job(SendEmail { to: "alan@example.org".into() })
//!     .delay(Duration::from_secs(3_600))
//!     .unique("welcome:alan")
//!     .await?;
//!
//! // And it can be looked at, changed and waited for.
//! client.cancel(later.id).await?;
//! let finished = client.wait_for(later.id, Duration::from_secs(5)).await?;
//! assert_eq!(finished.state(), windlass::State::Cancelled);
//! # Ok(())
//! # }
//! ```
//!
//! - [`connect`] and [`Client`]: enqueue, look, wait, change. Concurrent single enqueues travel
//!   together to the store by themselves.
//! - [`Job`]: the derive macro and the trait behind it.
//! - [`testing`]: a queue for tests, without a server, with time travel and assertions.
//! - [`engine`], [`model`], [`policy`], [`limits`]: the contract underneath, for whoever needs all of it;
//!   [`Client::engine`] leads there.

pub mod backoff;
mod client;
mod connect;
mod error;
mod json;
mod millis;
#[cfg(feature = "memory")]
pub mod testing;
mod url;

pub use client::{Client, Finished, IntoJob, JobBuilder, Kind, Queue, Replay};
pub use connect::connect;
pub use error::{Error, Result};
pub use url::Url;

#[doc = include_str!("job.md")]
pub use windlass_macros::Job;

pub use windlass_core::TypedJob as Job;
pub use windlass_core::engine::{Changed, Disposition, Enqueued};
pub use windlass_core::model::{Job as StoredJob, NewJob, State};
pub use windlass_core::policy::{Backoff, OnConflict, Retention, Unique, UniqueScope, Until};
pub use windlass_core::{JobId, Timestamp, engine, limits, model, policy};

#[doc(hidden)]
pub mod __private;
