//! A store under steady load for a long time: does anything grow?
//!
//! `cargo run --release -p windlass-local --example soak -- [SECONDS] [JOBS_PER_S]` enqueues, runs and
//! completes jobs at a steady rate with a retention of 20 seconds, and prints a line of figures every
//! ten seconds. It ends by itself and cleans up.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::engine::*;
use windlass_core::model::{NewJob, QueuePatch};
use windlass_core::policy::Retention;
use windlass_local::{LocalEngine, Options};

const KEEP_MS: u64 = 20_000;
const TICK: Duration = Duration::from_millis(10);
const REPORT_EVERY: Duration = Duration::from_secs(10);
const BATCH: u32 = 200;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let seconds = args.next().transpose()?.unwrap_or(600);
    let rate = args.next().transpose()?.unwrap_or(5_000);
    let dir = tempfile::tempdir_in(".")?;
    let engine = LocalEngine::open(Options::new(dir.path()))?;
    let patch = QueuePatch::retention(Retention::uniform_ms(KEEP_MS));
    engine.configure(vec![Configure::queue("default", patch)]).await?;

    let (done, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let worker = tokio::spawn(work(engine.clone(), done.clone(), over.clone()));
    let upkeep = tokio::spawn(upkeep(engine.clone(), over.clone()));
    println!("{:>6} {:>10} {:>8} {:>8} {:>8}", "s", "done", "db MB", "wal MB", "RSS MB");
    let began = Instant::now();
    let (mut enqueued, mut reported) = (0, began);
    while began.elapsed() < Duration::from_secs(seconds) {
        let wanted = rate * began.elapsed().as_millis() as u64 / 1_000;
        let jobs = (enqueued..wanted).map(|n| NewJob::new("soak").json(payload(n)));
        engine.enqueue(Enqueue::each(jobs)).await?;
        enqueued = wanted;
        if reported.elapsed() >= REPORT_EVERY {
            reported = Instant::now();
            tell(began, dir.path(), done.load(Ordering::Relaxed))?;
        }
        tokio::time::sleep(TICK).await;
    }
    while done.load(Ordering::Relaxed) < enqueued {
        tokio::time::sleep(TICK).await;
    }
    over.store(true, Ordering::Relaxed);
    worker.await??;
    upkeep.await??;
    println!("enqueued {enqueued}, completed {}", done.load(Ordering::Relaxed));
    let report = engine.check(false).await?.value;
    println!("{} jobs are kept, {} findings", report.jobs, report.findings.len());
    Ok(())
}

fn payload(n: u64) -> String {
    format!(r#"{{"n":{n},"text":"{}"}}"#, "x".repeat(180))
}

async fn work(
    engine: LocalEngine,
    done: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
) -> windlass_core::Result<()> {
    let session = engine.open_session(OpenSession::new("soak")).await?.value.id;
    let (mut held, mut claim_no, mut beat) = (Vec::new(), 0, Instant::now());
    while !over.load(Ordering::Relaxed) {
        claim_no += 1;
        let by = Claimant::Session { session: session.clone(), claim_no };
        let count = held.len() as u64;
        let item = |job: ClaimedJob| SettleItem::new(job.header.id, job.lease, Outcome::DONE);
        let settle = Settle::new(held.drain(..).map(item)).then(Claim::new(by, "default", BATCH));
        let reply = engine.settle(settle).await?.value;
        reply.items.into_iter().collect::<windlass_core::Result<Vec<_>>>()?;
        done.fetch_add(count, Ordering::Relaxed);
        held = reply.claimed.transpose()?.unwrap_or_default().jobs;
        if held.is_empty() {
            engine.wait(Wait::new(["default"], 100)).await?;
        }
        if beat.elapsed() > Duration::from_secs(5) {
            beat = Instant::now();
            let mine = held.iter();
            let mine = mine.map(|job| Held { id: job.header.id, lease: job.lease.clone() });
            engine.heartbeat(Heartbeat::new(session.clone(), claim_no, mine.collect())).await?;
        }
    }
    Ok(())
}

async fn upkeep(engine: LocalEngine, over: Arc<AtomicBool>) -> windlass_core::Result<()> {
    while !over.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        for work in [Work::Retain, Work::Compact] {
            while engine.maintain(MaintainRequest::new(work, 1_000)).await?.value.more {}
        }
    }
    Ok(())
}

fn tell(began: Instant, dir: &Path, done: u64) -> std::io::Result<()> {
    let mb =
        |name: &str| std::fs::metadata(dir.join(name)).map_or(0.0, |file| file.len() as f64 / 1e6);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let rss = rss.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    println!(
        "{:>6} {:>10} {:>8.1} {:>8.1} {:>8.1}",
        began.elapsed().as_secs(),
        done,
        mb("windlass.db"),
        mb("windlass.db-wal"),
        rss.unwrap_or(0.0) / 1e3,
    );
    Ok(())
}
