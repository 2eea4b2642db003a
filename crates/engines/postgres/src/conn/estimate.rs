//! An estimate of the store's clock without a round trip: for new ids, and to refuse ids that are a day off. Never
//! stored as a time.

use std::sync::{Mutex, PoisonError};
use tokio::time::Instant;
use windlass_core::Timestamp;

/// The last known time of the store and when it was received.
#[derive(Debug)]
pub(crate) struct Estimate {
    told: Mutex<(Timestamp, Instant)>,
}

impl Estimate {
    /// Starts from a time just received.
    pub(crate) fn new(now: Timestamp) -> Self {
        Self { told: Mutex::new((now, Instant::now())) }
    }

    /// Updates the estimate with a time just received.
    pub(crate) fn saw(&self, now: Timestamp) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = (now, Instant::now());
    }

    /// The estimated time.
    pub(crate) fn now(&self) -> Timestamp {
        let (told, when) = *self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.plus(when.elapsed().as_millis() as u64)
    }
}
