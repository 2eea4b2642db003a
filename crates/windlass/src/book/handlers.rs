//! A handler is an `async fn` that takes a job and returns its result.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use windlass::{Batched, Ctx, Job, Stop};
//!
//! #[derive(Job, Serialize, Deserialize)]
//! #[job(output = u32)]
//! struct Import {
//!     rows: u32,
//! }
//!
//! async fn import(job: Import, ctx: Ctx) -> Result<u32, Stop> {
//!     let first: u32 = ctx.checkpoint().await?.unwrap_or(0); // where an earlier attempt got to
//!     for row in first..job.rows {
//!         if row % 100 == 0 {
//!             ctx.save_checkpoint(&row).await?; // durable when it returns
//!         }
//!         ctx.set_progress(row.into(), Some(job.rows.into()), "importing");
//!     }
//!     ctx.follow_up_with(&Index { document: 1 })?; // created in one step with the completion
//!     Ok(job.rows - first)
//! }
//!
//! #[derive(Job, Serialize, Deserialize)]
//! #[job(output = usize)]
//! struct Index {
//!     document: u32,
//! }
//!
//! /// A batch handler: up to 100 jobs in one call, each with its own result.
//! async fn index(jobs: Vec<Batched<Index>>) -> Vec<Result<usize, Stop>> {
//!     let size = jobs.len();
//!     jobs.iter()
//!         .map(|job| match job.document {
//!             0 => Err(Stop::fatal("no such document")),
//!             _ => Ok(size),
//!         })
//!         .collect()
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> windlass::Result<()> {
//! let client = windlass::connect("memory:").await?;
//! let worker = client.worker().handle(import).handle_batch(index, 100).build()?.start();
//! assert_eq!(client.enqueue(Import { rows: 1_000 }).await?.wait().await?, 1_000);
//! assert_eq!(client.enqueue(Index { document: 7 }).await?.wait().await?, 1);
//! # worker.drain().await;
//! # Ok(())
//! # }
//! ```
//!
//! - The **first argument** is the payload: a type that derives `Job`, [`Json<T>`](crate::Json) or
//!   [`Raw`](crate::Raw).
//! - **Further arguments** are [`Ctx`](crate::Ctx), [`Data<T>`](crate::Data),
//!   [`Extension<T>`](crate::Extension), or your own types with
//!   [`FromContext`](crate::worker::FromContext).
//! - The **return value** is the job's result, up to 64 KiB of JSON. Any error is a
//!   [retry](super::retries).
//! - A function that computes or blocks is added with
//!   [`handle_blocking`](crate::worker::Builder::handle_blocking) and runs on a thread of its own.
//! - A [batch handler](crate::worker::BatchHandler) takes a `Vec` of jobs; its page says how timeouts,
//!   cancellation and crashes treat the jobs of a batch.
//! - [Middleware](crate::Middleware) runs around every handler.
//!
//! Delivery is at least once: if a process dies after the handler has finished but before the store has the
//! result, the handler runs again. Make handlers idempotent, save checkpoints, or complete the job in your own
//! [transaction](super::transactions).
