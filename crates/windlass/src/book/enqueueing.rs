//! Enqueueing stores jobs. When it returns, they are as durable as the [engine](super::engines) promises.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use std::time::Duration;
//! use windlass::{Job, State, job, job_of};
//!
//! #[derive(Job, Serialize, Deserialize)]
//! struct SendEmail {
//!     to: String,
//! }
//!
//! fn email(to: &str) -> SendEmail {
//!     SendEmail { to: to.into() }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> windlass::Result<()> {
//! let client = windlass::connect("memory:").await?;
//!
//! // One job. The handle refers to it.
//! let now = client.enqueue(email("ada@example.org")).await?;
//! assert_eq!(now.state().await?, State::Available);
//!
//! // One with options that differ from those of its type.
//! let later = client.enqueue(email("alan@example.org")).delay(Duration::from_secs(3_600)).await?;
//! later.cancel().await?;
//!
//! // Many, each with its own result; or all or nothing.
//! let bulk = ["a", "b"].map(|to| job(email(to)).tag("newsletter"));
//! for answer in client.enqueue_all(bulk).await {
//!     answer?;
//! }
//! client.enqueue_atomic(["c", "d"].map(email)).await?;
//!
//! // A kind that this program has no type for.
//! client.enqueue(job_of("resize").payload(&serde_json::json!({ "width": 640 }))).await?;
//!
//! // Queries: a page, or a stream that fetches pages as they are needed.
//! let page = client.jobs().of::<SendEmail>().with_tag("newsletter").page().await?;
//! assert_eq!(page.rows.len(), 2);
//! let mut cancelled = client.jobs().in_state(State::Cancelled).stream();
//! while let Some(job) = cancelled.next().await {
//!     assert_eq!(job?.header.id, later.id());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - [`Client::enqueue`](crate::Client::enqueue) returns a builder; awaiting it returns a
//!   [`JobHandle`](crate::JobHandle) with the id, the state, the result and `cancel`.
//! - [`JobHandle::wait`](crate::JobHandle::wait) returns the result as the output type of the job.
//!   [`Client::job`](crate::Client::job) makes a handle from an id.
//! - Concurrent enqueues of one client are merged into batches automatically.
//! - If a call is interrupted, its outcome is unknown, as with any store. Create the id first
//!   ([`Client::new_id`](crate::Client::new_id)) and enqueue again with the same id: it is stored once.
