//! The engine under test and the control of its clock.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use windlass_core::engine::{Engine, FastPaths};
use windlass_core::time::{ManualClock, Timestamp};

/// The start of the kit's time: in January 2027, so that it differs from the real time.
pub const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// Control of an engine's clock.
pub trait TimeTravel: Send + Sync {
    /// Moves the clock `ms` forward.
    fn advance(&self, ms: u64);
}

impl TimeTravel for ManualClock {
    fn advance(&self, ms: u64) {
        Self::advance(self, ms);
    }
}

/// Lines of text about a store's rows, the same for the same contents.
pub type Inspect = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Vec<String>> + Send>> + Send + Sync>;

/// A fresh, empty engine for one check.
pub struct Subject {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: Arc<dyn TimeTravel>,
    /// Turns the engine's fast paths off, if it has any.
    pub(crate) fast_paths: FastPaths,
    /// Reads rows of the store that the engine's verbs do not return.
    pub(crate) inspect: Option<Inspect>,
    /// A resource that must live as long as the engine: a temporary directory, a schema to drop.
    guard: Box<dyn Any + Send + Sync>,
}

impl Subject {
    /// An engine and the control of its clock.
    pub fn new(engine: Arc<dyn Engine>, clock: Arc<dyn TimeTravel>) -> Self {
        let fast_paths = FastPaths::default();
        Self { engine, clock, fast_paths, inspect: None, guard: Box::new(()) }
    }

    /// With the switch of its fast paths.
    #[must_use]
    pub fn switched_by(mut self, fast_paths: FastPaths) -> Self {
        self.fast_paths = fast_paths;
        self
    }

    /// With a function that reads the store's own rows: places, counts and keys.
    #[must_use]
    pub fn inspected_by(mut self, inspect: Inspect) -> Self {
        self.inspect = Some(inspect);
        self
    }

    /// Keeps a resource until the check is over.
    #[must_use]
    pub fn guarded(mut self, guard: impl Any + Send + Sync) -> Self {
        self.guard = Box::new((self.guard, guard));
        self
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Wraps the engine: used to test layers and deliberate faults.
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
