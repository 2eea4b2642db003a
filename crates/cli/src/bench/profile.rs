//! Profiles: the sizes and durations of the workloads.

use serde::{Deserialize, Serialize};

/// The sizes of all workloads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Profile {
    /// Default number of repeats.
    pub(crate) repeats: u32,
    /// W1seq: duration.
    pub(super) sequence_ms: u64,
    /// W1c64, W1c512, P256: duration.
    pub(super) callers_ms: u64,
    /// W2: number of jobs.
    pub(super) bulk_jobs: u64,
    /// W3: number of waiting jobs at the start of a round; rounds are repeated until draining has taken
    /// `drain_ms` in total.
    pub(super) drain_jobs: u64,
    /// W3: minimum total time of draining.
    pub(super) drain_ms: u64,
    /// W3lanes: number of idle lanes; together with the drained ones, at most as many as a queue may have.
    pub(super) idle_lanes: u64,
    /// W3lanes: time that the lanes are idle before the measurement.
    pub(crate) idle_lanes_ms: u64,
    /// W4: number of jobs, one every 20 ms.
    pub(super) idle_jobs: u64,
    /// W5: number of jobs to drain.
    pub(super) deep_jobs: u64,
    /// W5group: number of groups.
    pub(super) groups: u64,
    /// W5 and open: number of other waiting jobs.
    pub(super) deep_others: u64,
    /// W5deep: number of other ready jobs.
    pub(crate) deep_ready: u64,
    /// W5deep: number of other scheduled jobs.
    pub(crate) deep_scheduled: u64,
    /// W6 and W7: duration.
    pub(crate) sustained_ms: u64,
    /// Soak: duration.
    pub(crate) soak_ms: u64,
    /// Soak: jobs per second.
    pub(crate) soak_rate: u32,
    /// Soak: retention of finished jobs.
    pub(crate) soak_retention_ms: u64,
    /// W6, W7 and soak: sampling interval of the time series.
    pub(super) watch_ms: u64,
    /// idle2000: number of waiting claims.
    pub(super) polls: u32,
    /// idle2000: duration.
    pub(super) polls_ms: u64,
    /// Maximum number of jobs of time-limited workloads, so that an in-memory engine does not exhaust the
    /// memory of the machine.
    pub(super) jobs_max: u64,
}

impl Profile {
    /// A first impression in less than a minute.
    pub(crate) const fn quick() -> Self {
        Self {
            repeats: 1,
            sequence_ms: 1_000,
            callers_ms: 1_500,
            bulk_jobs: 100_000,
            drain_jobs: 30_000,
            drain_ms: 3_000,
            idle_lanes: 9_900,
            idle_lanes_ms: 150_000,
            idle_jobs: 100,
            deep_jobs: 25_000,
            groups: 10_000,
            deep_others: 100_000,
            deep_ready: 1_000_000,
            deep_scheduled: 1_000_000,
            sustained_ms: 5_000,
            soak_ms: 60_000,
            soak_rate: 1_000,
            soak_retention_ms: 10_000,
            watch_ms: 1_000,
            polls: 2_000,
            polls_ms: 5_000,
            jobs_max: 1_000_000,
        }
    }

    /// Publishable figures.
    pub(crate) const fn full() -> Self {
        Self {
            repeats: 3,
            sequence_ms: 5_000,
            callers_ms: 10_000,
            bulk_jobs: 100_000,
            drain_jobs: 200_000,
            drain_ms: 10_000,
            idle_lanes: 9_900,
            idle_lanes_ms: 150_000,
            idle_jobs: 300,
            deep_jobs: 200_000,
            groups: 10_000,
            deep_others: 1_000_000,
            deep_ready: 10_000_000,
            deep_scheduled: 10_000_000,
            sustained_ms: 60_000,
            soak_ms: 30 * 60_000,
            soak_rate: 5_000,
            soak_retention_ms: 5 * 60_000,
            watch_ms: 1_000,
            polls: 2_000,
            polls_ms: 20_000,
            jobs_max: 4_000_000,
        }
    }

    /// A smoke test of every workload.
    pub(crate) const fn tiny() -> Self {
        Self {
            repeats: 1,
            sequence_ms: 10,
            callers_ms: 30,
            bulk_jobs: 2_500,
            drain_jobs: 1_050,
            drain_ms: 1,
            idle_lanes: 50,
            idle_lanes_ms: 1,
            idle_jobs: 3,
            deep_jobs: 250,
            groups: 20,
            deep_others: 500,
            deep_ready: 500,
            deep_scheduled: 500,
            sustained_ms: 250,
            soak_ms: 250,
            soak_rate: 400,
            soak_retention_ms: 100,
            watch_ms: 20,
            polls: 40,
            polls_ms: 50,
            jobs_max: 5_000,
        }
    }
}
