//! W5deep: drains and promotes jobs with millions of others in the store, and measures queries over them.

use super::super::clock;
use super::super::meter::Sample;
use super::super::subject::EngineSubject;
use super::drain::{Fetchers, Queues};
use super::{Bench, FILL};
use anyhow::{Context as _, Result, ensure};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use windlass_core::engine::Work;
use windlass_core::model::Due;
use windlass_core::time::DAY_MS;

/// Queue of the scheduled jobs. It is separate, so that jobs that become due are alone in their lane.
const LATER_QUEUE: &str = "windlass-bench-later";
/// Number of concurrent callers that fill the store.
const FILLERS: usize = 4;
/// Number of jobs filled between two compactions, which the services would do meanwhile.
const COMPACT_EVERY: u64 = 200_000;
/// Delay of the jobs to be promoted: they become due after all of them are stored, or shortly before.
const DUE_MS: u64 = 1_000;
/// Number of measurements of each query; the slowest counts.
const LOOKS: usize = 5;
/// Timeout of a page.
const PAGE_MAX: Duration = Duration::from_secs(60);
/// Maximum number of bytes read of a response.
const PAGE_BYTES_MAX: u64 = 16 << 20;

/// Drains and promotes with `ready` other jobs waiting in the same lane, and `scheduled` others scheduled for
/// later.
pub(super) async fn among(
    bench: &Bench<EngineSubject>,
    ready: u64,
    scheduled: u64,
) -> Result<Sample> {
    let jobs = bench.profile.deep_jobs;
    let later = Bench {
        subject: bench.subject.on(LATER_QUEUE),
        profile: Arc::clone(&bench.profile),
        progress: bench.progress.clone(),
        calls: bench.calls,
        process: bench.process,
    };
    bench.progress.phase("filling", 2 * jobs + ready + scheduled);
    fill(bench, 0..jobs + ready, Due::Now).await?;
    fill(&later, jobs..jobs + scheduled, Due::After(DAY_MS)).await?;
    fill(&later, 0..jobs, Due::After(DUE_MS)).await?;
    tokio::time::sleep(Duration::from_millis(DUE_MS)).await;

    let mut extra = Sample::default();
    extra.figure("stats_ms", stats_ms(bench).await?);
    extra.figure("overview_ms", overview_ms(bench).await?);
    let drained = drain(bench, jobs).await?;
    if let Some(rate) = promote(&later, jobs).await? {
        extra.figure("promoted_jobs_per_s", rate);
    }
    let due = drain(&later, jobs).await?;
    if let Some(rate) = due.jobs_per_s {
        extra.figure("due_drained_jobs_per_s", rate);
    }
    Ok(Sample { figures: extra.figures, ..drained })
}

/// Stores jobs by the fastest path, several batches at a time.
async fn fill(bench: &Bench<EngineSubject>, numbers: Range<u64>, due: Due) -> Result<()> {
    let mut from = numbers.start;
    while from < numbers.end {
        let upto = (from + COMPACT_EVERY).min(numbers.end);
        let next = Arc::new(AtomicU64::new(from));
        let mut fillers = JoinSet::new();
        for _ in 0..FILLERS {
            let (subject, progress) = (bench.subject.clone(), bench.progress.clone());
            let next = Arc::clone(&next);
            fillers.spawn(async move {
                loop {
                    let from = next.fetch_add(FILL, Ordering::Relaxed);
                    if from >= upto {
                        return anyhow::Ok(());
                    }
                    let batch = from..(from + FILL).min(upto);
                    progress.add(batch.end - batch.start);
                    subject.enqueue_due(batch, 1, due).await?;
                }
            });
        }
        while let Some(filler) = fillers.join_next().await {
            filler??;
        }
        bench.subject.maintain(Work::Compact).await?;
        from = upto;
    }
    Ok(())
}

async fn drain(bench: &Bench<EngineSubject>, jobs: u64) -> Result<Sample> {
    let mut meter = bench.meter();
    let mut fetchers = Fetchers::gather(&bench.callers(bench.calls.fetchers)).await?;
    fetchers.drain(bench, jobs, Queues::One, &mut meter).await?;
    Ok(meter.sample(jobs, Vec::new()))
}

/// Promotes due jobs step by step, as the service does; returns jobs per second. `None` if the store promotes
/// them by itself.
async fn promote(bench: &Bench<EngineSubject>, jobs: u64) -> Result<Option<f64>> {
    bench.progress.phase("promoting", jobs);
    let (began, mut promoted) = (clock::now(), 0);
    loop {
        let step = bench.subject.maintain(Work::Promote).await?;
        promoted += u64::from(step.done);
        bench.progress.add(step.done.into());
        if !step.more || step.done == 0 {
            break;
        }
    }
    let passed_s = began.elapsed().as_secs_f64();
    ensure!(promoted <= jobs, "{promoted} jobs were promoted although {jobs} are due");
    Ok((promoted == jobs).then(|| promoted as f64 / passed_s))
}

/// The time to read the statistics of all lanes.
async fn stats_ms(bench: &Bench<EngineSubject>) -> Result<f64> {
    let mut slowest = 0.0_f64;
    for _ in 0..LOOKS {
        let began = clock::now();
        bench.subject.stats().await?;
        slowest = slowest.max(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(slowest)
}

/// The time to load the first page of the dashboard, from a server in this process.
async fn overview_ms(bench: &Bench<EngineSubject>) -> Result<f64> {
    let options = windlass_server::Options::new(([127, 0, 0, 1], 0).into()).services(None);
    let server = windlass_server::Server::bind(options).await?;
    let host = server.address().to_string();
    let handle = server.serve(bench.subject.shared_engine())?;
    let mut slowest = Ok(0.0_f64);
    for _ in 0..LOOKS {
        let began = clock::now();
        let page = tokio::time::timeout(PAGE_MAX, page(&host)).await;
        let passed_ms = began.elapsed().as_secs_f64() * 1e3;
        let page = page.context("the overview did not arrive in time").and_then(|page| page);
        slowest = page.and(slowest.map(|slowest| slowest.max(passed_ms)));
        if slowest.is_err() {
            break;
        }
    }
    handle.stop().await;
    slowest
}

async fn page(host: &str) -> Result<()> {
    let mut stream = TcpStream::connect(host).await?;
    let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.take(PAGE_BYTES_MAX).read_to_string(&mut answer).await?;
    let status = answer.lines().next().unwrap_or_default();
    ensure!(status.contains(" 200 "), "the overview answered {status:?}");
    Ok(())
}
