//! W1 and W2: enqueues jobs, one by one and in bulk.

use super::super::clock;
use super::super::meter::Sample;
use super::super::subject::Subject;
use super::{Bench, Calls};
use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// Single enqueues by concurrent callers, each with its own handle of the store.
pub(super) async fn singles<S: Subject>(
    bench: &Bench<S>,
    callers: Vec<S>,
    for_ms: u64,
) -> Result<Sample> {
    let jobs_max = bench.profile.jobs_max;
    let next = Arc::new(AtomicU64::new(0));
    bench.progress.phase("enqueue", for_ms);
    let mut meter = bench.meter();
    meter.begin(bench.subject.counts().await);
    let began = clock::now();
    let until = began + Duration::from_millis(for_ms);
    let mut tasks = JoinSet::new();
    for subject in callers {
        let (next, progress) = (Arc::clone(&next), bench.progress.clone());
        tasks.spawn(async move {
            let mut latencies_ms = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let start = clock::now();
                if start >= until || number >= jobs_max {
                    return anyhow::Ok(latencies_ms);
                }
                subject.enqueue(number..number + 1, 1).await?;
                latencies_ms.push(clock::ms_since(start));
                if number.is_multiple_of(256) {
                    progress.at(began.elapsed().as_millis() as u64);
                }
            }
        });
    }
    let mut latencies_ms = Vec::new();
    while let Some(task) = tasks.join_next().await {
        latencies_ms.append(&mut task??);
    }
    meter.end(bench.subject.counts().await);
    Ok(meter.sample(latencies_ms.len() as u64, latencies_ms))
}

/// Enqueues many jobs by the fastest bulk path.
pub(super) async fn bulk<S: Subject>(bench: &Bench<S>) -> Result<Sample> {
    let jobs = bench.profile.bulk_jobs;
    let Calls { bulk, bulk_callers, .. } = bench.calls;
    let next = Arc::new(AtomicU64::new(0));
    bench.progress.phase("enqueue", jobs);
    let mut meter = bench.meter();
    meter.begin(bench.subject.counts().await);
    let mut tasks = JoinSet::new();
    for _ in 0..bulk_callers {
        let (subject, next, progress) =
            (bench.subject.clone(), Arc::clone(&next), bench.progress.clone());
        tasks.spawn(async move {
            loop {
                let from = next.fetch_add(bulk, Ordering::Relaxed);
                if from >= jobs {
                    return anyhow::Ok(());
                }
                subject.enqueue(from..(from + bulk).min(jobs), 1).await?;
                progress.add(bulk);
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    meter.end(bench.subject.counts().await);
    Ok(meter.sample(jobs, Vec::new()))
}
