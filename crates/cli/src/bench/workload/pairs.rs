//! P256: as many producers as workers, all with single jobs: the hardest case for group commit.

use super::super::clock;
use super::super::meter::Sample;
use super::super::subject::{Subject, Worker};
use super::Bench;
use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Runs `pairs` producers and as many workers for the duration of W1. The rate is that of completions, the
/// latency that of the producers' calls. Workers complete and claim in two calls, or in one if `at_once`.
pub(super) async fn pairs<S: Subject>(
    bench: &Bench<S>,
    pairs: usize,
    at_once: bool,
) -> Result<Sample> {
    let for_ms = bench.profile.callers_ms;
    bench.progress.phase("working", for_ms);
    let mut workers = Vec::with_capacity(pairs);
    for _ in 0..pairs {
        workers.push(bench.subject.worker().await?);
    }
    let mut meter = bench.meter();
    meter.begin(bench.subject.counts().await);
    let began = clock::now();
    let until = began + Duration::from_millis(for_ms);
    let next = Arc::new(AtomicU64::new(0));
    let mut producing = JoinSet::new();
    let mut working = JoinSet::new();
    for worker in workers {
        let produce =
            produce(bench.subject.clone(), Arc::clone(&next), bench.profile.jobs_max, until);
        producing.spawn(produce);
        working.spawn(work(worker, until, at_once));
    }
    while clock::now() < until && !producing.is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
        bench.progress.at(began.elapsed().as_millis() as u64);
    }
    let (mut latencies_ms, mut completed) = (Vec::new(), 0);
    while let Some(task) = producing.join_next().await {
        latencies_ms.append(&mut task??);
    }
    while let Some(task) = working.join_next().await {
        completed += task??;
    }
    meter.end(bench.subject.counts().await);
    Ok(meter.sample(completed, latencies_ms))
}

async fn produce<S: Subject>(
    subject: S,
    next: Arc<AtomicU64>,
    jobs_max: u64,
    until: Instant,
) -> Result<Vec<f32>> {
    let mut latencies_ms = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let start = clock::now();
        if start >= until || number >= jobs_max {
            return Ok(latencies_ms);
        }
        subject.enqueue(number..number + 1, 1).await?;
        latencies_ms.push(clock::ms_since(start));
    }
}

async fn work<W: Worker>(mut worker: W, until: Instant, at_once: bool) -> Result<u64> {
    let (mut held, mut completed) = (Vec::new(), 0);
    loop {
        let ending = clock::now() >= until;
        if !at_once && !held.is_empty() {
            completed += held.len() as u64;
            held = worker.next(held, 0).await?;
        }
        let count = held.len() as u64;
        held = worker.next(held, u32::from(!ending)).await?;
        completed += count;
        if ending {
            return Ok(completed);
        }
        if held.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
