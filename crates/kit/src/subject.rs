//! The engine on trial and the clock that moves its time.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use windlass_core::engine::Engine;
use windlass_core::time::{ManualClock, Timestamp};

/// When the kit's time begins: some day in 2027, so that it is nobody's real now.
pub const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// The handle by which the kit moves an engine's clock.
pub trait TimeTravel: Send + Sync {
    /// Moves the clock `ms` forward.
    fn advance(&self, ms: u64);
}

impl TimeTravel for ManualClock {
    fn advance(&self, ms: u64) {
        Self::advance(self, ms);
    }
}

/// A fresh, empty engine for one check.
pub struct Subject {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: Arc<dyn TimeTravel>,
    /// Whatever must live as long as the engine: a temporary directory, a schema to drop.
    guard: Box<dyn Any + Send + Sync>,
}

impl Subject {
    /// An engine and its clock.
    pub fn new(engine: Arc<dyn Engine>, clock: Arc<dyn TimeTravel>) -> Self {
        Self { engine, clock, guard: Box::new(()) }
    }

    /// With something to keep until the check is over.
    #[must_use]
    pub fn guarded(mut self, guard: impl Any + Send + Sync) -> Self {
        self.guard = Box::new((self.guard, guard));
        self
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// The same subject with its engine wrapped: how layers, and deliberate faults, are tried.
    #[must_use]
    pub fn wrapped(mut self, wrap: impl FnOnce(Arc<dyn Engine>) -> Arc<dyn Engine>) -> Self {
        self.engine = wrap(self.engine);
        self
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subject({})", self.engine.capabilities().engine)
    }
}
