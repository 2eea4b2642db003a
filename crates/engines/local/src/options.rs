//! How a directory is opened.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use windlass_core::engine::FastPaths;
use windlass_core::random::{Random, SystemRandom};
use windlass_core::time::{Clock, SystemClock};

/// What to open, and how. Only the directory is needed.
#[derive(Clone)]
pub struct Options {
    pub(crate) dir: PathBuf,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) address: Option<String>,
    pub(crate) fast_paths: FastPaths,
}

impl Options {
    /// This directory; it is made if it does not exist.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let (clock, random) = (Arc::new(SystemClock), Arc::new(SystemRandom));
        Self { dir: dir.into(), clock, random, address: None, fast_paths: FastPaths::default() }
    }

    /// On this clock: tests travel in time with it.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// With this randomness. Leases are made from it: it must not be guessable, but in tests.
    #[must_use]
    pub fn random(mut self, random: Arc<dyn Random>) -> Self {
        self.random = random;
        self
    }

    /// Served at this address, which other processes find in the lock file.
    #[must_use]
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// For tests: with this switch of the fast paths. Without them, every transaction reads what it needs from the
    /// tables, and nothing is kept in memory between two of them.
    #[doc(hidden)]
    #[must_use]
    pub fn test_fast_paths(mut self, switch: FastPaths) -> Self {
        self.fast_paths = switch;
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("dir", &self.dir).field("address", &self.address).finish()
    }
}
