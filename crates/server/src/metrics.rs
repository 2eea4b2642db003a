//! Metrics: who writes them, and those that only the store knows. It must not know who collects them.

use metrics::{describe_gauge, gauge};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tracing::debug;
use windlass_core::Timestamp;
use windlass_core::engine::{Engine, LaneStats, StatsRequest};
use windlass_services::LaneGauges;

/// The store is asked for its numbers no more often than this, however many ask for metrics.
const REFRESH_MS: u64 = 1_000;
/// For the store to answer; collectors give up after ten seconds, and must learn that it is away.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// Writes the metrics of this process as text, in the format of Prometheus.
///
/// The program that installs the recorder of the `metrics` facade makes one from its handle.
#[derive(Clone)]
pub struct Exporter(Arc<dyn Fn() -> String + Send + Sync>);

impl Exporter {
    /// Writes by this function.
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

/// The numbers of the store as gauges.
pub(crate) struct StoreGauges {
    engine: Arc<dyn Engine>,
    /// What it is asked for.
    request: StatsRequest,
    seen: Mutex<Seen>,
}

struct Seen {
    lanes: LaneGauges,
    /// When the store was asked last.
    at: Option<Instant>,
}

impl StoreGauges {
    pub(crate) fn new(engine: Arc<dyn Engine>, by_kind: bool, by_priority: bool) -> Self {
        describe();
        let all = StatsRequest::default();
        let request = if by_priority { all.by_priority() } else { all };
        let lanes = LaneGauges::new(by_kind).by_priority(by_priority);
        Self { engine, request, seen: Mutex::new(Seen { lanes, at: None }) }
    }

    /// Shows how things are, as of a second ago at most. Those who ask together share one look.
    pub(crate) async fn refresh(&self) {
        let mut seen = self.seen.lock().await;
        let age = seen.at.map(|at| at.elapsed());
        if age.is_some_and(|age| age < Duration::from_millis(REFRESH_MS)) {
            return;
        }
        let looked = timeout(ANSWER_WITHIN, self.look()).await;
        seen.at = Some(Instant::now());
        match looked {
            Ok(Ok((now, lanes, workers))) => {
                seen.lanes.show(&lanes, now);
                gauge!("windlass_active_workers").set(workers as f64);
            }
            away => {
                debug!(?away, "the store's numbers are not known");
                seen.lanes.unknown();
                gauge!("windlass_active_workers").set(f64::NAN);
            }
        }
    }

    async fn look(&self) -> windlass_core::Result<(Timestamp, Vec<LaneStats>, usize)> {
        let stats = self.engine.stats(self.request.clone()).await?;
        let sessions = self.engine.sessions().await?.value;
        // A claim without a session of its own has one for as long as its lease, and no name.
        Ok((stats.now, stats.value, sessions.len()))
    }
}

fn describe() {
    describe_gauge!("windlass_active_workers", "open sessions of workers");
    describe_gauge!("windlass_server_connections", "open connections");
}
