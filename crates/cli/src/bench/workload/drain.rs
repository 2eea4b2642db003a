//! W3 and W5: claims waiting jobs and completes them, until every completion is durable.

use super::super::clock;
use super::super::meter::{Meter, Sample};
use super::super::progress::Progress;
use super::super::subject::{Subject, Worker};
use super::Bench;
use anyhow::{Result, ensure};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// If no job arrives for this long although some are missing, the store has lost them.
pub(super) const DRY: Duration = Duration::from_secs(10);

/// Unmeasured batches per fetcher: a new connection first has to plan its statements, those for contention only
/// once it has occurred.
const WARMING: u64 = 4;

/// Distribution of the jobs over queues.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Queues {
    /// One queue for all fetchers.
    One,
    /// One queue per fetcher.
    Each,
}

/// W3: fills and drains until the minimum draining time is reached, with one fetcher for each of `subjects`.
pub(super) async fn rounds<S: Subject>(
    bench: &Bench<S>,
    subjects: &[S],
    queues: Queues,
) -> Result<Sample> {
    // The same number of jobs for each fetcher.
    let round = bench.profile.drain_jobs.next_multiple_of(subjects.len() as u64);
    let enough = Duration::from_millis(bench.profile.drain_ms);
    let mut fetchers = Fetchers::gather(subjects).await?;
    let warming = WARMING * u64::from(bench.calls.drain) * subjects.len() as u64;
    fill(bench, subjects, queues, warming).await?;
    fetchers.drain(bench, warming, queues, &mut bench.meter()).await?;
    let mut meter = bench.meter();
    let mut jobs = 0;
    while meter.wall() < enough && jobs < bench.profile.jobs_max {
        fill(bench, subjects, queues, round).await?;
        fetchers.drain(bench, round, queues, &mut meter).await?;
        jobs += round;
    }
    Ok(meter.sample(jobs, Vec::new()))
}

/// Enqueues the jobs of a round.
async fn fill<S: Subject>(
    bench: &Bench<S>,
    subjects: &[S],
    queues: Queues,
    jobs: u64,
) -> Result<()> {
    if queues == Queues::One {
        return bench.fill(jobs, 1).await;
    }
    bench.progress.phase("filling", jobs);
    for subject in subjects {
        bench.fill_at(subject, jobs / subjects.len() as u64, 1).await?;
    }
    Ok(())
}

/// W5: drains jobs from the heads of `lanes` lanes in which `others` wait behind them.
pub(super) async fn ahead_of<S: Subject>(
    bench: &Bench<S>,
    others: u64,
    lanes: usize,
) -> Result<Sample> {
    let jobs = bench.profile.deep_jobs;
    bench.fill(jobs + others, lanes).await?;
    let mut meter = bench.meter();
    Fetchers::gather(&bench.callers(bench.calls.fetchers))
        .await?
        .drain(bench, jobs, Queues::One, &mut meter)
        .await?;
    Ok(meter.sample(jobs, Vec::new()))
}

/// The fetchers of one worker process.
pub(super) struct Fetchers<W> {
    workers: Vec<W>,
}

impl<W: Worker> Fetchers<W> {
    pub(super) async fn gather<S: Subject<Worker = W>>(subjects: &[S]) -> Result<Self> {
        let mut workers = Vec::with_capacity(subjects.len());
        for subject in subjects {
            workers.push(subject.worker().await?);
        }
        Ok(Self { workers })
    }

    /// Claims and completes exactly `jobs` jobs.
    pub(super) async fn drain<S: Subject<Worker = W>>(
        &mut self,
        bench: &Bench<S>,
        jobs: u64,
        queues: Queues,
        meter: &mut Meter,
    ) -> Result<()> {
        bench.progress.phase("draining", jobs);
        let all = Arc::new(AtomicU64::new(jobs));
        let each = jobs / self.workers.len().max(1) as u64;
        let mut tasks = JoinSet::new();
        meter.begin(bench.subject.counts().await);
        for worker in self.workers.drain(..) {
            let progress = bench.progress.clone();
            let missing = match queues {
                Queues::One => Arc::clone(&all),
                Queues::Each => Arc::new(AtomicU64::new(each)),
            };
            tasks.spawn(fetch(worker, bench.calls.drain, missing, progress));
        }
        let mut completed = 0;
        while let Some(task) = tasks.join_next().await {
            let (worker, count) = task??;
            completed += count;
            self.workers.push(worker);
        }
        meter.end(bench.subject.counts().await);
        ensure!(completed == jobs, "{completed} jobs were completed instead of {jobs}");
        Ok(())
    }
}

/// Claims batches until no job is missing. Each call completes the previous batch and claims the next.
async fn fetch<W: Worker>(
    mut worker: W,
    batch: u32,
    missing: Arc<AtomicU64>,
    progress: Progress,
) -> Result<(W, u64)> {
    let (mut held, mut completed, mut heard) = (Vec::new(), 0, clock::now());
    loop {
        let want = reserve(&missing, batch);
        if want == 0 && held.is_empty() {
            return Ok((worker, completed));
        }
        completed += held.len() as u64;
        progress.add(held.len() as u64);
        held = worker.next(held, want).await?;
        // Returns the unused part of the reservation: this or another fetcher will claim those jobs.
        missing.fetch_add(u64::from(want) - held.len() as u64, Ordering::Relaxed);
        if want == 0 || !held.is_empty() {
            heard = clock::now();
        } else {
            let left = missing.load(Ordering::Relaxed);
            ensure!(heard.elapsed() < DRY, "the queue is empty with {left} jobs still missing");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Reserves up to a batch of the missing jobs.
fn reserve(missing: &AtomicU64, batch: u32) -> u32 {
    let batch = u64::from(batch);
    let take = |left: u64| Some(left.saturating_sub(batch));
    let before = missing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or(0);
    before.min(batch) as u32
}
