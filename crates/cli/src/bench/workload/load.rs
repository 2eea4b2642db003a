//! Runs producers and workers at the same time, for W4, W6, W7 and the soak. Knows no workload.

use super::super::clock;
use super::super::histogram::Latencies;
use super::super::subject::{
    EngineSubject, EngineWorker, Numbered as _, Subject as _, Worker as _,
};
use super::super::timeline::Counter;
use super::BATCH;
use anyhow::{Context as _, Result, ensure};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Maximum number of jobs in flight, i.e. enqueued and not yet completed. Bounds the latency; a multiple of the
/// batch.
const IN_FLIGHT: u32 = 10 * BATCH;
/// Number of enqueueing callers, and of fetchers of the worker process.
const SIDE: usize = 4;
/// Minimum number of batches per second of a paced producer, if its rate allows it.
const BATCHES_PER_S: u32 = 10;
/// Maximum time of a wait for jobs: shorter than the heartbeat interval.
const WAIT_MS: u64 = 1_000;
/// If no job arrives for this long although some are missing, the store has lost them.
const DRY: Duration = Duration::from_secs(10);

/// The time of each enqueue, in a ring buffer with far more entries than jobs in flight.
struct Handover {
    began: Instant,
    micros: Box<[AtomicU64]>,
}

impl Handover {
    fn new() -> Self {
        let micros = std::iter::repeat_with(|| AtomicU64::new(0)).take(1 << 16).collect();
        Self { began: clock::now(), micros }
    }

    fn micros(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    fn place(&self, number: u64) -> &AtomicU64 {
        &self.micros[number as usize % self.micros.len()]
    }

    /// Records the start of the enqueue call.
    fn begin(&self, number: u64, micros: u64) {
        self.place(number).store(micros, Ordering::Relaxed);
    }

    /// Returns the time from the enqueue call to `micros`, the start of the handler, in microseconds.
    fn waited(&self, number: u64, micros: u64) -> u64 {
        micros.saturating_sub(self.place(number).load(Ordering::Relaxed))
    }
}

/// State shared by producers and workers.
pub(super) struct Line {
    handover: Handover,
    next: AtomicU64,
    /// Counters, which the time series reads.
    pub(super) counter: Arc<Counter>,
    /// Set to stop the producers.
    stopping: AtomicBool,
    /// Set once nothing more will be enqueued.
    closed: AtomicBool,
    room: Semaphore,
}

impl Line {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            handover: Handover::new(),
            next: AtomicU64::new(0),
            counter: Counter::new(),
            stopping: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            room: Semaphore::new(IN_FLIGHT as usize),
        })
    }

    /// Announces one more job.
    pub(super) fn expect(&self) {
        self.next.fetch_add(1, Ordering::SeqCst);
    }

    /// Records that the job with this number is being enqueued now.
    pub(super) fn enqueue_one(&self, number: u64) {
        self.handover.begin(number, self.handover.micros());
    }

    /// Records that no further jobs will be enqueued.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// The latencies from enqueue to handler start so far.
    pub(super) fn latencies(&self) -> Latencies {
        self.counter.latencies.read()
    }

    fn is_over(&self) -> bool {
        let (enqueued, completed) = (self.next.load(Ordering::SeqCst), self.counter.completed());
        self.closed.load(Ordering::SeqCst) && enqueued == completed
    }
}

/// The rate of the producers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// As fast as the limit of jobs in flight allows.
    Full,
    /// This many jobs per second in total, within the limit of jobs in flight.
    PerSecond(u32),
}

impl Pace {
    /// The batch size of each producer, and the interval between its batches.
    fn batch(self) -> (u32, Option<Duration>) {
        let Self::PerSecond(rate) = self else { return (BATCH, None) };
        let rate = f64::from(rate.max(1)) / SIDE as f64;
        let batch = (rate / f64::from(BATCHES_PER_S)).clamp(1.0, f64::from(BATCH)).floor();
        (batch as u32, Some(Duration::from_secs_f64(batch / rate)))
    }
}

/// Running producers and workers.
pub(super) struct Load {
    line: Arc<Line>,
    producers: JoinSet<Result<()>>,
    workers: JoinSet<Result<()>>,
}

impl Load {
    /// Starts producers and workers.
    pub(super) async fn start(
        subject: &EngineSubject,
        line: &Arc<Line>,
        pace: Pace,
    ) -> Result<Self> {
        let (mut producers, mut workers) = (JoinSet::new(), JoinSet::new());
        for _ in 0..SIDE {
            let worker = subject.worker().await?;
            workers.spawn(run(subject.clone(), worker, Arc::clone(line)));
            producers.spawn(produce(subject.clone(), Arc::clone(line), pace));
        }
        Ok(Self { line: Arc::clone(line), producers, workers })
    }

    /// Fails if a producer or worker has ended early.
    pub(super) fn check(&mut self) -> Result<()> {
        for tasks in [&mut self.producers, &mut self.workers] {
            while let Some(task) = tasks.try_join_next() {
                task??;
            }
        }
        Ok(())
    }

    /// Stops the producers, and the workers once all jobs are completed.
    pub(super) async fn finish(mut self) -> Result<()> {
        self.line.stopping.store(true, Ordering::SeqCst);
        while let Some(task) = self.producers.join_next().await {
            task??;
        }
        self.line.close();
        while let Some(task) = self.workers.join_next().await {
            task??;
        }
        Ok(())
    }
}

/// Runs jobs until all are completed, and records the latency of each.
pub(super) async fn run(
    subject: EngineSubject,
    mut worker: EngineWorker,
    line: Arc<Line>,
) -> Result<()> {
    let (mut held, mut heard) = (Vec::new(), clock::now());
    loop {
        let count = held.len();
        held = worker.next(held, BATCH).await?;
        line.counter.add(count as u64);
        line.room.add_permits(count);
        let micros = line.handover.micros();
        for job in &held {
            line.counter.latencies.count(line.handover.waited(job.number(), micros));
        }
        if !held.is_empty() {
            heard = clock::now();
        } else if line.is_over() {
            return Ok(());
        } else {
            if line.next.load(Ordering::SeqCst) == line.counter.completed() {
                // No job is missing: the producers have not enqueued more yet.
                heard = clock::now();
            }
            ensure!(heard.elapsed() < DRY, "no job arrived for {DRY:?} although some are missing");
            // After the last enqueue, remaining jobs are held by other fetchers: polls again soon.
            let closed = line.closed.load(Ordering::SeqCst);
            subject.wait(if closed { 1 } else { WAIT_MS }).await?;
        }
    }
}

/// Enqueues batches within the limit of jobs in flight, until stopped.
async fn produce(subject: EngineSubject, line: Arc<Line>, pace: Pace) -> Result<()> {
    let (batch, every) = pace.batch();
    // Missed ticks are made up for, so that the average rate is kept.
    let mut ticks = every.map(tokio::time::interval);
    while !line.stopping.load(Ordering::SeqCst) {
        if let Some(ticks) = &mut ticks {
            ticks.tick().await;
        }
        let room = tokio::time::timeout(DRY, line.room.acquire_many(batch)).await;
        room.context("no job was completed for too long")??.forget();
        let from = line.next.fetch_add(batch.into(), Ordering::SeqCst);
        let numbers = from..from + u64::from(batch);
        let micros = line.handover.micros();
        numbers.clone().for_each(|number| line.handover.begin(number, micros));
        subject.enqueue(numbers, 1).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_comes_in_batches_that_make_up_the_rate() {
        for rate in [1, 7, 50, 5_000, 100_000] {
            let (batch, every) = Pace::PerSecond(rate).batch();
            let per_s = f64::from(batch) / every.unwrap().as_secs_f64() * SIDE as f64;
            assert!((per_s / f64::from(rate) - 1.0).abs() < 1e-3, "{rate}: {per_s}");
            assert!((1..=BATCH).contains(&batch), "{rate}: {batch}");
        }
        assert_eq!(Pace::Full.batch(), (BATCH, None));
    }
}
