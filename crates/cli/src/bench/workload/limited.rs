//! W3limit and W3groups: drains jobs under limits that are never reached, to measure what limits cost. W5group: how long
//! jobs of many groups wait beside one that is much deeper.

use super::super::clock;
use super::super::meter::Sample;
use super::super::progress::Progress;
use super::super::subject::{
    EngineSubject, EngineWorker, Numbered as _, Subject as _, Worker as _,
};
use super::drain::{DRY, Queues, rounds};
use super::{Bench, FILL};
use anyhow::{Result, ensure};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use windlass_core::limits::LIMIT_RUNNING_MAX;
use windlass_core::model::Limit;

/// Jobs of each group of W5group.
const JOBS_PER_GROUP: u64 = 3;
/// The deep group has this many times as many.
const DEEPER: u64 = 1_000;

/// A limit that no workload reaches.
pub(super) const fn wide_open() -> Limit {
    Limit::max_running(LIMIT_RUNNING_MAX)
}

/// Drains a queue under a limit; its jobs belong to this number of groups.
pub(super) async fn under(
    bench: &Bench<EngineSubject>,
    limit: Limit,
    groups: Option<u64>,
) -> Result<Sample> {
    let mut bench = bench.clone();
    if let Some(groups) = groups {
        bench.subject = bench.subject.of_tenants(groups);
    }
    bench.subject.list_limit(limit).await?;
    let sample = rounds(&bench, &bench.callers(bench.calls.fetchers), Queues::One).await;
    bench.subject.remove_limit().await?;
    sample
}

/// Drains jobs of many groups, each with one slot. The first group has 1,000 times as many jobs if `deep`, all stored
/// before those of the others, whose waiting times are the latencies.
pub(super) async fn beside_deep_group(bench: &Bench<EngineSubject>, deep: bool) -> Result<Sample> {
    let groups = bench.profile.groups;
    let first = JOBS_PER_GROUP * if deep { DEEPER } else { 1 };
    let numbers = groups * JOBS_PER_GROUP;
    let others = numbers - JOBS_PER_GROUP;
    bench.subject.list_limit(Limit::max_running(1).by_group()).await?;
    bench.progress.phase("filling", first + numbers);
    let (deep, all) = (bench.subject.of_tenants(1), bench.subject.of_tenants(groups));
    // Jobs of the first group have numbers from `numbers` on, or multiples of the number of groups.
    fill(&deep, numbers..numbers + first, &bench.progress).await?;
    fill(&all, 0..numbers, &bench.progress).await?;

    bench.progress.phase("draining", others);
    let (missing, mut tasks) = (Arc::new(AtomicU64::new(others)), JoinSet::new());
    let mut workers = Vec::new();
    for subject in bench.callers(bench.calls.fetchers) {
        workers.push(subject.worker().await?);
    }
    let mut meter = bench.meter();
    meter.begin(bench.subject.counts().await);
    let began = clock::now();
    for worker in workers {
        let fetch = Fetch {
            worker,
            batch: bench.calls.drain,
            groups,
            numbers,
            missing: Arc::clone(&missing),
            progress: bench.progress.clone(),
            began,
        };
        tasks.spawn(fetch.run());
    }
    let mut waits = Vec::new();
    while let Some(task) = tasks.join_next().await {
        waits.extend(task??);
    }
    meter.end(bench.subject.counts().await);
    bench.subject.remove_limit().await?;
    Ok(meter.sample(waits.len() as u64, waits))
}

async fn fill(subject: &EngineSubject, numbers: Range<u64>, progress: &Progress) -> Result<()> {
    for from in numbers.clone().step_by(FILL as usize) {
        let upto = (from + FILL).min(numbers.end);
        subject.enqueue(from..upto, 1).await?;
        progress.add(upto - from);
    }
    Ok(())
}

/// A fetcher that notes how long the jobs of all groups but the first have waited.
struct Fetch {
    worker: EngineWorker,
    batch: u32,
    groups: u64,
    /// The jobs from this number on belong to the first group.
    numbers: u64,
    missing: Arc<AtomicU64>,
    progress: Progress,
    began: Instant,
}

impl Fetch {
    /// Claims and completes jobs until all others have started; returns their waiting times in milliseconds.
    async fn run(mut self) -> Result<Vec<f32>> {
        let (mut held, mut waits, mut heard) = (Vec::new(), Vec::new(), clock::now());
        loop {
            let left = self.missing.load(Ordering::Relaxed);
            let want = if left > 0 { self.batch } else { 0 };
            if want == 0 && held.is_empty() {
                return Ok(waits);
            }
            held = self.worker.next(held, want).await?;
            let waited_ms = self.began.elapsed().as_secs_f32() * 1e3;
            let is_other =
                |number: u64| number < self.numbers && !number.is_multiple_of(self.groups);
            let started = held.iter().filter(|job| is_other(job.number())).count();
            waits.extend(std::iter::repeat_n(waited_ms, started));
            self.missing.fetch_sub(started as u64, Ordering::Relaxed);
            self.progress.add(started as u64);
            if want == 0 || !held.is_empty() {
                heard = clock::now();
            } else {
                ensure!(heard.elapsed() < DRY, "the queue is empty with {left} jobs still missing");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}
