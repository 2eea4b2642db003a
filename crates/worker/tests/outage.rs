//! A store that goes away, loses replies, hangs or refuses, under a running worker.
#![allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use support::flaky::{Fault, Flaky};
use support::{enqueue, enqueue_all, get, local, memory, reaches, until, worker};
use tokio::sync::Semaphore;
use windlass_core::engine::{Engine, Filter, List};
use windlass_core::model::{NewJob, State as JobState};
use windlass_core::policy::{OnConflict, Unique};
use windlass_worker::{Builder, Ctx, Data, Raw, Stop, code};

type Gate = Arc<Semaphore>;
type Starts = Arc<AtomicU32>;

/// Counts its start and waits for the gate.
async fn gated(_: Raw, Data(gate): Data<Gate>, Data(starts): Data<Starts>) -> Result<(), Stop> {
    starts.fetch_add(1, Ordering::SeqCst);
    gate.acquire().await?.forget();
    Ok(())
}

struct Scene {
    flaky: Arc<Flaky>,
    engine: Arc<dyn Engine>,
    gate: Gate,
    starts: Starts,
}

impl Scene {
    fn new(inner: Arc<dyn Engine>) -> Self {
        let flaky = Flaky::new(inner);
        let gate = Arc::new(Semaphore::new(0));
        Self { engine: flaky.clone(), flaky, gate, starts: Arc::default() }
    }

    fn worker(&self) -> Builder {
        worker(&self.engine)
            .data(self.gate.clone())
            .data(self.starts.clone())
            .call_timeout(Duration::from_millis(200))
            .unhealthy_after(Duration::from_millis(300))
            .handle_kind("gated", gated)
    }

    fn started(&self) -> u32 {
        self.starts.load(Ordering::SeqCst)
    }
}

fn gated_jobs(count: usize) -> impl Iterator<Item = NewJob> {
    (0..count).map(|_| NewJob::new("gated"))
}

#[tokio::test]
async fn results_of_an_outage_are_held_and_delivered_once_whatever_kind_of_outage() {
    for fault in [Fault::Unavailable, Fault::LosesReplies, Fault::Hangs] {
        let (local, _dir) = local();
        for inner in [memory(), local] {
            let scene = Scene::new(inner);
            let running = scene.worker().build().unwrap().start();
            let ids = enqueue_all(&scene.engine, gated_jobs(10)).await;
            until("all to run", || scene.started() == 10).await;
            scene.flaky.set(fault);
            scene.gate.add_permits(10);
            until("all to end", || running.health().in_flight == 0).await;
            until("it to be unhealthy", || !running.health().healthy).await;
            let health = running.health();
            assert_eq!((health.buffered, health.consuming), (10, false), "{fault:?}");

            scene.flaky.set(Fault::None);
            for id in ids {
                let job = reaches(&scene.engine, id, JobState::Completed).await;
                assert_eq!(job.history.len(), 1, "{fault:?}");
            }
            until("it to be healthy", || running.health().healthy && running.health().consuming)
                .await;
            // A store that only lost its replies had them all along; the worker hears of it later.
            until("all to be acknowledged", || running.stats().completed == 10).await;
            let stats = running.stats();
            assert_eq!((stats.completed, stats.leases_lost), (10, 0), "{fault:?}");
            assert!(stats.store_errors > 0);
            scene.gate.add_permits(1);
            let next = enqueue(&scene.engine, NewJob::new("gated")).await;
            reaches(&scene.engine, next, JobState::Completed).await;
            assert_eq!(running.drain().await.undelivered, 0);
        }
    }
}

#[tokio::test]
async fn jobs_of_a_claim_whose_reply_was_lost_are_run_once_and_not_twice() {
    let scene = Scene::new(memory());
    let running = scene.worker().build().unwrap().start();
    until("it to be consuming", || running.health().consuming).await;
    scene.flaky.set(Fault::LosesReplies);
    let ids = enqueue_all(&scene.engine, gated_jobs(5)).await;
    // Claimed in the store, unknown to the worker.
    reaches(&scene.engine, ids[4], JobState::Running).await;
    assert_eq!(scene.started(), 0);
    scene.flaky.set(Fault::None);
    scene.gate.add_permits(5);
    for id in ids {
        let job = reaches(&scene.engine, id, JobState::Completed).await;
        assert_eq!(job.header.counters.attempt, 1);
    }
    assert_eq!(scene.started(), 5);
    running.drain().await;
}

#[tokio::test]
async fn a_worker_starts_before_its_store_does() {
    let scene = Scene::new(memory());
    scene.flaky.set(Fault::Unavailable);
    let running = scene.worker().build().unwrap().start();
    scene.gate.add_permits(1);
    let id = enqueue(&scene.engine, NewJob::new("gated")).await;
    until("it to be unhealthy", || !running.health().healthy).await;
    assert!(!running.health().consuming);
    scene.flaky.set(Fault::None);
    reaches(&scene.engine, id, JobState::Completed).await;
    running.drain().await;
}

#[tokio::test]
async fn an_unavailable_store_is_called_with_increasing_backoff() {
    let scene = Scene::new(memory());
    let running = scene.worker().build().unwrap().start();
    until("it to be consuming", || running.health().consuming).await;
    scene.flaky.set(Fault::Unavailable);
    let before = scene.flaky.calls.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    let calls = scene.flaky.calls.load(Ordering::SeqCst) - before;
    // 50–100 ms, 100–200, 200–400, 400–800: a handful, and two or three calls at a time at most.
    assert!((1..=20).contains(&calls), "{calls} calls in a second");
    scene.flaky.set(Fault::None);
    running.drain().await;
}

#[tokio::test]
async fn a_checkpoint_waits_for_the_store_to_come_back() {
    let scene = Scene::new(memory());
    async fn save(_: Raw, ctx: Ctx, Data(gate): Data<Gate>) -> Result<(), Stop> {
        gate.acquire().await?.forget();
        ctx.save_checkpoint(&1).await?;
        Ok(())
    }
    let running = scene.worker().handle_kind("save", save).build().unwrap().start();
    let id = enqueue(&scene.engine, NewJob::new("save")).await;
    reaches(&scene.engine, id, JobState::Running).await;
    scene.flaky.set(Fault::Unavailable);
    scene.gate.add_permits(1);
    until("it to ask", || scene.flaky.updates.load(Ordering::SeqCst) >= 2).await;
    assert_eq!(running.health().in_flight, 1);
    scene.flaky.set(Fault::None);
    let job = reaches(&scene.engine, id, JobState::Completed).await;
    assert_eq!(job.parts.checkpoint.unwrap().bytes, "1");
    running.drain().await;
}

#[tokio::test]
async fn progress_of_an_outage_arrives_after_it_and_before_the_outcome() {
    let scene = Scene::new(memory());
    async fn tell(_: Raw, ctx: Ctx, Data(gate): Data<Gate>) -> Result<(), Stop> {
        ctx.set_progress(1, None, "first");
        gate.acquire().await?.forget();
        ctx.set_progress(2, None, "second");
        ctx.log("a line");
        Ok(())
    }
    let running = scene.worker().handle_kind("tell", tell).build().unwrap().start();
    let id = enqueue(&scene.engine, NewJob::new("tell")).await;
    reaches(&scene.engine, id, JobState::Running).await;
    scene.flaky.set(Fault::Unavailable);
    scene.gate.add_permits(1);
    until("it to end", || running.health().in_flight == 0 && running.health().buffered == 1).await;
    scene.flaky.set(Fault::None);
    let job = reaches(&scene.engine, id, JobState::Completed).await;
    assert_eq!((job.progress.unwrap().done, job.log.len()), (2, 1));
    running.drain().await;
}

#[tokio::test]
async fn an_outcome_the_store_will_never_take_fails_its_job_alone() {
    let scene = Scene::new(memory());
    async fn follow(_: Raw, ctx: Ctx) -> Result<(), Stop> {
        let mut unique = Unique::by("taken");
        unique.on_conflict = OnConflict::Reject;
        ctx.follow_up(NewJob::new("child").unique(unique))?;
        Ok(())
    }
    enqueue(&scene.engine, NewJob::new("child").unique(Unique::by("taken"))).await;
    let running = scene.worker().handle_kind("follow", follow).build().unwrap().start();
    scene.gate.add_permits(10);
    let jobs = [NewJob::new("follow")].into_iter().chain(gated_jobs(10));
    let ids = enqueue_all(&scene.engine, jobs).await;
    let job = reaches(&scene.engine, ids[0], JobState::Dead).await;
    let error = job.error.unwrap();
    assert_eq!(error.code, code::OUTCOME_REFUSED);
    assert!(error.message.contains("unique key \"taken\" is held by"), "{error}");
    for id in &ids[1..] {
        reaches(&scene.engine, *id, JobState::Completed).await;
    }
    until("it to count", || running.stats().refused == 1).await;
    running.drain().await;
    assert_eq!((running.stats().completed, running.stats().failed), (10, 1));
    let children = List::new(Filter::default().kind("child"));
    assert_eq!(scene.engine.list(children).await.unwrap().value.rows.len(), 1);
}

#[tokio::test]
async fn a_store_that_refuses_large_calls_gets_smaller_ones() {
    let scene = Scene::new(memory());
    let running = scene.worker().build().unwrap().start();
    let ids = enqueue_all(&scene.engine, gated_jobs(50)).await;
    until("all to run", || scene.started() == 50).await;
    scene.flaky.settle_max.store(3, Ordering::SeqCst);
    scene.gate.add_permits(50);
    for id in ids {
        reaches(&scene.engine, id, JobState::Completed).await;
    }
    assert_eq!((running.stats().completed, running.stats().refused), (50, 0));
    running.drain().await;
}

#[tokio::test]
async fn a_worker_buffers_no_more_results_than_it_has_slots() {
    let scene = Scene::new(memory());
    let running = scene.worker().concurrency(4).build().unwrap().start();
    enqueue_all(&scene.engine, gated_jobs(40)).await;
    until("four to run", || scene.started() == 4).await;
    scene.flaky.set(Fault::Unavailable);
    scene.gate.add_permits(40);
    until("four to end", || running.health().buffered == 4).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((scene.started(), running.health().buffered), (4, 4));
    scene.flaky.set(Fault::None);
    until("all to end", || running.stats().completed == 40).await;
    running.drain().await;
}

#[tokio::test]
async fn a_drain_in_an_outage_ends_and_says_what_it_left() {
    let scene = Scene::new(memory());
    let running = scene.worker().build().unwrap().start();
    let id = enqueue(&scene.engine, NewJob::new("gated")).await;
    until("it to run", || scene.started() == 1).await;
    scene.flaky.set(Fault::Unavailable);
    scene.gate.add_permits(1);
    let stopped = tokio::time::timeout(support::PATIENCE, running.drain()).await.unwrap();
    assert_eq!((stopped.undelivered, stopped.abandoned), (1, 0));
    assert_eq!(get(&scene.engine, id).await.state, JobState::Running);
}

/// On tokio's clock, which leaps to the next timer: only the order of times matters.
#[tokio::test(start_paused = true)]
async fn a_heartbeat_counts_when_it_is_answered_and_is_sent_again_at_once_when_it_is_not() {
    const EVERY: Duration = Duration::from_secs(20);
    let scene = Scene::new(memory());
    let running = scene.worker().session(3 * EVERY, EVERY).build().unwrap().start();
    until("the session is open", || running.health().consuming).await;
    scene.flaky.set(Fault::Unavailable);
    tokio::time::sleep(EVERY + EVERY / 4).await;
    assert_eq!(running.health().heartbeat_age, None, "one that failed does not count");

    scene.flaky.set(Fault::None);
    let back = tokio::time::Instant::now();
    until("a heartbeat is answered", || running.health().heartbeat_age.is_some()).await;
    assert!(back.elapsed() < EVERY / 2, "it waited for its next turn: {:?}", back.elapsed());
    assert_eq!(running.stats().sessions_lost, 0);
    running.drain().await;
}
