//! A queue for tests: no server, no files, controlled time, handlers that run immediately, and assertions on
//! enqueued jobs.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use std::time::Duration;
//! use windlass::testing::TestQueue;
//! use windlass::{Client, Job, State};
//!
//! #[derive(Job, Serialize, Deserialize)]
//! struct Remind {
//!     who: String,
//! }
//!
//! /// What is to be tested.
//! async fn sign_up(jobs: &Client, who: &str) -> windlass::Result<()> {
//!     jobs.enqueue(Remind { who: who.into() }).delay(Duration::from_secs(86_400)).await?;
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let queue = TestQueue::new();
//! sign_up(&queue.client(), "ada").await.unwrap();
//!
//! let reminder = queue.assert_enqueued::<Remind>(|job| job.who == "ada");
//! assert_eq!(reminder.state, State::Scheduled);
//! queue.advance(Duration::from_secs(86_400));
//! assert_eq!(queue.job(reminder.header.id).state, State::Available);
//! # }
//! ```

mod assertions;
#[cfg(feature = "worker")]
mod drain;
mod travel;

#[cfg(feature = "worker")]
pub use drain::{Attempted, DRAIN_ATTEMPTS_MAX, Drained};

use crate::client::Client;
use futures_util::FutureExt as _;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::engine::{Answer, Stamped};
use windlass_core::random::Seeded;
use windlass_core::time::{Clock as _, ManualClock};
use windlass_core::{Result, Timestamp};
use windlass_memory::MemoryEngine;

/// The start time of every test queue: in January 2027, so that it differs from the real time.
pub const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// An in-memory store with a clock that moves only when it is advanced. Cheap to clone; clones share the
/// store.
///
/// It behaves like every other store: the memory engine is the reference that the others are compared with.
/// The methods below see all jobs in the store, regardless of which client enqueued them.
#[derive(Clone)]
pub struct TestQueue {
    engine: MemoryEngine,
    clock: Arc<ManualClock>,
    client: Client,
}

impl Default for TestQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl TestQueue {
    /// An empty store at [`START`].
    pub fn new() -> Self {
        let clock = Arc::new(ManualClock::at(START));
        // A fixed seed makes jitter and ids the same in every run, so that a failing test fails again.
        let engine = MemoryEngine::with(clock.clone(), Arc::new(Seeded::new(1)));
        let client = Client::on_clock(Arc::new(engine.clone()), clock.clone());
        Self { engine, clock, client }
    }

    /// A client of this store, for the code under test.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The current time of the store.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Advances the clock; everything that becomes due on the way happens at its time. Jobs become available,
    /// expire, and are removed when their retention is over; schedules fire.
    ///
    /// Workers keep their leases however far the clock moves: heartbeats use the real clock, and skipped time
    /// does not count as a missed heartbeat.
    pub fn advance(&self, time: Duration) {
        travel::advance(&self.engine, &self.clock, windlass_core::time::millis(time));
    }
}

impl fmt::Debug for TestQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TestQueue({})", self.now())
    }
}

/// The result of a call to the memory engine, which is always ready, so that reading needs no `await`.
fn at_once<T>(answer: Answer<'_, T>) -> T {
    let answered: Option<Result<Stamped<T>>> = answer.now_or_never();
    match answered {
        Some(Ok(reply)) => reply.value,
        Some(Err(error)) => panic!("the test queue says: {error}"),
        None => panic!("the memory engine did not answer at once, which is a bug in windlass"),
    }
}
