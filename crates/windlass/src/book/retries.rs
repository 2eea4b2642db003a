//! A failed attempt is repeated after a backoff while attempts are left. After that, the job is dead: kept,
//! visible, and ready for a replay.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use windlass::{Job, State, Stop};
//!
//! #[derive(Job, Serialize, Deserialize)]
//! #[job(max_attempts = 3, backoff = "fixed(10ms)")]
//! struct Deliver {
//!     to: String,
//! }
//!
//! async fn deliver(job: Deliver) -> Result<(), Stop> {
//!     match job.to.as_str() {
//!         "" => Err(Stop::fatal("no address").code("no_address")), // dead at once
//!         "busy" => Err(Stop::retry("451 try later").code("smtp_451")), // as any error with `?`
//!         _ => Ok(()),
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> windlass::Result<()> {
//! let client = windlass::connect("memory:").await?;
//! let worker = client.worker().handle(deliver).build()?.start();
//! let busy = client.enqueue(Deliver { to: "busy".into() }).await?;
//! let ended = busy.ended().await?;
//! assert_eq!((ended.state(), ended.job.header.counters.failures), (State::Dead, 3));
//!
//! // Dead jobs are kept for 30 days: look at them, edit them, run them again.
//! let dead = client.jobs().in_state(State::Dead).of::<Deliver>().page().await?;
//! assert_eq!(dead.rows[0].error.as_ref().map(|error| error.code.as_str()), Some("smtp_451"));
//! client.replay(busy.id()).payload(&Deliver { to: "ada".into() }).await?;
//! busy.wait().await?;
//! # worker.drain().await;
//! # Ok(())
//! # }
//! ```
//!
//! | a handler | the job |
//! |---|---|
//! | returns `Ok` | is completed |
//! | returns an error or [`Stop::retry`](crate::Stop::retry), panics, or exceeds its timeout | has failed, and is retried or dead |
//! | returns [`Stop::fatal`](crate::Stop::fatal) | is dead at once |
//! | returns [`Stop::snooze`](crate::Stop::snooze) | runs again later; no failure is counted |
//! | returns [`Stop::cancel`](crate::Stop::cancel) | is cancelled |
//! | returns [`Stop::wait`](crate::Stop::wait) | waits without a slot until it is signalled |
//! | returns [`Stop::release`](crate::Stop::release) | may be started at once by any worker |
//! | dies with its process | runs again elsewhere, with one crash counted; beyond `max_crashes` it is dead |
//!
//! [`backoff`](crate::backoff) has the constructors of delays; `backoff = "exponential(30s, 1h)"` is the default.
