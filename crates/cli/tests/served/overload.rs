//! Producers that are three times as fast as the workers, against a real server process: they are
//! refused with a retry time, accepted jobs complete, and the server's memory is bounded. For a minute with WINDLASS_LONG=1.

use crate::serving::{Serving, serve};
use crate::waiting::PATIENCE;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};
use windlass_core::JobId;
use windlass_core::engine::{Admin as _, Engine, Enqueue, Get, Jobs as _, StatsRequest};
use windlass_core::model::{NewJob, State};
use windlass_remote::{Options, RemoteEngine};
use windlass_worker::{Raw, Stop, Worker};

/// Jobs that run at a time, and how long one takes: what the workers can do at best is their quotient.
const CONCURRENCY: u32 = 2;
const JOB: Duration = Duration::from_millis(10);
/// Producers, each as fast as all workers together at their best.
const PRODUCERS: usize = 3;
/// Jobs in one call of a producer.
const BATCH: u32 = 10;
/// Jobs that may wait.
const SOFT_DEPTH: u64 = 200;
/// Allowed growth of the server: a debug build, and far below the size of the refused jobs.
const GROWTH_KB_MAX: u64 = 80 * 1024;
/// Jobs looked up at a time.
const LOOKED_UP: usize = 1_000;

/// The replies to a producer.
#[derive(Default)]
struct Seen {
    accepted: Vec<JobId>,
    refused: u64,
    /// How long calls took that stored everything.
    took: Vec<Duration>,
}

async fn produce(engine: RemoteEngine, until: Instant) -> Seen {
    let mut seen = Seen::default();
    let mut beat = tokio::time::interval(JOB * BATCH / CONCURRENCY);
    beat.set_missed_tick_behavior(MissedTickBehavior::Burst);
    while Instant::now() < until {
        beat.tick().await;
        let jobs = (0..BATCH).map(|_| NewJob::new("k").json("{}"));
        let begun = Instant::now();
        let answers = engine.enqueue(Enqueue::each(jobs)).await.unwrap().value;
        let took = begun.elapsed();
        if answers.iter().all(Result::is_ok) {
            seen.took.push(took);
        }
        for answer in answers {
            match answer {
                Ok(enqueued) => seen.accepted.push(enqueued.id),
                Err(error) => {
                    assert_eq!(error.code(), "queue_full", "{error}");
                    assert!(error.retry_after_ms().is_some(), "it says when to come again");
                    seen.refused += 1;
                }
            }
        }
    }
    seen
}

fn memory_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

async fn completed(engine: &dyn Engine, ids: &[JobId]) -> usize {
    let mut completed = 0;
    for ids in ids.chunks(LOOKED_UP) {
        let jobs = engine.get(Get::new(ids.iter().copied())).await.unwrap().value;
        let is_done = |job: &Option<_>| {
            job.as_ref()
                .is_some_and(|job: &windlass_core::model::Job| job.state == State::Completed)
        };
        completed += jobs.iter().filter(|job| is_done(job)).count();
    }
    completed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_three_times_its_capacity_a_server_refuses_stays_small_and_keeps_what_it_took() {
    let long = std::env::var_os("WINDLASS_LONG").is_some();
    let time = Duration::from_secs(if long { 60 } else { 4 });
    let dir = tempfile::tempdir().unwrap();
    let mut command = serve(dir.path(), "127.0.0.1:0");
    let server = Serving::by(command.args(["--soft-depth", &SOFT_DEPTH.to_string()]));
    let engine =
        RemoteEngine::open(Options::new(server.url()).patience(Duration::ZERO)).await.unwrap();
    let shared: Arc<dyn Engine> = Arc::new(engine.clone());
    let work = |_: Raw| async {
        tokio::time::sleep(JOB).await;
        Ok::<(), Stop>(())
    };
    let worker = Worker::builder(shared.clone()).concurrency(CONCURRENCY);
    let worker = worker.handle_kind("k", work).build().unwrap().start();
    let before_kb = memory_kb(server.pid());

    let until = Instant::now() + time;
    let producers = (0..PRODUCERS).map(|_| tokio::spawn(produce(engine.clone(), until)));
    let mut all = Seen::default();
    for producer in producers.collect::<Vec<_>>() {
        let seen = producer.await.unwrap();
        all.accepted.extend(seen.accepted);
        all.took.extend(seen.took);
        all.refused += seen.refused;
    }
    let grown_kb = memory_kb(server.pid()).saturating_sub(before_kb);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let lanes = engine.stats(StatsRequest::default()).await.unwrap().value;
        if lanes.iter().all(|lane| lane.depth() + lane.running == 0) {
            break;
        }
        assert!(Instant::now() < deadline, "still waiting: {lanes:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    worker.drain().await;

    all.took.sort_unstable();
    let at = |share: usize| all.took.get(all.took.len() * share / 100).copied().unwrap_or_default();
    eprintln!(
        "{} s: {} accepted, {} refused, enqueue of {BATCH}: p50 {:?}, p99 {:?}, grown by {grown_kb} kB",
        time.as_secs(),
        all.accepted.len(),
        all.refused,
        at(50),
        at(99),
    );
    assert!(all.refused > 0, "too slow to be refused");
    assert!(all.accepted.len() as u64 > SOFT_DEPTH, "only {} taken", all.accepted.len());
    assert_eq!(completed(&engine, &all.accepted).await, all.accepted.len(), "all that was taken");
    assert!(grown_kb < GROWTH_KB_MAX, "{grown_kb} kB more");
}
