//! An estimate of the store's clock without a round trip: for new ids, and to refuse ids that are a day off. Never
//! stored as a time.

use std::sync::Mutex;
use tokio::time::Instant;
use windlass_core::Timestamp;
use windlass_core::sync::lock;

/// The last known time of the store and when it was received.
#[derive(Debug)]
pub(crate) struct Estimate {
    latest: Mutex<(Timestamp, Instant)>,
}

impl Estimate {
    /// Starts from a time just received.
    pub(crate) fn new(now: Timestamp) -> Self {
        Self { latest: Mutex::new((now, Instant::now())) }
    }

    /// Updates the estimate with a time just received.
    pub(crate) fn saw(&self, now: Timestamp) {
        *lock(&self.latest) = (now, Instant::now());
    }

    /// The estimated time.
    pub(crate) fn now(&self) -> Timestamp {
        let (time, when) = *lock(&self.latest);
        time.plus(when.elapsed().as_millis() as u64)
    }
}
