//! What a service is: something that does one bounded step after the other. It must not know who
//! calls it, when, or whether others do the same elsewhere.

use crate::board::ServiceName;
use std::future::Future;
use windlass_core::engine::Engine;
use windlass_core::{Result, Timestamp};

/// When a service wants to be called again; never later than its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// At once: more is waiting, and somebody waits for it.
    Now,
    /// After a rest as long as the step took: more is waiting, but nobody is in a hurry, and half
    /// the store's time belongs to others.
    Rested,
    /// After so many milliseconds.
    After(u64),
    /// After its interval.
    Idle,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The store's time.
    pub(crate) now: Timestamp,
    /// How many items it handled.
    pub(crate) items: u64,
    /// When to come again.
    pub(crate) again: Again,
}

/// Where and under which leadership a step is done.
#[derive(Clone, Copy)]
pub(crate) struct Turn<'a> {
    /// The store.
    pub(crate) engine: &'a dyn Engine,
    /// The fencing token of the leadership: rises with each term.
    pub(crate) term: u64,
}

/// A background service. A step may be dropped at any await, and done again by another process:
/// whatever it writes must bear that.
pub(crate) trait Service: Send {
    /// Which one.
    fn name(&self) -> ServiceName;

    /// One bounded step.
    fn step(&mut self, turn: Turn<'_>) -> impl Future<Output = Result<Step>> + Send;

    /// Another process may work from here on: take back what only the leader may say.
    fn halt(&mut self) {}
}
