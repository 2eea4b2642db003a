//! W4: latency of single jobs on an idle queue, from enqueue to the start of the handler.

use super::super::meter::Sample;
use super::super::subject::{EngineSubject, QUEUE, Subject as _, payload};
use super::Bench;
use super::load::{Line, run};
use crate::connect::Url;
use anyhow::{Result, bail};
use std::sync::Arc;
use std::time::Duration;

/// Interval between two jobs.
const IDLE_EVERY: Duration = Duration::from_millis(20);

/// W4: single jobs on an idle queue.
pub(super) async fn idle(bench: &Bench<EngineSubject>) -> Result<Sample> {
    let jobs = bench.profile.idle_jobs;
    let line = Line::new();
    let worker = bench.subject.worker().await?;
    bench.progress.phase("idling", jobs);
    let mut meter = bench.meter();
    meter.begin(bench.subject.counts().await);
    let worker = tokio::spawn(run(bench.subject.clone(), worker, Arc::clone(&line)));
    let mut ticks = tokio::time::interval(IDLE_EVERY);
    for number in 0..jobs {
        ticks.tick().await;
        line.enqueue_one(number);
        line.expect();
        bench.subject.enqueue(number..number + 1, 1).await?;
        bench.progress.add(1);
    }
    line.close();
    worker.await??;
    meter.end(bench.subject.counts().await);
    Ok(meter.sample_with(jobs, &line.latencies()))
}

/// W4commit: single jobs enqueued by SQL in transactions of an application. One other transaction stays open
/// during the whole measurement.
pub(super) async fn committed(bench: &Bench<EngineSubject>, url: &Url) -> Result<Sample> {
    let Url::Postgres(at) = url else { bail!("only PostgreSQL has transactions of applications") };
    let (client, connection) = tokio_postgres::connect(at.server(), tokio_postgres::NoTls).await?;
    let (open, open_connection) =
        tokio_postgres::connect(at.server(), tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    tokio::spawn(open_connection);
    let enqueue = format!(
        "SELECT \"{}\".enqueue(kind => 'noop-0', queue => '{QUEUE}', payload => $1::text::jsonb)",
        at.schema()
    );
    let jobs = bench.profile.idle_jobs;
    let line = Line::new();
    let worker = bench.subject.worker().await?;
    // Creates the lane beforehand: the first job of a kind creates it, and other jobs of that kind would wait
    // for its transaction.
    bench.subject.enqueue(jobs..jobs + 1, 1).await?;
    line.expect();
    line.enqueue_one(jobs);
    open.batch_execute("BEGIN").await?;
    open.query(&enqueue, &[&payload(jobs + 1)]).await?;
    bench.progress.phase("idling", jobs);
    let mut meter = bench.meter();
    meter.begin(bench.subject.counts().await);
    let worker = tokio::spawn(run(bench.subject.clone(), worker, Arc::clone(&line)));
    let mut ticks = tokio::time::interval(IDLE_EVERY);
    for number in 0..jobs {
        ticks.tick().await;
        line.expect();
        client.batch_execute("BEGIN").await?;
        client.query(&enqueue, &[&payload(number)]).await?;
        line.enqueue_one(number);
        client.batch_execute("COMMIT").await?;
        bench.progress.add(1);
    }
    line.close();
    worker.await??;
    meter.end(bench.subject.counts().await);
    open.batch_execute("ROLLBACK").await?;
    Ok(meter.sample_with(jobs, &line.latencies()))
}
