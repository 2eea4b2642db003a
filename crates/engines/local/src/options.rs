//! Options for opening a directory.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use windlass_core::engine::FastPaths;
use windlass_core::random::{Random, SystemRandom};
use windlass_core::time::{Clock, SystemClock};

/// The directory to open, and how to open it. Only the directory is required.
#[derive(Clone)]
pub struct Options {
    pub(crate) dir: PathBuf,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) address: Option<String>,
    pub(crate) payload_bytes_max: Option<usize>,
    pub(crate) fast_paths: FastPaths,
}

impl Options {
    /// Options for this directory, which is created if it does not exist.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let (clock, random) = (Arc::new(SystemClock), Arc::new(SystemRandom));
        let (address, payload_bytes_max) = (None, None);
        let fast_paths = FastPaths::default();
        Self { dir: dir.into(), clock, random, address, payload_bytes_max, fast_paths }
    }

    /// Sets the clock. Tests use it to control time.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the source of randomness. Lease tokens are generated from it, so outside of tests it must be
    /// unpredictable.
    #[must_use]
    pub fn random(mut self, random: Arc<dyn Random>) -> Self {
        self.random = random;
        self
    }

    /// Sets the address at which this process serves the store. Other processes read it from the lock file.
    #[must_use]
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// Sets the payload limit of the store in bytes, up to 16 MiB. The store keeps it for later openings; a new
    /// store has 64 KiB.
    #[must_use]
    pub const fn payload_bytes_max(mut self, bytes_max: usize) -> Self {
        self.payload_bytes_max = Some(bytes_max);
        self
    }

    /// For tests: sets the switch of the fast paths. While they are off, every transaction reloads its rows from
    /// the tables, and none are kept in memory between transactions.
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
