//! What the store's clock says by now, as far as one can tell without asking: for ids, and for refusing
//! what is a day off. Never for anything that is stored as a time.

use std::sync::{Mutex, PoisonError};
use tokio::time::Instant;
use windlass_core::Timestamp;

/// The latest time the store told, and when it did.
#[derive(Debug)]
pub(crate) struct Estimate {
    told: Mutex<(Timestamp, Instant)>,
}

impl Estimate {
    /// The store just told this.
    pub(crate) fn new(now: Timestamp) -> Self {
        Self { told: Mutex::new((now, Instant::now())) }
    }

    /// The store just told this.
    pub(crate) fn saw(&self, now: Timestamp) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = (now, Instant::now());
    }

    /// What it would tell now.
    pub(crate) fn now(&self) -> Timestamp {
        let (told, when) = *self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.plus(when.elapsed().as_millis() as u64)
    }
}
