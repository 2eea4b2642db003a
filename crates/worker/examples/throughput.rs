//! Measures a worker on the memory and local engines and prints plain numbers:
//! no-op throughput, CPU when idle, pick-up latency, and a soak with panics, timeouts and retries.
//!
//! `cargo run --release -p windlass-worker --example throughput [noop|idle|latency|soak]`

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use windlass_core::TypedJob;
use windlass_core::engine::{Engine, Enqueue, MaintainRequest, Work};
use windlass_core::limits::MAINTAIN_BUDGET_MAX;
use windlass_core::model::{NewJob, State as JobState};
use windlass_core::policy::{Backoff, Retention};
use windlass_local::{LocalEngine, Options};
use windlass_memory::MemoryEngine;
use windlass_worker::{Builder, Ctx, Data, Json, Stop, Worker, WorkerHandle};

const JOBS: u64 = 1_000_000;
const BATCH: u64 = 10_000;

#[derive(Serialize, Deserialize)]
struct Noop {
    number: u64,
}

impl TypedJob for Noop {
    const KIND: &'static str = "noop";
    type Output = ();
}

type Any = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Any> {
    let only = std::env::args().nth(1);
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    if wanted("noop") {
        for round in 1..=3 {
            noop(round).await?;
        }
    }
    if wanted("idle") {
        idle(Arc::new(MemoryEngine::new()), "memory").await?;
        let dir = tempfile::tempdir()?;
        idle(Arc::new(LocalEngine::open(Options::new(dir.path()))?), "local").await?;
    }
    if wanted("latency") {
        latency(Arc::new(MemoryEngine::new()), "memory").await?;
        let dir = tempfile::tempdir()?;
        latency(Arc::new(LocalEngine::open(Options::new(dir.path()))?), "local").await?;
    }
    if wanted("soak") {
        soak().await?;
    }
    Ok(())
}

fn job(number: u64) -> NewJob {
    NewJob::new(Noop::KIND).json(format!(r#"{{"number":{number}}}"#))
}

async fn preload(engine: &dyn Engine, make: impl Fn(u64) -> NewJob) -> Result<(), Any> {
    for batch in 0..JOBS / BATCH {
        let jobs = (batch * BATCH..(batch + 1) * BATCH).map(&make);
        engine.enqueue(Enqueue::each(jobs)).await?;
    }
    Ok(())
}

/// How many jobs that do nothing one worker gets through, everything at its default.
async fn noop(round: u32) -> Result<(), Any> {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    preload(&*engine, job).await?;
    let start = Instant::now();
    let cpu = cpu_time();
    let worker = Worker::builder(engine.clone()).handle(|_: Noop| async {}).build()?.start();
    until(&worker, |worker| worker.stats().completed == JOBS).await;
    let took = start.elapsed();
    println!(
        "noop round={round} jobs={JOBS} seconds={:.2} jobs_per_second={:.0} cpu_seconds={:.2}",
        took.as_secs_f64(),
        JOBS as f64 / took.as_secs_f64(),
        (cpu_time() - cpu).as_secs_f64()
    );
    worker.drain().await;
    Ok(())
}

/// The cost of an idle worker.
async fn idle(engine: Arc<dyn Engine>, name: &str) -> Result<(), Any> {
    let worker = Worker::builder(engine).handle(|_: Noop| async {}).build()?.start();
    until(&worker, |worker| worker.health().consuming).await;
    let (cpu, time) = (cpu_time(), Duration::from_secs(10));
    tokio::time::sleep(time).await;
    let used = cpu_time() - cpu;
    println!(
        "idle engine={name} cpu_percent={:.3}",
        100.0 * used.as_secs_f64() / time.as_secs_f64()
    );
    worker.drain().await;
    Ok(())
}

/// From the start of an enqueue to the start of the handler, on an idle queue.
async fn latency(engine: Arc<dyn Engine>, name: &str) -> Result<(), Any> {
    let (started, mut starts) = mpsc::unbounded_channel::<Instant>();
    let handler = |_: Noop, Data(started): Data<mpsc::UnboundedSender<Instant>>| async move {
        let _ = started.send(Instant::now());
    };
    let builder = Worker::builder(engine.clone()).data(started).handle(handler);
    let worker = builder.build()?.start();
    until(&worker, |worker| worker.health().consuming).await;
    let mut from_call = Vec::new();
    let mut from_stored = Vec::new();
    for number in 0..1_000 {
        let sent = Instant::now();
        engine.enqueue(Enqueue::each([job(number)])).await?;
        let stored = Instant::now();
        let start = starts.recv().await.ok_or("the worker is gone")?;
        from_call.push(start - sent);
        from_stored.push(start.saturating_duration_since(stored));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for (what, times) in [("enqueue_call", &mut from_call), ("acknowledged", &mut from_stored)] {
        times.sort();
        let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1_000.0;
        println!(
            "latency engine={name} from={what} p50_ms={:.3} p99_ms={:.3} max_ms={:.3}",
            at(50),
            at(99),
            times[times.len() - 1].as_secs_f64() * 1_000.0
        );
    }
    worker.drain().await;
    Ok(())
}

/// A million jobs of which some panic, hang or fail; all of them must end, and memory must not grow.
///
/// The store keeps no job that has ended and never has many, so that what grows is the worker.
async fn soak() -> Result<(), Any> {
    const DEPTH_MAX: u64 = 50_000;
    // Ten thousand panics would drown the figures.
    std::panic::set_hook(Box::new(|_| {}));
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let start = Instant::now();
    let worker = soaking(Worker::builder(engine.clone())).build()?.start();
    let (mut fed, mut ended, mut said) = (0, Ends::default(), 0);
    while ended.completed + ended.other < JOBS {
        if fed < JOBS && fed - ended.completed - ended.other <= DEPTH_MAX - BATCH {
            engine.enqueue(Enqueue::each((fed..fed + BATCH).map(soak_job))).await?;
            fed += BATCH;
        }
        engine.maintain(MaintainRequest::new(Work::Promote, MAINTAIN_BUDGET_MAX)).await?;
        ended.retain(&*engine).await?;
        if ended.completed / 100_000 > said {
            said = ended.completed / 100_000;
            let (seconds, rss_mb) = (start.elapsed().as_secs_f64(), rss_mb());
            println!("soak seconds={seconds:.1} ended={} rss_mb={rss_mb}", ended.completed);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let stats = worker.stats();
    worker.drain().await;
    let check = engine.check(false).await?.value;
    println!("soak {stats:?}");
    println!("soak completed={} other={} left={}", ended.completed, ended.other, check.jobs);
    let whole = ended.completed == JOBS && ended.other == 0 && check.jobs == 0;
    let reported = stats.completed == JOBS && stats.retried == JOBS * 7 / 100;
    if whole && reported { Ok(()) } else { Err("some jobs are not accounted for".into()) }
}

fn soak_job(number: u64) -> NewJob {
    let mut job = job(number).max_attempts(3).backoff(Backoff::exactly(200));
    job.policy.retention = Some(Retention::uniform_ms(1));
    job
}

/// Jobs that have ended, as the store counts them when it lets go of them.
#[derive(Default)]
struct Ends {
    completed: u64,
    other: u64,
}

impl Ends {
    async fn retain(&mut self, engine: &dyn Engine) -> Result<(), Any> {
        let retain = MaintainRequest::new(Work::Retain, MAINTAIN_BUDGET_MAX);
        for tally in engine.maintain(retain).await?.value.tallies {
            match tally.from {
                JobState::Completed => self.completed += tally.count,
                _ => self.other += tally.count,
            }
        }
        Ok(())
    }
}

/// 1 % panic once, 1 % hang once until their timeout, 5 % fail once.
fn soaking(builder: Builder) -> Builder {
    let handler = |Json(job): Json<Noop>, ctx: Ctx| async move {
        match job.number % 100 {
            _ if ctx.attempt() > 1 => Ok(()),
            0 => panic!("on purpose"),
            1 => std::future::pending::<Result<(), Stop>>().await,
            2..=6 => Err(Stop::retry("on purpose")),
            _ => Ok(()),
        }
    };
    builder.handle(handler).kind_timeout(Noop::KIND, Duration::from_millis(20))
}

async fn until(worker: &WorkerHandle, done: impl Fn(&WorkerHandle) -> bool) {
    while !done(worker) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// CPU time of this process so far, from `/proc`.
fn cpu_time() -> Duration {
    const TICKS_PER_SECOND: u64 = 100;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |field: usize| {
        after_name.split_whitespace().nth(field).and_then(|text| text.parse::<u64>().ok())
    };
    let ticks = ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0);
    Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND)
}

/// Memory of this process that is in use, from `/proc`.
fn rss_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) / 1_024
}
