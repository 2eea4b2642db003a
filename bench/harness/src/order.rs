//! What a driver is told and what it answers: the protocol between `cargo xtask bench` and every driver.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What to measure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    pub(crate) workload: Workload,
    /// The store: empty, and nobody else's.
    pub(crate) url: String,
    /// How many jobs, where the workload has a number of them.
    pub(crate) jobs: u64,
    /// How many others wait behind those.
    pub(crate) others: u64,
    /// How long the measured part may last.
    pub(crate) seconds: f64,
    /// How long filling the store before it may last.
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

/// The workloads, by the names of the report.
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
    /// From the call of enqueue to the start of the handler, on an idle queue.
    W4,
    /// Drain jobs from the head of a long line.
    W5,
    /// Enqueue, run and complete at the same time.
    W6,
}

/// What came out.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    /// How many jobs went through the measured part.
    pub(crate) jobs: u64,
    /// How long that took.
    pub(crate) seconds: f64,
    /// How many others really waited behind them.
    pub(crate) others: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99_ms: Option<f64>,
    /// Processor time of this process during the measured part.
    pub(crate) cpu_s: f64,
    /// The most memory this process had.
    pub(crate) rss_mb: f64,
    pub(crate) version: String,
    pub(crate) settings: String,
}
