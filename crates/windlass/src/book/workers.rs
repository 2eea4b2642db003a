//! A worker claims jobs, runs their handlers and reports the outcomes.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use std::time::Duration;
//! use windlass::{Data, Job, Stop};
//!
//! #[derive(Job, Serialize, Deserialize)]
//! #[job(queue = "mail", output = String)]
//! struct SendEmail {
//!     to: String,
//! }
//!
//! #[derive(Clone)]
//! struct From(&'static str);
//!
//! async fn send_email(job: SendEmail, Data(from): Data<From>) -> Result<String, Stop> {
//!     Ok(format!("from {} to {}", from.0, job.to))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> windlass::Result<()> {
//! let client = windlass::connect("memory:").await?;
//! let worker = client
//!     .worker()
//!     .handle(send_email) // also serves the queue of its job type: mail
//!     .data(From("us@example.org")) // what handlers take as `Data<From>`
//!     .concurrency(50) // jobs at a time
//!     .kind_limit("send_email", 10) // of these at most ten
//!     .timeout(Duration::from_secs(60)) // unless the job or its kind has one
//!     .build()?
//!     .start();
//!
//! let sent = client.enqueue(SendEmail { to: "ada".into() }).await?.wait().await?;
//! assert_eq!(sent, "from us@example.org to ada");
//! assert!(worker.health().healthy);
//! worker.drain().await; // finishes what runs, releases the rest, delivers every result
//! # Ok(())
//! # }
//! ```
//!
//! - **Queues.** A worker serves the queues of its handlers' job types, with equal weights, and `default` for
//!   handlers that were added by kind. [`queue`](crate::worker::Builder::queue) names queues in strict order and
//!   [`weighted`](crate::worker::Builder::weighted) by weight instead; then a handler whose queue is not among
//!   them is refused by [`build`](crate::worker::Builder::build), because it could never run.
//! - **Kinds.** A worker claims only kinds that it has a handler for, and only as many jobs as it has free slots.
//! - **Leases.** Heartbeats extend the leases of running jobs. When a process dies, its jobs run elsewhere after
//!   30 seconds.
//! - **Outages.** While the store does not answer, handlers continue and results are buffered.
//! - **Shutdown.** [`run_until_signal`](crate::Worker::run_until_signal) drains on SIGTERM and ctrl-c.
//! - **Services.** Every worker also hosts the [services](crate::services) that maintain the store; one process at
//!   a time leads them.
