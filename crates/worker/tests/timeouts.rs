//! Handlers that run too long, and handlers that are called off.
#![allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use support::{change, enqueue, get, memory, reaches, until, worker};
use windlass_core::engine::{Change, Engine};
use windlass_core::model::{NewJob, State as JobState};
use windlass_worker::{Cause, Ctx, Data, Raw, Stop, code};

/// Counts how many are alive.
struct Alive(Arc<AtomicU32>);

impl Alive {
    fn new(count: &Arc<AtomicU32>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn hang(_: Raw, Data(count): Data<Arc<AtomicU32>>) {
    let _alive = Alive::new(&count);
    std::future::pending::<()>().await;
}

fn timeout_ms(mut job: NewJob, ms: u64) -> NewJob {
    job.policy.timeout_ms = Some(ms);
    job
}

#[tokio::test]
async fn an_async_handler_past_its_time_is_dropped_and_its_slot_is_free() {
    let engine = memory();
    let alive = Arc::new(AtomicU32::new(0));
    let running = worker(&engine)
        .concurrency(1)
        .data(alive.clone())
        .handle_kind("hang", hang)
        .handle_kind("fine", |_: Raw| async {})
        .kind_timeout("hang", Duration::from_millis(30))
        .build()
        .unwrap()
        .start();
    let id = enqueue(&engine, NewJob::new("hang")).await;
    let job = reaches(&engine, id, JobState::Scheduled).await;
    let error = job.error.unwrap();
    assert_eq!((error.code.as_str(), job.header.counters.failures), (code::TIMEOUT, 1));
    assert!(error.message.contains("longer than 30ms"), "{error}");
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    let fine = enqueue(&engine, NewJob::new("fine")).await;
    reaches(&engine, fine, JobState::Completed).await;
    running.drain().await;
}

#[tokio::test]
async fn the_jobs_own_timeout_comes_before_that_of_its_kind_and_that_before_the_workers() {
    let engine = memory();
    let seen = |_: Raw, ctx: Ctx| async move {
        let remaining = ctx.remaining();
        assert!(remaining <= ctx.deadline() - tokio::time::Instant::now() + Duration::from_secs(1));
        Ok::<_, Stop>(remaining.as_secs_f64().round() as u64)
    };
    let running = worker(&engine)
        .timeout(Duration::from_secs(300))
        .handle_kind("a", seen)
        .handle_kind("b", seen)
        .kind_timeout("b", Duration::from_secs(200))
        .build()
        .unwrap()
        .start();
    let jobs = [
        (NewJob::new("a"), "300"),
        (NewJob::new("b"), "200"),
        (timeout_ms(NewJob::new("b"), 100_000), "100"),
    ];
    for (job, expected) in jobs {
        let id = enqueue(&engine, job).await;
        let job = reaches(&engine, id, JobState::Completed).await;
        assert_eq!(job.result.unwrap().bytes, expected);
    }
    running.drain().await;
}

#[tokio::test]
async fn a_blocking_handler_over_its_timeout_is_notified_and_may_still_finish() {
    let engine = memory();
    fn polite(_: Raw, ctx: Ctx) -> Result<String, Stop> {
        while ctx.is_cancelled().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(ctx.is_cancelled().unwrap().to_string())
    }
    let running = worker(&engine)
        .stop_grace(Duration::from_secs(10))
        .handle_kind_blocking("polite", polite)
        .build()
        .unwrap()
        .start();
    let id = enqueue(&engine, timeout_ms(NewJob::new("polite"), 20)).await;
    let job = reaches(&engine, id, JobState::Completed).await;
    assert_eq!(job.result.unwrap().bytes, "\"timeout\"");
    assert_eq!(running.stats().threads_leaked, 0);
    running.drain().await;
}

#[tokio::test]
async fn a_blocking_handler_that_ignores_its_end_is_reported_and_its_thread_counted_until_it_returns()
 {
    let engine = memory();
    let (let_go, gate) = mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let deaf = move |_: Raw| {
        let _ = gate.lock().unwrap().recv();
    };
    let running = worker(&engine)
        .blocking_threads(1)
        .stop_grace(Duration::from_millis(20))
        .handle_kind_blocking("deaf", deaf)
        .handle_kind_blocking("fine", |_: Raw| {})
        .build()
        .unwrap()
        .start();
    let id = enqueue(&engine, timeout_ms(NewJob::new("deaf"), 20)).await;
    let job = reaches(&engine, id, JobState::Scheduled).await;
    assert_eq!(job.error.unwrap().code, code::TIMEOUT);
    until("the leak to show", || running.health().leaked_threads == 1).await;
    assert_eq!((running.health().in_flight, running.stats().threads_leaked), (0, 1));

    // The only thread is taken: nothing that needs one is claimed, until it comes back.
    let fine = enqueue(&engine, NewJob::new("fine")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(get(&engine, fine).await.header.counters.attempt, 0);
    let_go.send(()).unwrap();
    reaches(&engine, fine, JobState::Completed).await;
    assert_eq!(running.health().leaked_threads, 0);
    running.drain().await;
}

#[tokio::test]
async fn blocking_handlers_never_run_on_more_threads_than_they_may() {
    let engine = memory();
    let now = Arc::new(AtomicU32::new(0));
    let most = Arc::new(AtomicU32::new(0));
    let (seen_now, seen_most) = (now.clone(), most.clone());
    let busy = move |_: Raw| {
        let count = seen_now.fetch_add(1, Ordering::SeqCst) + 1;
        seen_most.fetch_max(count, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(2));
        seen_now.fetch_sub(1, Ordering::SeqCst);
    };
    let running = worker(&engine)
        .blocking_threads(3)
        .handle_kind_blocking("a", busy.clone())
        .handle_kind_blocking("b", busy)
        .build()
        .unwrap()
        .start();
    let jobs = (0..60).map(|number| NewJob::new(if number % 3 == 0 { "b" } else { "a" }));
    support::enqueue_all(&engine, jobs).await;
    until("all to end", || running.stats().completed == 60).await;
    assert!((2..=3).contains(&most.load(Ordering::SeqCst)), "{most:?}");
    running.drain().await;
}

async fn starts(engine: &Arc<dyn Engine>, kind: &'static str) -> windlass_core::JobId {
    let id = enqueue(engine, NewJob::new(kind)).await;
    reaches(engine, id, JobState::Running).await;
    id
}

#[tokio::test]
async fn an_operators_cancellation_reaches_the_handler_which_ends_as_cancelled_or_complete() {
    let engine = memory();
    async fn gives_up(_: Raw, ctx: Ctx) -> Result<(), Stop> {
        let cause = ctx.cancelled().await;
        assert_eq!((cause, ctx.is_cancelled()), (Cause::Operator, Some(Cause::Operator)));
        Err(Stop::retry("stopped half way"))
    }
    async fn finishes(_: Raw, ctx: Ctx) -> Result<&'static str, Stop> {
        ctx.cancelled().await;
        Ok("done anyway")
    }
    let running = worker(&engine)
        .cancel_grace(Duration::from_secs(10))
        .handle_kind("gives_up", gives_up)
        .handle_kind("finishes", finishes)
        .build()
        .unwrap()
        .start();
    for (kind, end) in [("gives_up", JobState::Cancelled), ("finishes", JobState::Completed)] {
        let id = starts(&engine, kind).await;
        change(&engine, id, Change::Cancel).await;
        reaches(&engine, id, end).await;
    }
    running.drain().await;
    assert_eq!((running.stats().cancelled, running.stats().completed), (1, 1));
}

#[tokio::test]
async fn a_handler_that_ignores_its_cancellation_is_dropped_after_the_grace_time() {
    let engine = memory();
    let alive = Arc::new(AtomicU32::new(0));
    let builder = worker(&engine).data(alive.clone()).handle_kind("hang", hang);
    let running = builder.cancel_grace(Duration::from_millis(50)).build().unwrap().start();
    let id = starts(&engine, "hang").await;
    until("the handler to run", || alive.load(Ordering::SeqCst) == 1).await;
    change(&engine, id, Change::Cancel).await;
    reaches(&engine, id, JobState::Cancelled).await;
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    running.drain().await;
}
