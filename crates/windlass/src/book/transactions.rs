//! On PostgreSQL, jobs can be enqueued and completed in your own transaction: they exist, or have ended, if it
//! commits, and never did if it rolls back. See the module `postgres` of this crate (feature `postgres`).
//!
//! The guide `docs/guides/postgres.md` shows this for tokio-postgres, sqlx, diesel, diesel-async and plain SQL.
//! On every engine, two things are atomic without a transaction of yours:
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use windlass::testing::TestQueue;
//! use windlass::{Ctx, Job, Stop};
//!
//! #[derive(Job, Serialize, Deserialize)]
//! struct Order {
//!     number: u32,
//! }
//!
//! #[derive(Job, Serialize, Deserialize)]
//! struct Invoice {
//!     order: u32,
//! }
//!
//! async fn order(job: Order, ctx: Ctx) -> Result<(), Stop> {
//!     // Stored in one step with the completion of the order: both or neither.
//!     Ok(ctx.follow_up_with(&Invoice { order: job.number })?)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> windlass::Result<()> {
//! let queue = TestQueue::new();
//! let client = queue.client();
//! // All of these jobs or none of them.
//! client.enqueue_atomic([1, 2].map(|number| Order { number })).await?;
//! queue.drain(client.worker().handle(order)).await;
//! queue.assert_count::<Invoice>(2);
//! # Ok(())
//! # }
//! ```
