//! Producers and workers at the same time: what W4, W6, W7 and the soak have in common. Knows no workload.

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

/// Jobs enqueued and not yet completed at a time. Bounds the latency; a multiple of the batch.
const IN_FLIGHT: u32 = 10 * BATCH;
/// Callers that enqueue, and fetchers of the worker process.
const SIDE: usize = 4;
/// How many batches a second a paced producer hands over, at least, if there are so many jobs.
const BATCHES_PER_S: u32 = 10;
/// How long a wait for jobs lasts, at most: short of a heartbeat.
const WAIT_MS: u64 = 1_000;
/// After so long without a job although some are missing, the store has lost them.
const DRY: Duration = Duration::from_secs(10);

/// When each job was handed over. A ring: far more places than jobs in flight.
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

    /// The call of enqueue begins.
    fn begin(&self, number: u64, micros: u64) {
        self.place(number).store(micros, Ordering::Relaxed);
    }

    /// The handler starts at `micros`; how many it waited.
    fn waited(&self, number: u64, micros: u64) -> u64 {
        micros.saturating_sub(self.place(number).load(Ordering::Relaxed))
    }
}

/// What the two sides share.
pub(super) struct Line {
    handover: Handover,
    next: AtomicU64,
    /// What is watched from outside.
    pub(super) counter: Arc<Counter>,
    /// Set when producers are to end.
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

    /// One more job will come.
    pub(super) fn expect(&self) {
        self.next.fetch_add(1, Ordering::SeqCst);
    }

    /// The job with this number is handed over just now.
    pub(super) fn hand_over(&self, number: u64) {
        self.handover.begin(number, self.handover.micros());
    }

    /// Nothing more will come.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// How long jobs waited for their handlers so far.
    pub(super) fn latencies(&self) -> Latencies {
        self.counter.latencies.read()
    }

    fn is_over(&self) -> bool {
        let (enqueued, completed) = (self.next.load(Ordering::SeqCst), self.counter.completed());
        self.closed.load(Ordering::SeqCst) && enqueued == completed
    }
}

/// How fast producers are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// As fast as there is room in flight.
    Full,
    /// So many jobs a second, all together, as long as there is room.
    PerSecond(u32),
}

impl Pace {
    /// How many jobs each of the producers hands over at a time, and how often.
    fn batch(self) -> (u32, Option<Duration>) {
        let Self::PerSecond(rate) = self else { return (BATCH, None) };
        let rate = f64::from(rate.max(1)) / SIDE as f64;
        let batch = (rate / f64::from(BATCHES_PER_S)).clamp(1.0, f64::from(BATCH)).floor();
        (batch as u32, Some(Duration::from_secs_f64(batch / rate)))
    }
}

/// Producers and workers under way.
pub(super) struct Load {
    line: Arc<Line>,
    producers: JoinSet<Result<()>>,
    workers: JoinSet<Result<()>>,
}

impl Load {
    /// Starts them all.
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

    /// Whether all of them are still at work: who ended early has failed.
    pub(super) fn check(&mut self) -> Result<()> {
        for tasks in [&mut self.producers, &mut self.workers] {
            while let Some(task) = tasks.try_join_next() {
                task??;
            }
        }
        Ok(())
    }

    /// Ends producers, and workers when everything is done.
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

/// Runs jobs until the line is over, counting how long each waited for its handler.
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
                // Nothing is missing: a slow producer has not come by yet.
                heard = clock::now();
            }
            ensure!(heard.elapsed() < DRY, "no job came for {DRY:?} although some are missing");
            // Once nothing more comes, only the other fetchers have jobs: look again soon.
            let closed = line.closed.load(Ordering::SeqCst);
            subject.wait(if closed { 1 } else { WAIT_MS }).await?;
        }
    }
}

/// Enqueues batches while there is room in flight, until told to stop.
async fn produce(subject: EngineSubject, line: Arc<Line>, pace: Pace) -> Result<()> {
    let (batch, every) = pace.batch();
    // What was missed is made up for, so that the rate holds over time.
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
