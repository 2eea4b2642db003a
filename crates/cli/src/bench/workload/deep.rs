//! W5deep: draining and promoting with millions of others in the store, and how long it takes to look at them.

use super::super::clock;
use super::super::meter::Sample;
use super::super::subject::EngineSubject;
use super::drain::{Crew, Queues};
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

/// Where scheduled jobs are: those that become due are then alone in a line of their own.
const LATER_QUEUE: &str = "windlass-bench-later";
/// Callers that fill the store.
const FILLERS: usize = 4;
/// Filled between two rounds of compaction, which a service would do meanwhile.
const COMPACT_EVERY: u64 = 200_000;
/// When the jobs that are to be promoted become due: after they are all there, or at least soon.
const DUE_MS: u64 = 1_000;
/// How often the store is looked at; the slowest counts.
const LOOKS: usize = 5;
/// How long a page may take.
const PAGE_MAX: Duration = Duration::from_secs(60);
/// How much of an answer is read at most.
const PAGE_BYTES_MAX: u64 = 16 << 20;

/// Drains and promotes with so many others waiting in the same line, and so many scheduled for later.
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

    let mut looks = Sample::default();
    looks.figure("stats_ms", stats_ms(bench).await?);
    looks.figure("overview_ms", overview_ms(bench).await?);
    let drained = drain(bench, jobs).await?;
    if let Some(rate) = promote(&later, jobs).await? {
        looks.figure("promoted_jobs_per_s", rate);
    }
    let due = drain(&later, jobs).await?;
    if let Some(rate) = due.jobs_per_s {
        looks.figure("due_drained_jobs_per_s", rate);
    }
    Ok(Sample { figures: looks.figures, ..drained })
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
    let mut crew = Crew::gather(&bench.callers(bench.calls.fetchers)).await?;
    crew.drain(bench, jobs, Queues::One, &mut meter).await?;
    Ok(meter.sample(jobs, Vec::new()))
}

/// Lets in what is due, step by step as the service does; jobs per second. `None` if the store lets them in by itself.
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
    ensure!(promoted <= jobs, "{promoted} jobs were let in although {jobs} are due");
    Ok((promoted == jobs).then(|| promoted as f64 / passed_s))
}

/// How long the numbers of all lanes take.
async fn stats_ms(bench: &Bench<EngineSubject>) -> Result<f64> {
    let mut slowest = 0.0_f64;
    for _ in 0..LOOKS {
        let began = clock::now();
        bench.subject.stats().await?;
        slowest = slowest.max(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(slowest)
}

/// How long the first page of the dashboard takes, from a server in this process.
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
        let page = page.context("the overview did not come in time").and_then(|page| page);
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
