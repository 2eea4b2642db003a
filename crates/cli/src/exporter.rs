//! Installs the metrics recorder of this process and renders it in Prometheus format. Descriptions of metrics
//! are in the modules that count them.

use anyhow::{Context as _, Result};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::time::Duration;
use windlass_server::Exporter;

/// Histogram buckets in seconds, from a fast call to the longest common timeout.
const SECONDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0, 3_600.0];

/// Interval at which samples are aggregated. Without it, they would accumulate in memory if no collector
/// scrapes `/metrics`.
const AGGREGATE_EVERY: Duration = Duration::from_secs(5);

/// Installs the recorder, for a server. Call once, inside the runtime.
pub(crate) fn install() -> Result<Exporter> {
    let handle = record()?;
    Ok(Exporter::new(move || handle.render()))
}

/// Installs the recorder. Call once, inside the runtime.
pub(crate) fn record() -> Result<PrometheusHandle> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
        .and_then(|builder| builder.install_recorder())
        .context("cannot record metrics")?;
    tokio::spawn(aggregate(handle.clone()));
    Ok(handle)
}

async fn aggregate(handle: PrometheusHandle) {
    let mut ticks = tokio::time::interval(AGGREGATE_EVERY);
    loop {
        ticks.tick().await;
        handle.run_upkeep();
    }
}
