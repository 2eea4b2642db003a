//! The protocol between `cargo xtask bench` and every driver: the order and the result.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The measurement to run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    pub(crate) workload: Workload,
    /// URL of the store, which is empty and used by this driver only.
    pub(crate) url: String,
    /// Number of jobs, for workloads that have one.
    pub(crate) jobs: u64,
    /// Number of other jobs waiting behind them.
    pub(crate) others: u64,
    /// Maximum duration of the measured part.
    pub(crate) seconds: f64,
    /// Maximum duration of filling the store.
    pub(crate) fill_seconds: f64,
}

impl Order {
    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    pub(crate) fn fill_time(&self) -> Duration {
        Duration::from_secs_f64(self.fill_seconds)
    }
}

/// The workloads, named as in the report.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) enum Workload {
    /// Single enqueues, one after the other.
    W1seq,
    /// Single enqueues by 64 concurrent callers.
    W1c64,
    /// Many jobs by the fastest bulk path.
    W2,
    /// Drain waiting jobs.
    W3,
    /// Latency from the call of enqueue to the start of the handler, on an idle queue.
    W4,
    /// Drain jobs from the head of a long queue.
    W5,
    /// Enqueue, run and complete at the same time.
    W6,
}

/// The result of a measurement.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    /// Number of jobs in the measured part.
    pub(crate) jobs: u64,
    /// Duration of the measured part.
    pub(crate) seconds: f64,
    /// Actual number of other waiting jobs.
    pub(crate) others: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99_ms: Option<f64>,
    /// CPU time of this process during the measured part.
    pub(crate) cpu_s: f64,
    /// Peak memory of this process.
    pub(crate) rss_mb: f64,
    pub(crate) version: String,
    pub(crate) settings: String,
}
