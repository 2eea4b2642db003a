//! Options for opening an engine.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::engine::FastPaths;
use windlass_core::random::{Random, SystemRandom};
use windlass_core::time::Clock;

/// Default schema.
pub(crate) const SCHEMA_DEFAULT: &str = "windlass";
/// Default number of connections, without the one that listens for notifications.
const CONNECTIONS_DEFAULT: usize = 4;
/// Maximum number of connections of one engine.
pub(crate) const CONNECTIONS_MAX: usize = 64;
/// Default time that an enqueue waits for a key held by another transaction. Transactions of engines hold keys for
/// milliseconds; those of applications may stay open.
pub(crate) const LOCK_TIMEOUT_DEFAULT_MS: u64 = 2_000;
/// Allowed values of `lock_timeout`.
pub(crate) const LOCK_TIMEOUT_MS: std::ops::RangeInclusive<u64> = 1..=600_000;

/// Options for opening an engine.
#[derive(Clone)]
pub struct Options {
    pub(crate) url: String,
    pub(crate) schema: String,
    pub(crate) connections: usize,
    pub(crate) migrate: bool,
    pub(crate) lock_timeout: Duration,
    pub(crate) payload_bytes_max: Option<usize>,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) fast_paths: FastPaths,
}

impl Options {
    /// Opens the database at this URL, in the schema `windlass`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            schema: SCHEMA_DEFAULT.to_owned(),
            connections: CONNECTIONS_DEFAULT,
            migrate: true,
            lock_timeout: Duration::from_millis(LOCK_TIMEOUT_DEFAULT_MS),
            payload_bytes_max: None,
            clock: None,
            random: Arc::new(SystemRandom),
            fast_paths: FastPaths::default(),
        }
    }

    /// Uses this schema. One database can hold several.
    #[must_use]
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// Sets the maximum number of connections, from 1 to 64. One more listens for notifications.
    #[must_use]
    pub const fn connections(mut self, number: usize) -> Self {
        self.connections = number;
        self
    }

    /// Sets whether to create or update the tables when opening. If not, the tables must have this program's version.
    #[must_use]
    pub const fn migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// Sets how long an enqueue waits for a unique or ordering key held by another transaction, from 1 ms to ten
    /// minutes, before it fails with [`busy`](windlass_core::Error::Busy). Two seconds by default.
    #[must_use]
    pub const fn lock_timeout(mut self, time: Duration) -> Self {
        self.lock_timeout = time;
        self
    }

    /// Sets the payload limit of the store in bytes, up to 16 MiB. The store keeps it: it applies to SQL functions at
    /// once, and to other processes when they connect. A new store has 64 KiB.
    #[must_use]
    pub const fn payload_bytes_max(mut self, bytes_max: usize) -> Self {
        self.payload_bytes_max = Some(bytes_max);
        self
    }

    /// For tests: uses this clock instead of the store's.
    #[must_use]
    pub fn test_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// For tests: uses this source of randomness. In production, lease tokens must not be predictable.
    #[must_use]
    pub fn random(mut self, random: Arc<dyn Random>) -> Self {
        self.random = random;
        self
    }

    /// For tests: with this switch of the fast paths. Without them, the executor carries out every request.
    #[doc(hidden)]
    #[must_use]
    pub fn test_fast_paths(mut self, switch: FastPaths) -> Self {
        self.fast_paths = switch;
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may contain a password.
        let Self { schema, connections, migrate, .. } = self;
        write!(f, "Options({schema:?}, {connections} connections, migrate: {migrate})")
    }
}
