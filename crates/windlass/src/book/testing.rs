//! A [`TestQueue`](crate::testing::TestQueue) is an in-memory store whose clock moves only when you move it.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use std::time::Duration;
//! use windlass::testing::TestQueue;
//! use windlass::{Client, Job, Stop};
//!
//! #[derive(Job, Serialize, Deserialize)]
//! #[job(output = String)]
//! struct Remind {
//!     who: String,
//! }
//!
//! /// The code under test: this enqueues …
//! async fn sign_up(jobs: &Client, who: &str) -> windlass::Result<()> {
//!     jobs.enqueue(Remind { who: who.into() }).delay(Duration::from_secs(86_400)).await?;
//!     Ok(())
//! }
//!
//! /// … and this handles.
//! async fn remind(job: Remind) -> Result<String, Stop> {
//!     Ok(format!("{} was reminded", job.who))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> windlass::Result<()> {
//! let queue = TestQueue::new();
//! let client = queue.client();
//! sign_up(&client, "ada").await?;
//! let reminder = queue.assert_enqueued::<Remind>(|job| job.who == "ada").header.id;
//!
//! queue.advance(Duration::from_secs(86_400)); // tomorrow
//! queue.drain(client.worker().handle(remind)).await.assert_all_completed();
//! assert_eq!(client.job::<Remind>(reminder).wait().await?, "ada was reminded");
//! # Ok(())
//! # }
//! ```
//!
//! `drain` runs the worker that your program builds, one job at a time, until nothing is ready. Ids and jitter
//! are deterministic: a failing test fails again. See the [`testing`](crate::testing) module and
//! `docs/guides/testing.md`.
