//! How to open an engine.

use std::fmt;
use std::sync::Arc;
use windlass_core::random::{Random, SystemRandom};
use windlass_core::time::Clock;

/// The schema unless another is named.
pub(crate) const SCHEMA_DEFAULT: &str = "windlass";
/// Connections unless another number is asked for; one more listens for wake-ups.
const CONNECTIONS_DEFAULT: usize = 4;
/// The most connections one engine may be given.
pub(crate) const CONNECTIONS_MAX: usize = 64;
/// How long an enqueue waits for a key that another transaction holds, unless told otherwise. Those of
/// engines hold one for milliseconds; those of applications may stay open.
const LOCK_TIMEOUT_DEFAULT_MS: u64 = 2_000;
/// What can be told.
pub(crate) const LOCK_TIMEOUT_MS: std::ops::RangeInclusive<u64> = 1..=600_000;

/// How to open an engine.
#[derive(Clone)]
pub struct Options {
    pub(crate) url: String,
    pub(crate) schema: String,
    pub(crate) connections: usize,
    pub(crate) migrate: bool,
    pub(crate) lock_timeout_ms: u64,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) random: Arc<dyn Random>,
}

impl Options {
    /// The database at this URL, in the schema `windlass`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            schema: SCHEMA_DEFAULT.to_owned(),
            connections: CONNECTIONS_DEFAULT,
            migrate: true,
            lock_timeout_ms: LOCK_TIMEOUT_DEFAULT_MS,
            clock: None,
            random: Arc::new(SystemRandom),
        }
    }

    /// In this schema; several can live in one database.
    #[must_use]
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// With so many connections at most, from 1 to 64. One more listens for wake-ups.
    #[must_use]
    pub const fn connections(mut self, number: usize) -> Self {
        self.connections = number;
        self
    }

    /// Whether to make or update the tables when opening. Without, tables of this version must be there.
    #[must_use]
    pub const fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// How long an enqueue waits for a unique or ordering key that another transaction holds, from 1 ms to
    /// ten minutes; then it is answered [`busy`](windlass_core::Error::Busy). Two seconds by default.
    #[must_use]
    pub const fn lock_timeout_ms(mut self, ms: u64) -> Self {
        self.lock_timeout_ms = ms;
        self
    }

    /// For tests: with this clock instead of the store's.
    #[must_use]
    pub fn test_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// For tests: with this randomness. Lease tokens must not be guessed.
    #[must_use]
    pub fn random(mut self, random: Arc<dyn Random>) -> Self {
        self.random = random;
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may hold a password.
        let Self { schema, connections, migrate, .. } = self;
        write!(f, "Options({schema:?}, {connections} connections, migrate: {migrate})")
    }
}
