//! A kind that fails and recovers, with real workers and services on any engine: what runs while its
//! breaker is open, and that nothing is lost by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::JobId;
use windlass_core::engine::{Engine, Enqueue, Gate, Get, LaneStats, StatsRequest};
use windlass_core::model::{KindRules, NewJob, State as JobState};
use windlass_core::policy::{Backoff, Breaker, BreakerPolicy};
use windlass_services::{Breakers, Kinds, ServiceOptions, Services};
use windlass_worker::{Data, Raw, Stop, Worker, WorkerHandle};

/// Nothing here takes anywhere near this long, whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often an open breaker lets one job through.
const PROBE_MS: u64 = 1_000;
/// Probes to watch while everything fails.
const PROBES: u64 = 3;
/// Jobs of the kind that breaks.
const JOBS: usize = 30;

/// The settings of the handler, and its calls.
#[derive(Default)]
struct Service {
    is_broken: AtomicBool,
    starts: AtomicU64,
}

async fn charge(_: Raw, Data(service): Data<Arc<Service>>) -> Result<(), Stop> {
    service.starts.fetch_add(1, Ordering::SeqCst);
    if service.is_broken.load(Ordering::SeqCst) {
        return Err(Stop::retry("the bank does not answer").after(Duration::from_millis(10)));
    }
    Ok(())
}

async fn fine(_: Raw) -> Result<(), Stop> {
    Ok(())
}

fn worker(engine: &Arc<dyn Engine>, service: &Arc<Service>) -> WorkerHandle {
    let builder = Worker::builder(engine.clone()).counts_outcomes(true).concurrency(4);
    let builder = builder.data(service.clone());
    let worker = builder.handle_kind("charge", charge).handle_kind("fine", fine).build();
    worker.expect("a worker").start()
}

async fn eventually<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn lane(engine: &dyn Engine) -> LaneStats {
    let lanes = engine.stats(StatsRequest::default()).await.expect("stats").value;
    lanes.into_iter().find(|lane| &*lane.kind == "charge").expect("the lane")
}

async fn breaker(engine: &Arc<dyn Engine>) -> Option<Breaker> {
    Breakers::new(engine.clone()).get("charge").await.expect("a record")
}

async fn enqueue(engine: &dyn Engine, jobs: impl IntoIterator<Item = NewJob>) -> Vec<JobId> {
    let answers = engine.enqueue(Enqueue::each(jobs)).await.expect("stored").value;
    answers.into_iter().map(|answer| answer.expect("stored").id).collect()
}

/// Attempts that the store counts, and how many of the jobs are in this state.
async fn counted(engine: &dyn Engine, ids: &[JobId], state: JobState) -> (u64, usize) {
    let jobs = engine.get(Get::new(ids.iter().copied())).await.expect("jobs").value;
    let jobs: Vec<_> = jobs.into_iter().map(|job| job.expect("it is there")).collect();
    let attempts = jobs.iter().map(|job| u64::from(job.header.counters.attempt)).sum();
    (attempts, jobs.iter().filter(|job| job.state == state).count())
}

/// The whole story.
pub(crate) async fn play(engine: Arc<dyn Engine>) {
    let mut rules = KindRules::default();
    let policy = BreakerPolicy::new().min_samples(10).probe_every(Duration::from_millis(PROBE_MS));
    rules.breaker = Some(policy);
    Kinds::new(engine.clone()).put("charge", &rules).await.expect("registered");
    let mut options = ServiceOptions::default();
    options.breaker.interval = Duration::from_millis(20);
    options.promote.interval = Duration::from_millis(20);
    let services = Services::builder(engine.clone()).options(options).start().expect("services");
    let service = Arc::new(Service { is_broken: true.into(), ..Service::default() });
    let workers = [worker(&engine, &service), worker(&engine, &service)];

    let backoff = Backoff::Fixed { delay_ms: 10, jitter_ms: 0 };
    let job = || NewJob::new("charge").max_attempts(1_000).backoff(backoff);
    let ids = enqueue(&*engine, (0..JOBS).map(|_| job())).await;

    // It opens, and once those that ran have ended nothing starts but probes.
    eventually("the breaker to open", async || breaker(&engine).await?.open_since()).await;
    eventually("the lane to be gated and at rest", async || {
        let lane = lane(&*engine).await;
        (lane.gate == Some(Gate::NoPermits) && lane.running == 0).then_some(())
    })
    .await;
    let (rested, before) = (Instant::now(), service.starts.load(Ordering::SeqCst));
    let other = enqueue(&*engine, [NewJob::new("fine")]).await;
    eventually("another kind to run meanwhile", async || {
        (counted(&*engine, &other, JobState::Completed).await.1 == 1).then_some(())
    })
    .await;
    let probes = eventually("probes", async || {
        let probes = service.starts.load(Ordering::SeqCst) - before;
        (probes >= PROBES).then_some(probes)
    })
    .await;
    // One was perhaps on its way when the lane was seen at rest.
    let intervals = u64::try_from(rested.elapsed().as_millis()).expect("short") / PROBE_MS;
    assert!(probes <= intervals + 2, "{probes} probes in {intervals} intervals");
    assert!(breaker(&engine).await.and_then(|it| it.open_since()).is_some(), "they failed");

    // After the repair, a probe succeeds and all waiting jobs run.
    service.is_broken.store(false, Ordering::SeqCst);
    eventually("all jobs to complete", async || {
        (counted(&*engine, &ids, JobState::Completed).await.1 == JOBS).then_some(())
    })
    .await;
    let (attempts, _) = counted(&*engine, &ids, JobState::Completed).await;
    let starts = service.starts.load(Ordering::SeqCst);
    assert_eq!(attempts, starts, "waiting is no attempt, and every start is one");
    let settings = engine.settings().await.expect("settings").value;
    let permits = settings.kinds.iter().find(|(kind, _)| &**kind == "charge");
    assert_eq!(permits.and_then(|(_, settings)| settings.permits), None, "the gate is open");
    assert_eq!(breaker(&engine).await.and_then(|it| it.open_since()), None);

    for worker in workers {
        worker.drain().await;
    }
    services.stop().await;
}
