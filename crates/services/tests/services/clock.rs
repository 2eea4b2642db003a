//! The store's clock on the runtime's time: tests with paused time travel at full speed, and the store
//! and the services travel together.

use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::Instant;
use windlass_core::Timestamp;
use windlass_core::time::Clock;

/// When the tests' time begins: a full hour.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

#[derive(Debug)]
pub(crate) struct RuntimeClock {
    since: Instant,
    /// By how many milliseconds it was set back.
    back_ms: AtomicU64,
}

impl RuntimeClock {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), back_ms: AtomicU64::new(0) }
    }

    /// Sets it back, as far as the tests' time has come at most.
    pub(crate) fn set_back(&self, ms: u64) {
        self.back_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        let passed = u64::try_from(self.since.elapsed().as_millis()).expect("a short test");
        START.plus(passed).minus(self.back_ms.load(Ordering::SeqCst))
    }
}
