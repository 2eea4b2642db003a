//! W4 and W6: producers and a worker at the same time; how long a job waits for its handler.

use super::super::clock;
use super::super::meter::Sample;
use super::super::subject::{
    EngineSubject, EngineWorker, Numbered as _, QUEUE, Subject as _, Worker as _, payload,
};
use super::{BATCH, Bench, Workload};
use crate::connect::Url;
use anyhow::{Context as _, Result, bail, ensure};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// W4: a job each so often.
const IDLE_EVERY: Duration = Duration::from_millis(20);
/// W6: jobs enqueued and not yet completed at a time. Bounds the latency; a multiple of the batch.
const IN_FLIGHT: u32 = 10 * BATCH;
/// W6: callers that enqueue, and fetchers of the worker process.
const SIDE: usize = 4;
/// W6: how long finished jobs are kept, so that removing them is part of what is sustained.
const KEEP_FINISHED_MS: u64 = 2_000;
/// W6: how often maintenance comes by.
const UPKEEP_EVERY: Duration = Duration::from_millis(250);
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

    /// The handler starts at `micros`; how long that took.
    fn start_ms(&self, number: u64, micros: u64) -> f32 {
        micros.saturating_sub(self.place(number).load(Ordering::Relaxed)) as f32 / 1e3
    }
}

/// What the two sides share.
struct Line {
    handover: Handover,
    next: AtomicU64,
    completed: AtomicU64,
    /// Set once nothing more will be enqueued.
    closed: AtomicBool,
    room: Semaphore,
}

impl Line {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            handover: Handover::new(),
            next: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            room: Semaphore::new(IN_FLIGHT as usize),
        })
    }

    fn is_over(&self) -> bool {
        let (enqueued, completed) =
            (self.next.load(Ordering::SeqCst), self.completed.load(Ordering::SeqCst));
        self.closed.load(Ordering::SeqCst) && enqueued == completed
    }
}

/// Runs jobs until the line is over; how long each waited for its handler.
async fn run(
    subject: EngineSubject,
    mut worker: EngineWorker,
    line: Arc<Line>,
) -> Result<Vec<f32>> {
    let (mut latencies_ms, mut held, mut heard) = (Vec::new(), Vec::new(), clock::now());
    loop {
        let count = held.len();
        held = worker.next(held, BATCH).await?;
        line.completed.fetch_add(count as u64, Ordering::SeqCst);
        line.room.add_permits(count);
        let micros = line.handover.micros();
        latencies_ms.extend(held.iter().map(|job| line.handover.start_ms(job.number(), micros)));
        if !held.is_empty() {
            heard = clock::now();
        } else if line.is_over() {
            return Ok(latencies_ms);
        } else {
            ensure!(heard.elapsed() < DRY, "no job came for {DRY:?} although some are missing");
            // Once nothing more comes, only the other fetchers have jobs: look again soon.
            let closed = line.closed.load(Ordering::SeqCst);
            subject.wait(if closed { 1 } else { WAIT_MS }).await?;
        }
    }
}

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
        line.handover.begin(number, line.handover.micros());
        line.next.fetch_add(1, Ordering::SeqCst);
        bench.subject.enqueue(number..number + 1, 1).await?;
        bench.progress.add(1);
    }
    line.closed.store(true, Ordering::SeqCst);
    let latencies_ms = worker.await??;
    meter.end(bench.subject.counts().await);
    Ok(meter.sample(jobs, latencies_ms))
}

/// W4commit: single jobs handed over by SQL in transactions of an application. One of those stays open
/// from the beginning to the end.
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
    // The first of a kind makes its lane, and others of that kind wait for its transaction.
    bench.subject.enqueue(jobs..jobs + 1, 1).await?;
    line.next.fetch_add(1, Ordering::SeqCst);
    line.handover.begin(jobs, line.handover.micros());
    open.batch_execute("BEGIN").await?;
    open.query(&enqueue, &[&payload(jobs + 1)]).await?;
    bench.progress.phase("idling", jobs);
    let mut meter = bench.meter();
    meter.begin(bench.subject.counts().await);
    let worker = tokio::spawn(run(bench.subject.clone(), worker, Arc::clone(&line)));
    let mut ticks = tokio::time::interval(IDLE_EVERY);
    for number in 0..jobs {
        ticks.tick().await;
        line.next.fetch_add(1, Ordering::SeqCst);
        client.batch_execute("BEGIN").await?;
        client.query(&enqueue, &[&payload(number)]).await?;
        line.handover.begin(number, line.handover.micros());
        client.batch_execute("COMMIT").await?;
        bench.progress.add(1);
    }
    line.closed.store(true, Ordering::SeqCst);
    let latencies_ms = worker.await??;
    meter.end(bench.subject.counts().await);
    open.batch_execute("ROLLBACK").await?;
    Ok(meter.sample(jobs, latencies_ms))
}

/// W6: enqueue, run and complete together, with finished jobs being removed.
pub(super) async fn sustained(bench: &Bench<EngineSubject>) -> Result<Sample> {
    let for_ms = bench.profile.sustained_ms;
    bench.subject.keep_finished(KEEP_FINISHED_MS).await?;
    let line = Line::new();
    let mut workers = JoinSet::new();
    let mut producers = JoinSet::new();
    let mut meter = bench.meter();
    bench.progress.phase("working", for_ms);
    meter.begin(bench.subject.counts().await);
    let began = clock::now();
    let until = began + Duration::from_millis(for_ms);
    for _ in 0..SIDE {
        let worker = bench.subject.worker().await?;
        workers.spawn(run(bench.subject.clone(), worker, Arc::clone(&line)));
        producers.spawn(produce(bench.subject.clone(), Arc::clone(&line), until));
    }
    while clock::now() < until {
        tokio::time::sleep(UPKEEP_EVERY).await;
        bench.subject.upkeep().await?;
        bench.progress.at(began.elapsed().as_millis() as u64);
    }
    while let Some(task) = producers.join_next().await {
        task??;
    }
    line.closed.store(true, Ordering::SeqCst);
    let mut latencies_ms = Vec::new();
    while let Some(task) = workers.join_next().await {
        latencies_ms.append(&mut task??);
    }
    meter.end(bench.subject.counts().await);
    Ok(meter.sample(line.completed.load(Ordering::SeqCst), latencies_ms))
}

/// W7: the same while another session has a transaction open, which keeps the server from clearing away
/// whatever died since it began.
pub(super) async fn beside(
    bench: &Bench<EngineSubject>,
    url: &Url,
    workload: Workload,
) -> Result<Sample> {
    let Url::Postgres(at) = url else { bail!("only PostgreSQL has snapshots") };
    let (other, connection) = tokio_postgres::connect(at.server(), tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    other.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
    let hold = match workload {
        Workload::W7reader => format!(
            "SELECT * FROM \"{0}\".jobs LIMIT 1; SELECT * FROM \"{0}\".queue_stats;",
            at.schema()
        ),
        Workload::W7writer => "SELECT pg_current_xact_id()".to_owned(),
        _ => "SELECT 1".to_owned(),
    };
    other.batch_execute(&hold).await?;
    let sample = sustained(bench).await?;
    other.batch_execute("COMMIT").await?;
    Ok(sample)
}

/// Enqueues batches while there is room in flight, until the time is up.
async fn produce(subject: EngineSubject, line: Arc<Line>, until: Instant) -> Result<()> {
    while clock::now() < until {
        let room = tokio::time::timeout(DRY, line.room.acquire_many(BATCH)).await;
        room.context("no job was completed for too long")??.forget();
        let from = line.next.fetch_add(BATCH.into(), Ordering::SeqCst);
        let numbers = from..from + u64::from(BATCH);
        let micros = line.handover.micros();
        numbers.clone().for_each(|number| line.handover.begin(number, micros));
        subject.enqueue(numbers, 1).await?;
    }
    Ok(())
}
