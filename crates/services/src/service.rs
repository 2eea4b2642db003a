//! The service trait: bounded steps, one after another. Independent of who calls it, when, and of other
//! instances.

use crate::board::ServiceName;
use std::future::Future;
use windlass_core::engine::Engine;
use windlass_core::{Result, Timestamp};

/// When a service wants to run again; never later than its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextRun {
    /// Immediately: more work is pending, and jobs wait for it.
    Now,
    /// After a pause as long as the step took: more work is pending, but it is not urgent, and at least half
    /// of the store's time is left to others.
    Rested,
    /// After this many milliseconds.
    After(u64),
    /// After its interval.
    Idle,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The store's time.
    pub(crate) now: Timestamp,
    /// Number of items processed.
    pub(crate) items: u64,
    /// When to run again.
    pub(crate) again: NextRun,
}

/// The context of a step.
#[derive(Clone, Copy)]
pub(crate) struct StepContext<'a> {
    /// The store.
    pub(crate) engine: &'a dyn Engine,
}

/// A background service. A step may be cancelled at any await and repeated by another process: its writes
/// must tolerate that.
pub(crate) trait Service: Send {
    /// The name of the service.
    fn name(&self) -> ServiceName;

    /// One bounded step.
    fn step(&mut self, context: StepContext<'_>) -> impl Future<Output = Result<Step>> + Send;

    /// Called when another process may lead: withdraws everything that only the leader may publish.
    fn halt(&mut self) {}
}
