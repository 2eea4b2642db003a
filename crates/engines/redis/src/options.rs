//! Options for opening an engine.

use std::fmt;
use std::sync::Arc;
use windlass_core::engine::FastPaths;
use windlass_core::random::{Random, SystemRandom};
use windlass_core::time::Clock;
use windlass_core::{Result, check_name};

/// Default name of a store.
const NAME_DEFAULT: &str = "default";

/// Options for opening an engine.
#[derive(Clone)]
pub struct Options {
    pub(crate) url: String,
    pub(crate) name: String,
    pub(crate) payload_bytes_max: Option<usize>,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) scripts: bool,
    pub(crate) fast_paths: FastPaths,
}

impl Options {
    /// Opens the store `default` on the server at this URL: `redis://` or, with the feature `tls`, `rediss://`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            name: NAME_DEFAULT.to_owned(),
            payload_bytes_max: None,
            clock: None,
            random: Arc::new(SystemRandom),
            scripts: false,
            fast_paths: FastPaths::default(),
        }
    }

    /// Uses the store of this name. One server can hold several.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the payload limit of the store in bytes, up to 16 MiB. The store keeps it: it applies to other processes when
    /// they connect. A new store has 64 KiB.
    #[must_use]
    pub const fn payload_bytes_max(mut self, bytes_max: usize) -> Self {
        self.payload_bytes_max = Some(bytes_max);
        self
    }

    /// Runs the Lua functions as scripts (`EVALSHA`), for servers without `FUNCTION`. The engine finds out by itself if
    /// the server refuses functions.
    #[must_use]
    pub const fn scripts(mut self) -> Self {
        self.scripts = true;
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

    pub(crate) fn check(&self) -> Result<()> {
        check_name("name", &self.name)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may contain a password.
        write!(f, "Options({:?})", self.name)
    }
}
