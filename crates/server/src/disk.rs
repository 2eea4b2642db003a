//! How full the disk of the store is, as whoever opened the store can tell. It must not know how.

use crate::health::StoreHealth;
use metrics::{describe_gauge, gauge};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use windlass_core::Result;

/// How often it is looked. Asking a database for its size reads its directory: seldom.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// The longest a look may take.
const LOOK_WITHIN: Duration = Duration::from_secs(10);
/// From this part of the limit on it is warned, in percent.
const WARN_PERCENT: u128 = 80;

/// How much of a disk, or of what somebody allows, is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes that are used.
    pub used_bytes: u64,
    /// Bytes that there are.
    pub limit_bytes: u64,
}

impl DiskUse {
    /// Whether it is time to do something about it: 80 % are used.
    ///
    /// ```
    /// use windlass_server::DiskUse;
    ///
    /// assert!(!DiskUse { used_bytes: 79, limit_bytes: 100 }.is_filling());
    /// assert!(DiskUse { used_bytes: 80, limit_bytes: 100 }.is_filling());
    /// ```
    pub const fn is_filling(self) -> bool {
        self.used_bytes as u128 * 100 >= self.limit_bytes as u128 * WARN_PERCENT
    }
}

pub(crate) type Shortage = dyn Fn() -> Option<String> + Send + Sync;
type Look = dyn Fn() -> Pin<Box<dyn Future<Output = Result<DiskUse>> + Send>> + Send + Sync;

/// Looks how full the disk of the store is.
#[derive(Clone)]
pub struct DiskProbe {
    look: Arc<Look>,
    pub(crate) shortage: Option<Arc<Shortage>>,
}

impl DiskProbe {
    /// Looks by this function.
    pub fn new<F>(look: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<DiskUse>> + Send + 'static,
    {
        Self { look: Arc::new(move || Box::pin(look())), shortage: None }
    }

    /// Asks this function, often, why the store refuses new jobs; `None` while it accepts them.
    #[must_use]
    pub fn shortage(mut self, why: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        self.shortage = Some(Arc::new(why));
        self
    }

    /// Looks again and again, until the server stops; says so when it is time to do something.
    pub(crate) async fn watch(self, health: StoreHealth, stop: CancellationToken) {
        describe_gauge!("windlass_disk_used_bytes", "bytes that are used of the store's disk");
        describe_gauge!("windlass_disk_limit_bytes", "bytes that there are for the store");
        let (mut ticks, mut warned) = (tokio::time::interval(LOOK_EVERY), false);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let seen = match timeout(LOOK_WITHIN, (self.look)()).await {
                Ok(Ok(seen)) => seen,
                away => {
                    // That the store is away is said elsewhere.
                    debug!(?away, "how full the disk is cannot be told");
                    continue;
                }
            };
            let DiskUse { used_bytes, limit_bytes } = seen;
            gauge!("windlass_disk_used_bytes").set(used_bytes as f64);
            gauge!("windlass_disk_limit_bytes").set(limit_bytes as f64);
            health.disk(seen);
            match (seen.is_filling(), std::mem::replace(&mut warned, seen.is_filling())) {
                (true, false) => {
                    warn!(
                        used_bytes,
                        limit_bytes,
                        "the disk of the store is filling up: more than {WARN_PERCENT} % are used"
                    );
                }
                (false, true) => {
                    info!(used_bytes, limit_bytes, "the disk of the store has room again");
                }
                _ => {}
            }
        }
    }
}

impl fmt::Debug for DiskProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DiskProbe")
    }
}
