//! Options for opening an engine.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::engine::FastPaths;
use windlass_core::random::{Random, SystemRandom};
use windlass_core::time::Clock;
use windlass_core::{Result, check_name, within_range};

/// How long a reply may take by default.
pub(crate) const REPLY_WITHIN_DEFAULT: Duration = Duration::from_secs(30);
/// The share of `maxmemory`, in percent, from which on new jobs are refused by default.
const MEMORY_WATERMARK_DEFAULT: u8 = 90;

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
    pub(crate) reply_within: Duration,
    pub(crate) memory_watermark: u8,
}

impl Options {
    /// Opens the store `default` on the server at this URL: `redis://`; with the feature `tls`, `rediss://`; or
    /// `redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/PRIMARY/DATABASE`, the primary that sentinels name.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            name: NAME_DEFAULT.to_owned(),
            payload_bytes_max: None,
            clock: None,
            random: Arc::new(SystemRandom),
            scripts: false,
            fast_paths: FastPaths::default(),
            reply_within: REPLY_WITHIN_DEFAULT,
            memory_watermark: MEMORY_WATERMARK_DEFAULT,
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

    /// Treats a server as unreachable if it does not reply within this time (30 s), from 100 ms to 5 minutes.
    #[must_use]
    pub const fn reply_within(mut self, time: Duration) -> Self {
        self.reply_within = time;
        self
    }

    /// Refuses new jobs with `store_full` from this share of the server's `maxmemory` on, in percent (90; 100 leaves it to
    /// the server). Claims, reports, heartbeats and cancellations go on, and have room to do so.
    #[must_use]
    pub const fn memory_watermark(mut self, percent: u8) -> Self {
        self.memory_watermark = percent;
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
        check_name("name", &self.name)?;
        within_range("reply_within", self.reply_within.as_millis() as u64, 100..=300_000)?;
        within_range("memory_watermark", self.memory_watermark.into(), 1..=100)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may contain a password.
        write!(f, "Options({:?})", self.name)
    }
}
