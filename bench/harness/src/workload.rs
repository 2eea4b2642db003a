//! The workloads: what is enqueued, awaited and timed. Knows no queue.

use crate::order::{Answer, Order, Workload};
use crate::seen::{Seen, UNCOUNTED, now};
use crate::{Payload, Queue, usage};
use anyhow::{Context as _, Result, ensure};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// W4: interval between two jobs.
const IDLE_EVERY: Duration = Duration::from_millis(20);
/// W4: idle time of the queue before the first job.
const REST: Duration = Duration::from_millis(500);
/// W6: number of jobs per call.
const BATCH: u64 = 100;
/// W6: number of concurrent callers.
const PRODUCERS: usize = 4;
/// W6: maximum number of jobs in flight.
const IN_FLIGHT: usize = 1_000;
/// Polling interval of the store or the handlers.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// W6: maximum time for the last jobs after the time is up.
const TAIL: Duration = Duration::from_secs(8);
/// Maximum time until a worker starts its first job, and between two jobs.
const PATIENCE: Duration = Duration::from_secs(20);

/// The result of the measured part.
struct Measured {
    jobs: u64,
    others: u64,
    took: Duration,
    cpu_s: f64,
    latencies_ms: Vec<f64>,
}

/// Runs the measurement.
pub(crate) async fn run<Q: Queue>(order: &Order) -> Result<Answer> {
    let queue = Q::open(&order.url).await.context("cannot open the store")?;
    let mut measured = match order.workload {
        Workload::W1seq => singles(&queue, order, 1).await,
        Workload::W1c64 => singles(&queue, order, 64).await,
        Workload::W2 => bulk(&queue, order).await,
        Workload::W3 | Workload::W5 => drain(&queue, order).await,
        Workload::W4 => idle(&queue, order).await,
        Workload::W6 => sustained(&queue, order).await,
    }?;
    ensure!(measured.jobs > 0, "not a single job went through in {:?}", measured.took);
    let about = queue.about();
    Ok(Answer {
        jobs: measured.jobs,
        seconds: measured.took.as_secs_f64(),
        others: measured.others,
        p50_ms: percentile(&mut measured.latencies_ms, 50.0),
        p99_ms: percentile(&mut measured.latencies_ms, 99.0),
        cpu_s: measured.cpu_s,
        rss_mb: usage::rss_mb(),
        version: about.version,
        settings: about.settings,
    })
}

/// A stopwatch that also measures CPU time.
struct Watch {
    began: Instant,
    cpu_s: f64,
}

impl Watch {
    fn start() -> Self {
        Self { began: now(), cpu_s: usage::cpu_s() }
    }

    fn stop(&self, jobs: u64, others: u64, latencies_ms: Vec<f64>) -> Measured {
        let cpu_s = usage::cpu_s() - self.cpu_s;
        Measured { jobs, others, took: self.began.elapsed(), cpu_s, latencies_ms }
    }
}

/// W1: single enqueues by `callers` callers until the time is up.
async fn singles<Q: Queue>(queue: &Q, order: &Order, callers: usize) -> Result<Measured> {
    // One uncounted enqueue, which opens connections and prepares statements.
    queue.enqueue(Payload::new(UNCOUNTED)).await?;
    let next = Arc::new(AtomicU64::new(0));
    let watch = Watch::start();
    let until = watch.began + order.time();
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let (queue, next) = (queue.clone(), Arc::clone(&next));
        tasks.spawn(async move {
            let mut latencies_ms = Vec::new();
            loop {
                let began = now();
                if began >= until {
                    return anyhow::Ok(latencies_ms);
                }
                let n = next.fetch_add(1, Ordering::Relaxed);
                queue.enqueue(Payload::new(n)).await?;
                latencies_ms.push(began.elapsed().as_secs_f64() * 1e3);
            }
        });
    }
    let mut latencies_ms = Vec::new();
    while let Some(task) = tasks.join_next().await {
        latencies_ms.append(&mut task??);
    }
    Ok(watch.stop(latencies_ms.len() as u64, 0, latencies_ms))
}

/// W2: many jobs by the fastest path.
async fn bulk<Q: Queue>(queue: &Q, order: &Order) -> Result<Measured> {
    queue.enqueue_many(vec![Payload::new(UNCOUNTED)]).await?;
    let watch = Watch::start();
    let jobs = fill(queue, order.jobs, order.time()).await?;
    Ok(watch.stop(jobs, 0, Vec::new()))
}

/// Stores `jobs` jobs, or as many as the time allows; returns how many.
async fn fill<Q: Queue>(queue: &Q, jobs: u64, time: Duration) -> Result<u64> {
    let about = queue.about();
    let (bulk, until) = (about.bulk as u64, now() + time);
    let next = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..about.bulk_callers {
        let (queue, next) = (queue.clone(), Arc::clone(&next));
        tasks.spawn(async move {
            let mut stored = 0;
            while now() < until {
                let from = next.fetch_add(bulk, Ordering::Relaxed);
                if from >= jobs {
                    break;
                }
                let upto = (from + bulk).min(jobs);
                queue.enqueue_many(payloads(from..upto)).await?;
                stored += upto - from;
            }
            anyhow::Ok(stored)
        });
    }
    let mut stored = 0;
    while let Some(task) = tasks.join_next().await {
        stored += task??;
    }
    Ok(stored)
}

fn payloads(numbers: Range<u64>) -> Vec<Payload> {
    numbers.map(Payload::new).collect()
}

/// W3 and W5: starts a worker on a filled store, and measures the time until the store shows the jobs as
/// completed.
async fn drain<Q: Queue>(queue: &Q, order: &Order) -> Result<Measured> {
    let stored = fill(queue, order.jobs + order.others, order.fill_time()).await?;
    // If filling took too long, fewer jobs wait behind; the result says how many.
    let jobs = order.jobs.min(stored);
    let others = stored - jobs;
    let seen = Seen::new(false, 0);
    let watch = Watch::start();
    let until = watch.began + order.time();
    queue.work(seen.clone()).await?;
    while seen.started() < jobs && now() < until {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let mut left = queue.left().await?;
    while left > others && now() < until {
        tokio::time::sleep(LOOK_EVERY).await;
        left = queue.left().await?;
    }
    Ok(watch.stop(stored.saturating_sub(left), others, Vec::new()))
}

/// W4: single jobs on an idle queue.
async fn idle<Q: Queue>(queue: &Q, order: &Order) -> Result<Measured> {
    let seen = Seen::new(true, 0);
    awake(queue, &seen).await?;
    tokio::time::sleep(REST).await;
    let watch = Watch::start();
    let until = watch.began + order.time();
    let mut ticks = tokio::time::interval(IDLE_EVERY);
    let mut called = 0;
    while called < order.jobs && now() < until {
        ticks.tick().await;
        seen.call(called);
        queue.enqueue(Payload::new(called)).await?;
        called += 1;
    }
    all_started(&seen, called).await?;
    Ok(watch.stop(called, 0, seen.latencies_ms()))
}

/// W6: producers and a worker at the same time, with a limit of jobs in flight, until the time is up and every
/// job is completed.
async fn sustained<Q: Queue>(queue: &Q, order: &Order) -> Result<Measured> {
    let seen = Seen::new(true, IN_FLIGHT);
    awake(queue, &seen).await?;
    let next = Arc::new(AtomicU64::new(0));
    let watch = Watch::start();
    let until = watch.began + order.time();
    let mut producers = JoinSet::new();
    for _ in 0..PRODUCERS {
        let (queue, seen, next) = (queue.clone(), seen.clone(), Arc::clone(&next));
        producers.spawn(async move {
            while now() < until {
                let room = tokio::time::timeout(PATIENCE, seen.room().acquire_many(BATCH as u32));
                room.await.context("no job was started for too long")??.forget();
                let from = next.fetch_add(BATCH, Ordering::Relaxed);
                (from..from + BATCH).for_each(|n| seen.call(n));
                queue.enqueue_many(payloads(from..from + BATCH)).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(task) = producers.join_next().await {
        task??;
    }
    let jobs = next.load(Ordering::Relaxed);
    // The time runs until every job is completed. A queue that starts jobs faster than it completes them has a
    // long tail; after `TAIL`, only completed jobs count.
    let deadline = now() + TAIL;
    let mut left = queue.left().await?;
    while left > 0 && now() < deadline {
        tokio::time::sleep(LOOK_EVERY).await;
        left = queue.left().await?;
    }
    Ok(watch.stop(jobs.saturating_sub(left), 0, seen.latencies_ms()))
}

/// Starts a worker and waits until it has run a job.
async fn awake<Q: Queue>(queue: &Q, seen: &Seen) -> Result<()> {
    queue.work(seen.clone()).await?;
    queue.enqueue(Payload::new(UNCOUNTED)).await?;
    let deadline = now() + PATIENCE;
    while !seen.is_awake() {
        ensure!(now() < deadline, "the worker did not take its first job in {PATIENCE:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

async fn all_started(seen: &Seen, jobs: u64) -> Result<()> {
    let deadline = now() + PATIENCE;
    while seen.started() < jobs {
        let missing = jobs - seen.started();
        ensure!(now() < deadline, "{missing} of {jobs} jobs were not started in {PATIENCE:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

/// The smallest value that at least `percent` of all values do not exceed; none without values.
fn percentile(values: &mut [f64], percent: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (values.len() as f64 * percent / 100.0).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests;
