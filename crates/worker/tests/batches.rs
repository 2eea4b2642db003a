//! Batch handlers: several jobs in one call, each with its own result, lease, timeout and signal.
#![allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]

mod support;

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{change, crashed, enqueue, enqueue_all, get, local, memory, reaches, travelling};
use support::{typed, until, worker};
use tokio::sync::Semaphore;
use windlass_core::engine::{Change, Engine, Work};
use windlass_core::model::{AttemptEnd, NewJob, State as JobState};
use windlass_core::{JobId, TypedJob};
use windlass_worker::{Batched, Builder, Ctx, Data, Ended, Next, Raw, Stop, code};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Row {
    number: u32,
}

impl TypedJob for Row {
    const KIND: &'static str = "row";
    type Output = u32;

    fn template() -> NewJob {
        NewJob::new(Self::KIND).queue("rows")
    }
}

fn rows(count: u32) -> impl Iterator<Item = NewJob> {
    (0..count).map(|number| typed(&Row { number }))
}

/// The sizes of the batches that were called.
type Sizes = Arc<Mutex<Vec<usize>>>;

async fn double(rows: Vec<Row>, Data(sizes): Data<Sizes>) -> Vec<Result<u32, Stop>> {
    sizes.lock().unwrap().push(rows.len());
    rows.iter()
        .map(|row| if row.number == 3 { Err(Stop::fatal("three")) } else { Ok(row.number * 2) })
        .collect()
}

async fn each_result(engine: &Arc<dyn Engine>, ids: &[JobId]) {
    for (number, id) in ids.iter().enumerate() {
        if number == 3 {
            let dead = reaches(engine, *id, JobState::Dead).await;
            assert_eq!(dead.error.unwrap().message, "three");
        } else {
            let job = reaches(engine, *id, JobState::Completed).await;
            assert_eq!(&*job.result.unwrap().bytes, (number * 2).to_string().as_bytes());
        }
    }
}

#[tokio::test]
async fn jobs_that_are_claimed_together_run_in_one_call_and_each_has_its_own_result() {
    let (local, _dir) = local();
    for engine in [memory(), local] {
        let ids = enqueue_all(&engine, rows(25)).await;
        let sizes = Sizes::default();
        let running = worker(&engine).data(sizes.clone()).handle_batch(double, 10);
        let running = running.build().unwrap().start();
        each_result(&engine, &ids).await;
        assert_eq!(*sizes.lock().unwrap(), [10, 10, 5]);
        running.drain().await;
        assert_eq!((running.stats().completed, running.stats().failed), (24, 1));
    }
}

#[tokio::test]
async fn a_batch_never_waits_to_fill_unless_it_may_linger() {
    let engine = memory();
    for (linger, expected) in [(Duration::ZERO, vec![1, 1]), (Duration::from_secs(1), vec![2])] {
        let sizes = Sizes::default();
        let running = worker(&engine).data(sizes.clone()).handle_batch(double, 2);
        let running = running.batch_linger("row", linger).build().unwrap().start();
        let first = enqueue(&engine, typed(&Row { number: 0 })).await;
        let state = if linger.is_zero() { JobState::Completed } else { JobState::Running };
        reaches(&engine, first, state).await;
        let second = enqueue(&engine, typed(&Row { number: 1 })).await;
        reaches(&engine, second, JobState::Completed).await;
        assert_eq!(*sizes.lock().unwrap(), expected);
        running.drain().await;
    }
}

#[tokio::test]
async fn a_batch_that_does_not_fill_runs_when_its_linger_is_over() {
    let engine = memory();
    let sizes = Sizes::default();
    let running = worker(&engine).data(sizes.clone()).handle_batch(double, 10);
    let running = running.batch_linger("row", Duration::from_millis(50)).build().unwrap().start();
    let ids = enqueue_all(&engine, rows(2)).await;
    each_result(&engine, &ids).await;
    assert_eq!(*sizes.lock().unwrap(), [2]);
    running.drain().await;
}

#[tokio::test]
async fn one_result_for_all_completes_or_fails_all() {
    let engine = memory();
    let insert = |rows: Vec<Raw>| async move {
        if rows.len() == 2 { Err(Stop::fatal("deadlock")) } else { Ok(rows.len()) }
    };
    let two = enqueue_all(&engine, [NewJob::new("insert"), NewJob::new("insert")]).await;
    let running = worker(&engine).handle_kind_batch("insert", insert, 3).build().unwrap().start();
    for id in two {
        let dead = reaches(&engine, id, JobState::Dead).await;
        assert_eq!(dead.error.unwrap().message, "deadlock");
    }
    let three = (0..3).map(|_| NewJob::new("insert"));
    for id in enqueue_all(&engine, three).await {
        let job = reaches(&engine, id, JobState::Completed).await;
        assert_eq!(&*job.result.unwrap().bytes, b"3");
    }
    running.drain().await;
}

#[tokio::test]
async fn a_panic_and_a_wrong_number_of_results_fail_every_job_of_the_batch() {
    let engine = memory();
    let panics = |_: Vec<Raw>| async move { panic!("out of ink") };
    let forgets = |_: Vec<Raw>| async move { vec![Ok::<(), Stop>(())] };
    let kinds = [("panics", code::PANIC), ("forgets", code::BATCH_RESULTS)];
    let mut ids = Vec::new();
    for (kind, expected) in kinds {
        let jobs = (0..3).map(|_| NewJob::new(kind).max_attempts(1));
        ids.extend(enqueue_all(&engine, jobs).await.into_iter().map(|id| (id, expected)));
    }
    let running = worker(&engine)
        .handle_kind_batch(
            "panics",
            async move |jobs| {
                let () = panics(jobs).await;
            },
            3,
        )
        .handle_kind_batch("forgets", forgets, 3);
    let running = running.build().unwrap().start();
    for (id, expected) in ids {
        let dead = reaches(&engine, id, JobState::Dead).await;
        assert_eq!(dead.error.unwrap().code, expected);
    }
    running.drain().await;
}

#[tokio::test]
async fn an_unreadable_payload_fails_alone_and_the_others_run() {
    let engine = memory();
    let bad = Row::template().json(r#"{"number":"one"}"#);
    let jobs = [typed(&Row { number: 0 }), bad, typed(&Row { number: 2 })];
    let ids = enqueue_all(&engine, jobs).await;
    let sizes = Sizes::default();
    let running = worker(&engine).data(sizes.clone()).handle_batch(double, 3);
    let running = running.build().unwrap().start();
    let dead = reaches(&engine, ids[1], JobState::Dead).await;
    assert_eq!(dead.error.unwrap().code, code::UNREADABLE_PAYLOAD);
    for (at, expected) in [(0, "0"), (2, "4")] {
        let job = reaches(&engine, ids[at], JobState::Completed).await;
        assert_eq!(&*job.result.unwrap().bytes, expected.as_bytes());
    }
    assert_eq!(*sizes.lock().unwrap(), [2]);
    running.drain().await;
}

/// Counts the handlers that were dropped before their end.
#[derive(Clone, Default)]
struct Dropped(Arc<AtomicU32>);

struct Guard(Dropped);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A worker whose batches of three wait for a permit.
fn gated(engine: &Arc<dyn Engine>, gate: &Arc<Semaphore>, dropped: &Dropped) -> Builder {
    async fn wait(
        jobs: Vec<Batched<Raw>>,
        Data(gate): Data<Arc<Semaphore>>,
        Data(dropped): Data<Dropped>,
    ) -> Vec<Result<usize, Stop>> {
        let guard = Guard(dropped);
        gate.acquire().await.unwrap().forget();
        std::mem::forget(guard);
        jobs.iter().map(|job| Ok(job.ctx.id().to_string().len())).collect()
    }
    let worker = worker(engine).data(gate.clone()).data(dropped.clone());
    worker.handle_kind_batch("wait", wait, 3)
}

async fn three_running(engine: &Arc<dyn Engine>) -> Vec<JobId> {
    let ids = enqueue_all(engine, (0..3).map(|_| NewJob::new("wait"))).await;
    for id in &ids {
        reaches(engine, *id, JobState::Running).await;
    }
    ids
}

#[tokio::test]
async fn a_job_that_is_cancelled_leaves_the_batch_and_the_others_complete() {
    let engine = memory();
    let (gate, dropped) = (Arc::new(Semaphore::new(0)), Dropped::default());
    let running = gated(&engine, &gate, &dropped).build().unwrap().start();
    let ids = three_running(&engine).await;
    change(&engine, ids[1], Change::Cancel).await;
    reaches(&engine, ids[1], JobState::Cancelled).await;
    gate.add_permits(1);
    for at in [0, 2] {
        reaches(&engine, ids[at], JobState::Completed).await;
    }
    assert_eq!(dropped.0.load(Ordering::SeqCst), 0);
    running.drain().await;
}

#[tokio::test]
async fn the_handler_is_dropped_when_no_job_of_its_batch_is_left() {
    let engine = memory();
    let (gate, dropped) = (Arc::new(Semaphore::new(0)), Dropped::default());
    let running = gated(&engine, &gate, &dropped).build().unwrap().start();
    for id in three_running(&engine).await {
        change(&engine, id, Change::Cancel).await;
    }
    until("the handler to be dropped", || dropped.0.load(Ordering::SeqCst) == 1).await;
    running.drain().await;
}

#[tokio::test]
async fn a_timeout_fails_every_job_of_the_batch_and_drops_the_handler() {
    let engine = memory();
    let (gate, dropped) = (Arc::new(Semaphore::new(0)), Dropped::default());
    let jobs = (0..3).map(|_| NewJob::new("wait").max_attempts(1));
    let ids = enqueue_all(&engine, jobs).await;
    let running = gated(&engine, &gate, &dropped).kind_timeout("wait", Duration::from_millis(50));
    let running = running.build().unwrap().start();
    for id in ids {
        let dead = reaches(&engine, id, JobState::Dead).await;
        assert_eq!(dead.error.unwrap().code, code::TIMEOUT);
    }
    until("the handler to be dropped", || dropped.0.load(Ordering::SeqCst) == 1).await;
    running.drain().await;
}

#[tokio::test]
async fn a_lost_lease_of_one_job_does_not_affect_the_others() {
    let engine = memory();
    let (gate, dropped) = (Arc::new(Semaphore::new(0)), Dropped::default());
    let running = gated(&engine, &gate, &dropped).build().unwrap().start();
    let ids = three_running(&engine).await;
    support::take_away(&engine, ids[0]).await;
    until("it to count", || running.stats().leases_lost == 1).await;
    gate.add_permits(1);
    for at in [1, 2] {
        reaches(&engine, ids[at], JobState::Completed).await;
    }
    running.drain().await;
    assert_eq!((running.stats().completed, running.stats().leases_lost), (2, 1));
    assert_eq!(get(&engine, ids[0]).await.state, JobState::Scheduled);
}

#[tokio::test]
async fn a_drain_releases_the_jobs_of_a_batch_that_does_not_end() {
    let engine = memory();
    let (gate, dropped) = (Arc::new(Semaphore::new(0)), Dropped::default());
    let running = gated(&engine, &gate, &dropped).grace(Duration::from_millis(50));
    let running = running.build().unwrap().start();
    let ids = three_running(&engine).await;
    running.drain().await;
    for id in ids {
        let job = get(&engine, id).await;
        assert_eq!((job.state, job.header.counters.failures), (JobState::Available, 0));
        assert_eq!(job.history.last().unwrap().end, AttemptEnd::Release);
    }
    assert_eq!(dropped.0.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn suspects_run_in_batches_of_their_own() {
    let (store, clock) = travelling();
    for _ in 0..2 {
        crashed(&store, &clock, NewJob::new("row"), 2).await;
    }
    let sizes = Sizes::default();
    let count = |jobs: Vec<Raw>, Data(sizes): Data<Sizes>| async move {
        sizes.lock().unwrap().push(jobs.len());
    };
    let running = worker(&store).data(sizes.clone()).handle_kind_batch("row", count, 10);
    let running = running.build().unwrap().start_until_idle();
    running.stopped().await;
    assert_eq!(*sizes.lock().unwrap(), [1, 1]);
    support::maintain(&store, Work::Promote).await;
}

#[tokio::test]
async fn middleware_runs_around_each_job_and_one_that_ends_early_delays_no_other() {
    let engine = memory();
    let passed = Arc::new(AtomicU32::new(0));
    let seen = passed.clone();
    let middleware = move |ctx: Ctx, next: Next| {
        let seen = seen.clone();
        async move {
            if seen.fetch_add(1, Ordering::SeqCst) == 0 {
                return Err(Stop::fatal("the first does not pass")) as Ended;
            }
            next.run(ctx).await
        }
    };
    let ids = enqueue_all(&engine, rows(3)).await;
    let sizes = Sizes::default();
    let running = worker(&engine).data(sizes.clone()).middleware(middleware);
    let running = running.handle_batch(double, 3).build().unwrap().start();
    reaches(&engine, ids[0], JobState::Dead).await;
    reaches(&engine, ids[1], JobState::Completed).await;
    reaches(&engine, ids[2], JobState::Completed).await;
    assert_eq!((passed.load(Ordering::SeqCst), &*sizes.lock().unwrap()), (3, &vec![2]));
    running.drain().await;
}

#[tokio::test]
async fn a_job_that_is_held_up_in_middleware_does_not_hold_up_its_batch() {
    let engine = memory();
    let middleware = |ctx: Ctx, next: Next| async move {
        if ctx.tags().contains(&"slow".to_owned()) {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        next.run(ctx).await
    };
    let slow = typed(&Row { number: 0 }).tag("slow");
    let ids = enqueue_all(&engine, [slow, typed(&Row { number: 1 })]).await;
    let sizes = Sizes::default();
    let running = worker(&engine).data(sizes.clone()).middleware(middleware);
    let running = running.handle_batch(double, 2).build().unwrap().start();
    reaches(&engine, ids[1], JobState::Completed).await;
    assert_eq!(*sizes.lock().unwrap(), [1]);
    reaches(&engine, ids[0], JobState::Completed).await;
    assert_eq!(*sizes.lock().unwrap(), [1, 1]);
    running.drain().await;
}

#[test]
fn sizes_that_cannot_be_reached_are_refused() {
    let engine = memory();
    let none = async |_: Vec<Raw>| {};
    let wrong = |build: &dyn Fn(Builder) -> Builder| {
        build(worker(&engine)).build().unwrap_err().to_string()
    };
    let batch = |jobs_max| move |worker: Builder| worker.handle_kind_batch("a", none, jobs_max);
    let cases = [
        (wrong(&batch(0)), "jobs_max is 0"),
        (wrong(&batch(1_001)), "between 1 and 1000"),
        (wrong(&batch(101)), "at most 100 jobs of kind \"a\""),
        (wrong(&|worker| batch(5)(worker).kind_limit("a", 4)), "at most 4 jobs of kind \"a\""),
        (wrong(&|worker| batch(5)(worker).batch_linger("b", Duration::ZERO)), "names \"b\""),
        (
            wrong(&|worker| batch(5)(worker).batch_linger("a", Duration::from_secs(2))),
            "batch_linger is 2s: it must be at most 1s",
        ),
    ];
    for (message, expected) in cases {
        assert!(message.contains(expected), "{message}");
    }
}
