//! Several claims under way at a time: what they bring, and what they must not.
#![allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use support::flaky::{Fault, Flaky};
use support::{crashed, enqueue_all, get, memory, reaches, travelling, until, worker};
use tokio::sync::Semaphore;
use windlass_core::JobId;
use windlass_core::engine::Engine;
use windlass_core::model::{NewJob, State as JobState};
use windlass_worker::{Builder, Data, Raw, Stop, WorkerHandle};

/// Enough that half of them justify a separate claim.
const SLOTS: u32 = 200;

/// The jobs that handlers received.
#[derive(Default)]
struct Seen {
    started: AtomicU32,
    now: AtomicU32,
    most: AtomicU32,
    beside_suspect: AtomicU32,
}

type Shared = (Arc<Seen>, Arc<Semaphore>);

/// Counts, and waits for the gate.
async fn gated(_: Raw, Data((seen, gate)): Data<Shared>) -> Result<(), Stop> {
    seen.started.fetch_add(1, Ordering::SeqCst);
    let now = seen.now.fetch_add(1, Ordering::SeqCst) + 1;
    seen.most.fetch_max(now, Ordering::SeqCst);
    gate.acquire().await?.forget();
    seen.now.fetch_sub(1, Ordering::SeqCst);
    Ok(())
}

/// Takes its time, and looks whether it was alone meanwhile.
async fn suspect(_: Raw, Data((seen, _)): Data<Shared>) -> Result<(), Stop> {
    let (now, started) = (seen.now.load(Ordering::SeqCst), seen.started.load(Ordering::SeqCst));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begun = seen.started.load(Ordering::SeqCst) - started;
    seen.beside_suspect.fetch_add(now + begun, Ordering::SeqCst);
    Ok(())
}

struct Scene {
    flaky: Arc<Flaky>,
    store: Arc<dyn Engine>,
    seen: Arc<Seen>,
    gate: Arc<Semaphore>,
}

impl Scene {
    fn new(store: &Arc<dyn Engine>) -> Self {
        let gate = Arc::new(Semaphore::new(0));
        Self { flaky: Flaky::new(store.clone()), store: store.clone(), seen: Arc::default(), gate }
    }

    fn worker(&self) -> Builder {
        let engine: Arc<dyn Engine> = self.flaky.clone();
        worker(&engine)
            .data((self.seen.clone(), self.gate.clone()))
            .concurrency(SLOTS)
            .handle_kind("gated", gated)
            .handle_kind("suspect", suspect)
    }

    /// Stores jobs, and has them run by a worker until every slot is taken.
    async fn full(&self, count: u32) -> (WorkerHandle, Vec<JobId>) {
        let jobs = (0..count).map(|_| NewJob::new("gated").priority(0));
        let ids = enqueue_all(&self.store, jobs).await;
        let running = self.worker().build().unwrap().start();
        until("all slots to be taken", || self.seen.now.load(Ordering::SeqCst) == SLOTS).await;
        (running, ids)
    }

    fn claims(&self) -> usize {
        self.flaky.claims.lock().unwrap().len()
    }
}

#[tokio::test]
async fn while_a_claim_is_unanswered_another_travels_and_both_together_fill_the_slots() {
    let scene = Scene::new(&memory());
    let (running, ids) = scene.full(3 * SLOTS).await;
    scene.flaky.set(Fault::Slow);
    let before = scene.claims();
    scene.gate.add_permits(SLOTS as usize);
    // Both are carried out before either is answered.
    reaches(&scene.store, ids[2 * SLOTS as usize - 1], JobState::Running).await;
    assert_eq!(scene.claims() - before, 2);
    assert_eq!(scene.seen.started.load(Ordering::SeqCst), SLOTS);
    let next = get(&scene.store, ids[2 * SLOTS as usize]).await;
    assert_eq!(next.state, JobState::Available, "there is no room for this one");

    scene.flaky.set(Fault::None);
    scene.gate.add_permits(2 * SLOTS as usize);
    for id in ids {
        let job = reaches(&scene.store, id, JobState::Completed).await;
        assert_eq!(job.header.counters.attempt, 1);
    }
    assert_eq!(scene.seen.most.load(Ordering::SeqCst), SLOTS);
    assert_eq!(running.drain().await.undelivered, 0);
}

#[tokio::test]
async fn when_the_replies_of_several_claims_are_lost_their_jobs_run_once() {
    let scene = Scene::new(&memory());
    let (running, ids) = scene.full(2 * SLOTS).await;
    scene.flaky.set(Fault::LosesReplies);
    scene.gate.add_permits(SLOTS as usize);
    let claimed = scene.claims();
    until("claims to be made", || scene.claims() > claimed).await;
    scene.flaky.set(Fault::None);
    scene.gate.add_permits(SLOTS as usize);
    for id in ids {
        let job = reaches(&scene.store, id, JobState::Completed).await;
        assert_eq!(job.header.counters.attempt, 1);
    }
    assert_eq!(scene.seen.started.load(Ordering::SeqCst), 2 * SLOTS);
    running.drain().await;
}

#[tokio::test]
async fn a_suspect_runs_alone_whatever_another_claim_brings() {
    let (store, clock) = travelling();
    let scene = Scene::new(&store);
    // Behind what fills the slots, ahead of all the rest.
    crashed(&store, &clock, NewJob::new("suspect").priority(1), 2).await;
    let rest = (0..2 * SLOTS).map(|_| NewJob::new("gated").priority(2));
    let rest = enqueue_all(&store, rest).await;
    let (running, _) = scene.full(SLOTS).await;
    scene.flaky.set(Fault::Slow);
    scene.gate.add_permits(SLOTS as usize);
    reaches(&store, rest[0], JobState::Running).await;
    scene.flaky.set(Fault::None);
    scene.gate.add_permits(2 * SLOTS as usize);
    for id in rest {
        reaches(&store, id, JobState::Completed).await;
    }
    until("the suspect to end", || running.stats().completed == u64::from(3 * SLOTS + 1)).await;
    assert_eq!(scene.seen.beside_suspect.load(Ordering::SeqCst), 0);
    running.drain().await;
}

#[tokio::test]
async fn a_limit_holds_for_all_claims_together() {
    const LIMIT: u32 = SLOTS / 2 + 20;
    for by_queue in [true, false] {
        let scene = Scene::new(&memory());
        enqueue_all(&scene.store, (0..SLOTS).map(|_| NewJob::new("gated"))).await;
        let worker = match by_queue {
            true => scene.worker().queue("default").queue_limit("default", LIMIT),
            false => scene.worker().kind_limit("gated", LIMIT),
        };
        let running = worker.build().unwrap().start();
        until("as many as may", || scene.seen.now.load(Ordering::SeqCst) == LIMIT).await;
        scene.flaky.set(Fault::Slow);
        scene.gate.add_permits(LIMIT as usize);
        until("claims to be made", || running.health().in_flight == 0).await;
        scene.flaky.set(Fault::None);
        scene.gate.add_permits(SLOTS as usize);
        until("all to end", || running.stats().completed == u64::from(SLOTS)).await;
        assert_eq!(scene.seen.most.load(Ordering::SeqCst), LIMIT);
        running.drain().await;
    }
}
