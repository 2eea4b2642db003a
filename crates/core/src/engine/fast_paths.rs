//! A switch that turns the fast paths of an engine off, so that tests can compare them with the executor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether an engine may use its fast paths. For tests only; clones share one switch, and it is on by default.
///
/// An engine that has fast paths for [plain](crate::model::NewJob::is_plain) requests asks it before each of them.
/// Without them, every request goes through the executor, with the same result.
#[derive(Clone, Debug)]
pub struct FastPaths(Arc<AtomicBool>);

impl Default for FastPaths {
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl FastPaths {
    /// Whether they may be used now.
    pub fn are_on(&self) -> bool {
        // Tests flip it between requests.
        self.0.load(Ordering::Relaxed)
    }

    /// Allows or forbids them from the next request on.
    pub fn set(&self, on: bool) {
        self.0.store(on, Ordering::Relaxed);
    }
}
