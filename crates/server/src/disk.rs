//! Monitors the usage of the store's disk through a probe supplied by the caller. It must not know
//! how usage is measured.

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

/// Interval of measurements. Infrequent, because measuring a database reads its directory.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Timeout of one measurement.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// Usage at which a warning is logged, in percent of the limit.
const WARN_PERCENT: u128 = 80;

/// Usage of a disk or of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes in use.
    pub used_bytes: u64,
    /// Capacity or quota in bytes.
    pub limit_bytes: u64,
}

impl DiskUse {
    /// Whether at least 80 % are in use.
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
type DiskReader = dyn Fn() -> Pin<Box<dyn Future<Output = Result<DiskUse>> + Send>> + Send + Sync;

/// Measures the usage of the store's disk.
#[derive(Clone)]
pub struct DiskProbe {
    read: Arc<DiskReader>,
    pub(crate) shortage: Option<Arc<Shortage>>,
}

impl DiskProbe {
    /// A probe that measures with this function.
    pub fn new<F>(read: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<DiskUse>> + Send + 'static,
    {
        Self { read: Arc::new(move || Box::pin(read())), shortage: None }
    }

    /// Sets the function that returns why the store refuses new jobs, `None` while it accepts them.
    /// It is called often.
    #[must_use]
    pub fn shortage(mut self, why: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        self.shortage = Some(Arc::new(why));
        self
    }

    /// Measures periodically until shutdown. Logs when usage crosses the warning level.
    pub(crate) async fn watch(self, health: StoreHealth, stop: CancellationToken) {
        describe_gauge!("windlass_disk_used_bytes", "bytes in use on the store's disk");
        describe_gauge!("windlass_disk_limit_bytes", "capacity of the store's disk in bytes");
        let (mut ticks, mut warned) = (tokio::time::interval(LOOK_EVERY), false);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let seen = match timeout(READ_WITHIN, (self.read)()).await {
                Ok(Ok(seen)) => seen,
                away => {
                    // An outage of the store is logged by the health check.
                    debug!(?away, "cannot measure disk usage");
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
                        "the store's disk is filling up: at least {WARN_PERCENT} % are in use"
                    );
                }
                (false, true) => {
                    info!(
                        used_bytes,
                        limit_bytes, "the store's disk usage is below the warning level again"
                    );
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
