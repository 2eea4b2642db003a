//! The store's clock on the runtime's time: tests with paused time travel at full speed, and the store
//! and the services travel together.

use tokio::time::Instant;
use windlass_core::Timestamp;
use windlass_core::time::Clock;

/// When the tests' time begins: a full hour.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

#[derive(Debug)]
pub(crate) struct RuntimeClock(Instant);

impl RuntimeClock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        START.plus(u64::try_from(self.0.elapsed().as_millis()).expect("a short test"))
    }
}
