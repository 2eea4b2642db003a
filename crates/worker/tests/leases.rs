//! Sessions and leases: what happens when the store takes a worker for dead, and to suspects.
#![allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]

mod support;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::flaky::{Fault, Flaky};
use support::{
    crashed, enqueue, enqueue_all, get, local, maintain, memory, reaches, travelling, until, worker,
};
use tokio::sync::Semaphore;
use windlass_core::engine::{Change, Engine, Work};
use windlass_core::model::{AttemptEnd, NewJob, State as JobState};
use windlass_core::time::ManualClock;
use windlass_worker::{Ctx, Data, Raw, Stop};

/// Counts handlers that were dropped before they ended.
#[derive(Clone, Default)]
struct Dropped(Arc<AtomicU32>);

struct CountsDrop(Dropped);

impl Drop for CountsDrop {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }
}

async fn hang(_: Raw, Data(dropped): Data<Dropped>) {
    let _counts = CountsDrop(dropped);
    std::future::pending::<()>().await;
}

/// Lets sessions without a sign of life run out, and takes back what they held.
async fn reclaim(engine: &Arc<dyn Engine>, clock: &ManualClock) {
    clock.advance(5_000);
    maintain(engine, Work::Reclaim).await;
    clock.advance(5_000);
    maintain(engine, Work::Promote).await;
}

#[tokio::test]
async fn leases_outlast_their_length_while_the_worker_lives() {
    let engine = memory();
    let builder = worker(&engine).session(Duration::from_secs(1), Duration::from_millis(100));
    let handler = |_: Raw| tokio::time::sleep(Duration::from_millis(2_500));
    let running = builder.handle_kind("slow", handler).build().unwrap().start();
    let id = enqueue(&engine, NewJob::new("slow")).await;
    loop {
        maintain(&engine, Work::Reclaim).await;
        let job = get(&engine, id).await;
        if job.state == JobState::Completed {
            assert_eq!((job.header.counters.attempt, job.header.counters.crashes), (1, 0));
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    running.drain().await;
}

#[tokio::test]
async fn a_stalled_worker_loses_its_job_to_another_and_its_outcome_is_refused_and_counted() {
    let (store, clock) = travelling();
    let flaky = Flaky::new(store.clone());
    let cut_off: Arc<dyn Engine> = flaky.clone();
    let gate = Arc::new(Semaphore::new(0));
    let slow = |_: Raw, Data(gate): Data<Arc<Semaphore>>| async move {
        gate.acquire().await.map(|_| "first").map_err(Stop::from)
    };
    let first = worker(&cut_off)
        .name("first")
        .call_timeout(Duration::from_millis(200))
        .data(gate.clone())
        .handle_kind("job", slow);
    let first = first.build().unwrap().start();
    let id = enqueue(&store, NewJob::new("job")).await;
    reaches(&store, id, JobState::Running).await;

    // The first worker hears and says nothing for longer than its session lasts.
    flaky.set(Fault::Hangs);
    tokio::time::sleep(Duration::from_millis(100)).await;
    reclaim(&store, &clock).await;
    let quick = |_: Raw| async { Ok::<_, Stop>("second") };
    let second = worker(&store).name("second").handle_kind("job", quick).build().unwrap().start();
    let job = reaches(&store, id, JobState::Completed).await;
    assert_eq!((&*job.result.unwrap().bytes, job.header.counters.crashes), (&b"\"second\""[..], 0));
    let ends: Vec<_> = job.history.iter().map(|attempt| attempt.end).collect();
    assert_eq!(ends, [AttemptEnd::Lost, AttemptEnd::Complete]);

    // It finishes all the same, and comes back with its result.
    gate.add_permits(1);
    until("the first to end", || first.health().in_flight == 0 && first.health().buffered == 1)
        .await;
    flaky.set(Fault::None);
    first.drain().await;
    assert_eq!((first.stats().completed, first.stats().leases_lost), (0, 1));
    assert_eq!(get(&store, id).await.history.len(), 2);
    second.drain().await;
}

#[tokio::test]
async fn a_lost_session_cancels_its_handlers_and_a_new_one_is_opened() {
    let (store, clock) = travelling();
    let flaky = Flaky::new(store.clone());
    let engine: Arc<dyn Engine> = flaky.clone();
    let dropped = Dropped::default();
    let running = worker(&engine)
        .call_timeout(Duration::from_millis(100))
        .data(dropped.clone())
        .handle_kind("hang", hang)
        .handle_kind("fine", |_: Raw| async {})
        .build()
        .unwrap()
        .start();
    let lost = enqueue_all(&store, [NewJob::new("hang"), NewJob::new("hang")]).await;
    for id in &lost {
        reaches(&store, *id, JobState::Running).await;
    }
    flaky.no_heartbeats.store(true, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(60)).await;
    clock.advance(5_000);
    maintain(&store, Work::Reclaim).await;
    flaky.no_heartbeats.store(false, Ordering::SeqCst);
    until("the handlers to be dropped", || dropped.0.load(Ordering::SeqCst) == 2).await;
    until("both to count", || running.stats().leases_lost == 2).await;
    assert_eq!(running.stats().sessions_lost, 1);
    for id in lost {
        assert_eq!(get(&store, id).await.header.counters.crashes, 1);
    }
    let fine = enqueue(&store, NewJob::new("fine")).await;
    reaches(&store, fine, JobState::Completed).await;
    running.drain().await;
}

#[tokio::test]
async fn a_single_lost_lease_cancels_only_its_handler() {
    let (local, _dir) = local();
    for engine in [memory(), local] {
        let dropped = Dropped::default();
        let gate = Arc::new(Semaphore::new(0));
        let wait = |_: Raw, Data(gate): Data<Arc<Semaphore>>| async move {
            gate.acquire().await.map(drop).map_err(Stop::from)
        };
        let running = worker(&engine)
            .data(dropped.clone())
            .data(gate.clone())
            .handle_kind("hang", hang)
            .handle_kind("wait", wait)
            .build()
            .unwrap()
            .start();
        let ids = enqueue_all(&engine, [NewJob::new("hang"), NewJob::new("wait")]).await;
        for id in &ids {
            reaches(&engine, *id, JobState::Running).await;
        }
        // The job is snoozed under the worker's own lease.
        support::take_away(&engine, ids[0]).await;
        until("the handler to be dropped", || dropped.0.load(Ordering::SeqCst) == 1).await;
        until("it to count", || running.stats().leases_lost == 1).await;
        gate.add_permits(1);
        reaches(&engine, ids[1], JobState::Completed).await;
        running.drain().await;
        assert_eq!((running.stats().completed, running.stats().sessions_lost), (1, 0));
        assert_eq!(get(&engine, ids[0]).await.state, JobState::Scheduled);
    }
}

#[tokio::test]
async fn a_suspect_runs_alone_and_heartbeats_go_on() {
    let (store, clock) = travelling();
    crashed(&store, &clock, NewJob::new("suspect"), 2).await;
    let now = Arc::new(AtomicU32::new(0));
    let log: Arc<Mutex<Vec<(String, u32)>>> = Arc::default();
    let gate = Arc::new(Semaphore::new(0));
    type Seen = (Arc<AtomicU32>, Arc<Mutex<Vec<(String, u32)>>>, Arc<Semaphore>);
    async fn watch(_: Raw, ctx: Ctx, Data((now, log, gate)): Data<Seen>) -> Result<(), Stop> {
        let others = now.fetch_add(1, Ordering::SeqCst);
        log.lock().unwrap().push((ctx.kind().to_owned(), others));
        if ctx.kind() != "quick" {
            gate.acquire().await?.forget();
        }
        now.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
    // One that is busy first, so that the suspect has to wait for its turn.
    let running = worker(&store)
        .data((now.clone(), log.clone(), gate.clone()))
        .queue("first")
        .queue("default")
        .handle_kind("busy", watch)
        .handle_kind("quick", watch)
        .handle_kind("suspect", watch);
    enqueue(&store, NewJob::new("busy").queue("first")).await;
    let running = running.build().unwrap().start();
    until("the busy one to run", || now.load(Ordering::SeqCst) == 1).await;
    until("the suspect to be claimed", || running.stats().claimed == 2).await;
    enqueue_all(&store, (0..5).map(|_| NewJob::new("quick"))).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(log.lock().unwrap().len(), 1, "the suspect waits, and so does all else");

    gate.add_permits(1);
    until("the suspect to run", || log.lock().unwrap().len() == 2).await;
    let age = || running.health().heartbeat_age.unwrap();
    until("a heartbeat while it runs", || age() < Duration::from_millis(40)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(now.load(Ordering::SeqCst), 1);
    gate.add_permits(1);
    until("the others to end", || running.stats().completed == 7).await;
    let log = log.lock().unwrap().clone();
    assert_eq!(log[1], ("suspect".to_owned(), 0), "{log:?}");
    running.drain().await;
}

#[tokio::test]
async fn a_suspect_that_waits_for_its_turn_can_be_called_off_or_given_back() {
    for cancel in [true, false] {
        let (store, clock) = travelling();
        crashed(&store, &clock, NewJob::new("suspect"), 2).await;
        let gate = Arc::new(Semaphore::new(0));
        let wait = |_: Raw, Data(gate): Data<Arc<Semaphore>>| async move {
            gate.acquire().await.map(drop).map_err(Stop::from)
        };
        enqueue(&store, NewJob::new("busy").queue("first")).await;
        let running = worker(&store)
            .data(gate.clone())
            .queue("first")
            .queue("default")
            .handle_kind("busy", wait)
            .handle_kind("suspect", wait)
            .build()
            .unwrap()
            .start();
        until("the suspect to be claimed", || running.stats().claimed == 2).await;
        let filter = windlass_core::engine::Filter::default().kind("suspect");
        let list = windlass_core::engine::List::new(filter);
        let id = store.list(list).await.unwrap().value.rows[0].header.id;
        if cancel {
            support::change(&store, id, Change::Cancel).await;
            reaches(&store, id, JobState::Cancelled).await;
            gate.add_permits(1);
            running.drain().await;
        } else {
            let draining = running.clone();
            let drained = tokio::spawn(async move { draining.drain().await });
            let job = reaches(&store, id, JobState::Available).await;
            assert_eq!(job.header.counters.crashes, 2, "giving back forgives nothing");
            gate.add_permits(1);
            drained.await.unwrap();
        }
        assert_eq!(running.stats().completed, 1);
    }
}
