//! Measures the cost of a run to the process that does the work: time, CPU, bytes written, syncs and memory.

use super::clock;
use super::histogram::Latencies;
use super::process::Process;
use super::stats::percentile;
use super::timeline::{Sizes, Timeline};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use windlass_postgres::ServerStats;

/// The figures of one run of one workload.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Number of jobs in the measured period.
    pub(super) jobs: u64,
    /// Jobs per second; `None` if the workload does not measure a rate.
    pub(super) jobs_per_s: Option<f64>,
    /// Median latency of the calls or jobs.
    pub(super) p50_ms: Option<f64>,
    /// 99th percentile of the latency.
    pub(super) p99_ms: Option<f64>,
    /// Peak memory of the process that did the work, including the filling of the queue.
    pub(super) rss_mb: Option<f64>,
    /// CPU time in the measured period.
    pub(super) cpu_s: Option<f64>,
    /// CPU usage in percent of one CPU.
    pub(super) cpu_percent: Option<f64>,
    /// Bytes written to disk per job.
    pub(super) bytes_per_job: Option<f64>,
    /// Synced commits per job.
    pub(super) fsyncs_per_job: Option<f64>,
    /// Bytes of WAL per job.
    pub(super) wal_per_job: Option<f64>,
    /// Transactions committed on the server per job.
    pub(super) commits_per_job: Option<f64>,
    /// Dead rows per job, which the server has to vacuum.
    pub(super) dead_rows_per_job: Option<f64>,
    /// Figures specific to the workload, by names that end in their unit.
    pub(super) figures: BTreeMap<String, f64>,
    /// Remarks on this run, as text.
    pub(super) said: Vec<String>,
    /// The time series, if one was recorded.
    pub(super) timeline: Option<Timeline>,
    /// The reason why nothing was measured.
    pub(super) skipped: Option<String>,
}

impl Sample {
    /// A sample of a run that was skipped for this reason.
    pub(super) fn skipped(reason: String) -> Self {
        Self { skipped: Some(reason), ..Self::default() }
    }

    /// Adds a figure specific to the workload.
    pub(super) fn figure(&mut self, name: &str, value: f64) {
        self.figures.insert(name.to_owned(), value);
    }

    /// Adds the growth of the hot tables from the start to the release, if it is known.
    pub(super) fn note_growth(&mut self, start: Option<Sizes>, end: Option<Sizes>) {
        let (Some(start), Some(end)) = (start, end) else { return };
        let grown_bytes = end.all_hot_bytes() as f64 - start.all_hot_bytes() as f64;
        self.figure("hot_growth_bytes_per_job", grown_bytes / self.jobs.max(1) as f64);
    }
}

/// Sums up the cost of the measured periods of a run. Time between them does not count, so that filling a queue
/// is not part of draining it.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// The process that does the work.
    process: Process,
    wall: Duration,
    cpu: Option<Duration>,
    written_bytes: Option<u64>,
    syncs: Option<u64>,
    wal_bytes: Option<u64>,
    commits: Option<u64>,
    dead_rows: Option<u64>,
    began: Option<Reading>,
}

/// Counters of the store.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Synced commits.
    pub(super) syncs: Option<u64>,
    /// Statistics of its server.
    pub(super) server_stats: Option<ServerStats>,
}

#[derive(Debug)]
struct Reading {
    at: Instant,
    cpu: Option<Duration>,
    written_bytes: Option<u64>,
    counts: Counts,
}

impl Reading {
    fn take(process: Process, counts: Counts) -> Self {
        let written_bytes = process.written_bytes();
        Self { cpu: process.cpu(), written_bytes, counts, at: clock::now() }
    }
}

impl Meter {
    /// A meter of the work of `process`.
    pub(super) fn of(process: Process) -> Self {
        Self { process, ..Self::default() }
    }

    /// Starts a measured period, with the current counters of the store.
    pub(super) fn begin(&mut self, counts: Counts) {
        self.began = Some(Reading::take(self.process, counts));
    }

    /// Ends the measured period.
    pub(super) fn end(&mut self, counts: Counts) {
        let Some(began) = self.began.take() else { return };
        let ended = Reading::take(self.process, counts);
        self.wall += ended.at - began.at;
        if let (Some(ended), Some(began)) = (ended.cpu, began.cpu) {
            *self.cpu.get_or_insert_default() += ended.saturating_sub(began);
        }
        add(&mut self.written_bytes, ended.written_bytes, began.written_bytes);
        let (ended, began) = (ended.counts, began.counts);
        add(&mut self.syncs, ended.syncs, began.syncs);
        let both = |figure: fn(&ServerStats) -> u64| {
            (ended.server_stats.as_ref().map(figure), began.server_stats.as_ref().map(figure))
        };
        let (wal, commits, dead) =
            (both(|it| it.wal_bytes), both(|it| it.commits), both(|it| it.dead_rows));
        add(&mut self.wal_bytes, wal.0, wal.1);
        add(&mut self.commits, commits.0, commits.1);
        add(&mut self.dead_rows, dead.0, dead.1);
    }

    /// Total time of the measured periods so far.
    pub(super) const fn wall(&self) -> Duration {
        self.wall
    }

    /// The sample for `jobs` jobs with latencies in a histogram.
    pub(super) fn sample_with(&self, jobs: u64, latencies: &Latencies) -> Sample {
        let [p50_ms, p99_ms] = [50.0, 99.0].map(|percent| latencies.percentile_ms(percent));
        Sample { p50_ms, p99_ms, ..self.sample(jobs, Vec::new()) }
    }

    /// The sample for `jobs` jobs with these latencies.
    pub(super) fn sample(&self, jobs: u64, mut latencies_ms: Vec<f32>) -> Sample {
        let per_job = |sum: u64| sum as f64 / jobs.max(1) as f64;
        let wall_s = self.wall.as_secs_f64().max(1e-9);
        let cpu_s = self.cpu.map(|cpu| cpu.as_secs_f64());
        Sample {
            jobs_per_s: Some(jobs as f64 / wall_s),
            p50_ms: percentile(&mut latencies_ms, 50.0),
            p99_ms: percentile(&mut latencies_ms, 99.0),
            rss_mb: self.process.peak_rss_mb(),
            cpu_s,
            cpu_percent: cpu_s.map(|cpu_s| cpu_s / wall_s * 100.0),
            bytes_per_job: self.written_bytes.filter(|sum| *sum > 0).map(per_job),
            fsyncs_per_job: self.syncs.map(per_job),
            wal_per_job: self.wal_bytes.map(per_job),
            commits_per_job: self.commits.map(per_job),
            dead_rows_per_job: self.dead_rows.map(per_job),
            jobs,
            ..Sample::default()
        }
    }
}

fn add(sum: &mut Option<u64>, ended: Option<u64>, began: Option<u64>) {
    if let (Some(ended), Some(began)) = (ended, began) {
        *sum = Some(sum.unwrap_or(0) + ended.saturating_sub(began));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_add_up_and_the_time_between_them_does_not_count() {
        let mut meter = Meter::default();
        for (began, ended) in [(10, 14), (100, 101)] {
            meter.begin(Counts { syncs: Some(began), server_stats: None });
            meter.end(Counts { syncs: Some(ended), server_stats: None });
        }
        let sample = meter.sample(10, vec![1.0, 2.0, 3.0, 4.0]);
        assert_eq!(sample.fsyncs_per_job, Some(0.5));
        assert_eq!((sample.p50_ms, sample.p99_ms), (Some(2.0), Some(4.0)));
        assert!(meter.wall() < Duration::from_secs(5));
    }
}
