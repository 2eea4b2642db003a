//! Metrics: the exporter, and gauges that are read from the store. It must not know the collectors.

use crate::limit_gauges::LimitGauges;
use metrics::{describe_gauge, gauge};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tracing::debug;
use windlass_core::Timestamp;
use windlass_core::engine::{Engine, LaneStats, LimitStats, StatsRequest};
use windlass_services::LaneGauges;

/// Minimum interval between reads of the store's statistics, regardless of the number of
/// collectors.
const REFRESH_MS: u64 = 1_000;
/// Timeout of the store. Collectors usually give up after 10 seconds, and must still receive `NaN`
/// for an unavailable store.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// Renders the metrics of this process in the Prometheus text format.
///
/// The program that installs the recorder of the `metrics` crate creates one from the recorder's
/// handle.
#[derive(Clone)]
pub struct Exporter(Arc<dyn Fn() -> String + Send + Sync>);

impl Exporter {
    /// An exporter that calls this function.
    pub fn new(write: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    pub(crate) fn write(&self) -> String {
        (self.0)()
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exporter")
    }
}

/// Statistics of the store as gauges.
pub(crate) struct StoreGauges {
    engine: Arc<dyn Engine>,
    /// The statistics to request.
    request: StatsRequest,
    seen: Mutex<Seen>,
}

struct Seen {
    lanes: LaneGauges,
    limits: LimitGauges,
    /// When the store was last read.
    at: Option<Instant>,
}

impl StoreGauges {
    pub(crate) fn new(engine: Arc<dyn Engine>, by_kind: bool, by_priority: bool) -> Self {
        describe();
        let all = StatsRequest::default();
        let request = if by_priority { all.by_priority() } else { all };
        let lanes = LaneGauges::new(by_kind).by_priority(by_priority);
        let seen = Seen { lanes, limits: LimitGauges::new(), at: None };
        Self { engine, request, seen: Mutex::new(seen) }
    }

    /// Updates the gauges if they are older than a second. Concurrent calls share one read.
    pub(crate) async fn refresh(&self) {
        let mut seen = self.seen.lock().await;
        let age = seen.at.map(|at| at.elapsed());
        if age.is_some_and(|age| age < Duration::from_millis(REFRESH_MS)) {
            return;
        }
        let read = timeout(ANSWER_WITHIN, self.read_store()).await;
        seen.at = Some(Instant::now());
        match read {
            Ok(Ok(stats)) => {
                seen.lanes.show(&stats.lanes, stats.now);
                seen.limits.show(&stats.limits);
                gauge!("windlass_active_workers").set(stats.workers as f64);
            }
            away => {
                debug!(?away, "cannot read the store's statistics");
                seen.lanes.unknown();
                seen.limits.unknown();
                gauge!("windlass_active_workers").set(f64::NAN);
            }
        }
    }

    async fn read_store(&self) -> windlass_core::Result<StoreStats> {
        let stats = self.engine.stats(self.request.clone()).await?;
        let limits = self.engine.limits().await?.value;
        // Counts claims without an explicit session too: each has an unnamed session for the time
        // of its lease.
        let workers = self.engine.sessions().await?.value.len();
        Ok(StoreStats { now: stats.now, lanes: stats.value, limits, workers })
    }
}

/// The statistics of a store at one time.
#[derive(Debug)]
struct StoreStats {
    now: Timestamp,
    lanes: Vec<LaneStats>,
    limits: Vec<LimitStats>,
    workers: usize,
}

fn describe() {
    describe_gauge!("windlass_active_workers", "open sessions of workers");
    describe_gauge!("windlass_server_connections", "open connections");
}
