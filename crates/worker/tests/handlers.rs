//! Arguments and results of handlers, and the outcome of their jobs.
#![allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]

mod support;

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{enqueue, get, local, maintain, memory, reaches, typed, until, worker};
use windlass_core::engine::{Change, Engine, Work};
use windlass_core::model::{Finish, NewJob, Rate, State as JobState};
use windlass_core::policy::Backoff;
use windlass_core::{TypedJob, limits};
use windlass_worker::{
    Ctx, Data, Ended, Extension, FromContext, Json, Next, Raw, Stop, Worker, code,
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Add {
    left: u32,
    right: u32,
}

impl TypedJob for Add {
    const KIND: &'static str = "add";
    type Output = u32;
}

fn add() -> NewJob {
    typed(&Add { left: 2, right: 3 })
}

fn result(job: &windlass_core::model::Job) -> String {
    let bytes = &job.result.as_ref().unwrap().bytes;
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The error a job of `add` ends with when its handler is this.
async fn error_of<H, A: 'static>(handler: H, state: JobState) -> windlass_core::model::Job
where
    H: windlass_worker::Handler<Add, A>,
{
    let engine = memory();
    let id = enqueue(&engine, add().backoff(Backoff::exactly(3_600_000))).await;
    let running = worker(&engine).handle_kind("add", handler).build().unwrap().start();
    let job = reaches(&engine, id, state).await;
    running.drain().await;
    job
}

#[tokio::test]
async fn a_typed_job_completes_with_its_result_on_every_engine() {
    async fn sum(job: Add) -> Result<u32, Stop> {
        Ok(job.left + job.right)
    }
    let (local, _dir) = local();
    for engine in [memory(), local] {
        let id = enqueue(&engine, add()).await;
        let running = worker(&engine).handle(sum).build().unwrap().start();
        let job = reaches(&engine, id, JobState::Completed).await;
        assert_eq!(result(&job), "5");
        running.drain().await;
        assert_eq!(running.stats().completed, 1);
    }
}

#[tokio::test]
async fn a_handler_takes_the_payload_as_type_as_json_or_raw_and_may_return_nothing() {
    let engine = memory();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    async fn raw(Raw(bytes): Raw, Data(seen): Data<Arc<Mutex<Vec<String>>>>) {
        seen.lock().unwrap().push(format!("raw {}", String::from_utf8_lossy(&bytes)));
    }
    async fn value(
        Json(value): Json<serde_json::Value>,
        Data(seen): Data<Arc<Mutex<Vec<String>>>>,
    ) {
        seen.lock().unwrap().push(format!("value {}", value["x"]));
    }
    async fn wrapped(Json(add): Json<Add>, Data(seen): Data<Arc<Mutex<Vec<String>>>>) {
        seen.lock().unwrap().push(format!("json {}", add.left));
    }
    let running = worker(&engine)
        .data(seen.clone())
        .handle_kind("raw", raw)
        .handle_kind("value", value)
        .handle_kind("add", wrapped)
        .build()
        .unwrap()
        .start();
    let jobs = [
        NewJob::new("raw").payload(&b"\x01ab"[..]),
        NewJob::new("raw"),
        NewJob::new("value").json(r#"{"x":7}"#),
        add(),
    ];
    for job in jobs {
        let id = enqueue(&engine, job).await;
        let job = reaches(&engine, id, JobState::Completed).await;
        assert_eq!(job.result, None);
    }
    assert_eq!(*seen.lock().unwrap(), ["raw \u{1}ab", "raw ", "value 7", "json 2"]);
    running.drain().await;
}

#[tokio::test]
async fn an_unreadable_payload_fails_its_job_for_good_and_nothing_else() {
    let engine = memory();
    let bad = [
        NewJob::new("add").json(r#"{"left":"two"}"#),
        NewJob::new("add").payload(&b"\xff\xfe"[..]),
        NewJob::new("add"),
    ];
    let running = worker(&engine).handle_kind("add", |_: Add| async {}).build().unwrap().start();
    for job in bad {
        let id = enqueue(&engine, job).await;
        let job = reaches(&engine, id, JobState::Dead).await;
        assert_eq!(job.error.unwrap().code, code::UNREADABLE_PAYLOAD);
        assert_eq!((job.header.counters.attempt, job.finish), (1, Some(Finish::Failed)));
    }
    let good = enqueue(&engine, add()).await;
    reaches(&engine, good, JobState::Completed).await;
    running.drain().await;
}

#[tokio::test]
async fn kinds_without_a_handler_are_never_claimed() {
    let engine = memory();
    let stranger = enqueue(&engine, NewJob::new("stranger")).await;
    let running = worker(&engine).handle_kind("add", |_: Add| async {}).build().unwrap().start();
    let id = enqueue(&engine, add()).await;
    reaches(&engine, id, JobState::Completed).await;
    running.drain().await;
    let job = get(&engine, stranger).await;
    assert_eq!((job.state, job.header.counters.attempt), (JobState::Available, 0));
    assert_eq!(running.stats().claimed, 1);
}

#[tokio::test]
async fn an_error_is_retried_by_the_jobs_backoff_until_it_succeeds() {
    let engine = memory();
    let tries = Arc::new(AtomicU32::new(0));
    async fn third_time(_: Add, ctx: Ctx, Data(tries): Data<Arc<AtomicU32>>) -> Result<(), Stop> {
        assert_eq!(tries.fetch_add(1, Ordering::SeqCst) + 1, ctx.attempt());
        assert_eq!(ctx.failures() + 1, ctx.attempt());
        if ctx.attempt() < 3 {
            "x".parse::<u8>()?;
        }
        Ok(())
    }
    let running =
        worker(&engine).data(tries.clone()).handle_kind("add", third_time).build().unwrap().start();
    let id = enqueue(&engine, add().backoff(Backoff::exactly(0))).await;
    let job = support::eventually("the third attempt", || async {
        maintain(&engine, Work::Promote).await;
        let job = get(&engine, id).await;
        (job.state == JobState::Completed).then_some(job)
    })
    .await;
    assert_eq!((job.header.counters.attempt, job.header.counters.failures), (3, 2));
    let error = job.history[0].error.clone().unwrap();
    assert_eq!(error.to_string(), "error: invalid digit found in string");
    running.drain().await;
    assert_eq!((running.stats().retried, running.stats().completed), (2, 1));
}

#[tokio::test]
async fn a_retry_may_name_its_code_and_its_delay() {
    async fn later(_: Add) -> Result<(), Stop> {
        Err(Stop::retry("greylisted").code("smtp_451").after(Duration::from_secs(600)))
    }
    let job = error_of(later, JobState::Scheduled).await;
    assert_eq!(job.error.unwrap().to_string(), "smtp_451: greylisted");
    let ended = job.history[0].ended_at;
    assert_eq!(job.header.run_at.since(ended), 600_000);
}

#[tokio::test]
async fn fatal_snooze_cancel_wait_and_release_do_what_they_say() {
    let job = error_of(|_: Add| async { Err::<(), _>(Stop::fatal("no")) }, JobState::Dead).await;
    assert_eq!((job.finish, job.header.counters.failures), (Some(Finish::Failed), 1));

    let snooze = |_: Add| async { Err::<(), _>(Stop::snooze(Duration::from_secs(60))) };
    let job = error_of(snooze, JobState::Scheduled).await;
    assert_eq!(job.header.counters.failures, 0);

    let cancel = |_: Add| async { Err::<(), _>(Stop::cancel("no longer wanted")) };
    let job = error_of(cancel, JobState::Cancelled).await;
    assert_eq!(job.log[0].text, "cancelled: no longer wanted");

    let release = |_: Add, ctx: Ctx| async move {
        if ctx.attempt() < 3 { Err(Stop::release()) } else { Ok(()) }
    };
    let job = error_of(release, JobState::Completed).await;
    assert_eq!((job.header.counters.attempt, job.header.counters.failures), (3, 0));
}

#[tokio::test]
async fn a_waiting_job_holds_no_slot_and_goes_on_when_signalled() {
    let engine = memory();
    async fn approval(_: Add, ctx: Ctx) -> Result<(), Stop> {
        if ctx.attempt() == 1 { Err(Stop::wait()) } else { Ok(()) }
    }
    let running =
        worker(&engine).concurrency(1).handle_kind("add", approval).build().unwrap().start();
    let id = enqueue(&engine, add()).await;
    reaches(&engine, id, JobState::Blocked).await;
    until("the slot to be free", || running.health().in_flight == 0).await;
    support::change(&engine, id, Change::signal("go")).await;
    reaches(&engine, id, JobState::Completed).await;
    running.drain().await;
}

#[tokio::test]
async fn a_panic_fails_the_attempt_with_message_and_backtrace_and_the_worker_goes_on() {
    let engine = memory();
    async fn explode(_: Add) {
        inner_function_that_panics();
    }
    #[inline(never)]
    fn inner_function_that_panics() {
        panic!("the boiler is empty");
    }
    let running = worker(&engine)
        .handle_kind("add", explode)
        .handle_kind_blocking("blocking", |_: Raw| inner_function_that_panics())
        .handle_kind("fine", |_: Raw| async {})
        .build()
        .unwrap()
        .start();
    for kind in ["add", "blocking"] {
        let id = enqueue(&engine, NewJob::new(kind).json(r#"{"left":1,"right":1}"#)).await;
        let job = reaches(&engine, id, JobState::Scheduled).await;
        let error = job.error.unwrap();
        assert_eq!(error.code, code::PANIC);
        assert!(error.message.starts_with("the boiler is empty at "), "{error}");
        assert!(error.message.contains("inner_function_that_panics"), "{error}");
        assert!(error.message.len() <= limits::ERROR_BYTES_MAX);
        assert_eq!(job.header.counters.failures, 1);
    }
    let fine = enqueue(&engine, NewJob::new("fine")).await;
    reaches(&engine, fine, JobState::Completed).await;
    running.drain().await;
}

#[tokio::test]
async fn a_handler_that_panics_while_it_is_dropped_does_not_cost_its_slot() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("even now");
            }
        }
    }
    async fn hang(_: Add) {
        let _bomb = Bomb;
        std::future::pending::<()>().await;
    }
    let engine = memory();
    let running = worker(&engine)
        .concurrency(1)
        .timeout(Duration::from_millis(20))
        .handle_kind("add", hang)
        .build()
        .unwrap()
        .start();
    for _ in 0..2 {
        let id = enqueue(&engine, add()).await;
        let job = reaches(&engine, id, JobState::Scheduled).await;
        assert_eq!(job.error.unwrap().code, code::TIMEOUT);
    }
    running.drain().await;
}

#[tokio::test]
async fn a_result_that_is_too_large_fails_the_job_clearly() {
    let large = |_: Add| async { Ok::<_, Stop>("x".repeat(limits::RESULT_BYTES_MAX + 1)) };
    let job = error_of(large, JobState::Dead).await;
    assert_eq!(job.error.unwrap().code, code::UNSTORABLE_RESULT);
}

#[derive(Clone)]
struct Tenant(String);

struct Shouted(String);

impl FromContext for Shouted {
    fn from_context(ctx: &Ctx) -> Result<Self, Stop> {
        Ok(Self(ctx.tenant().unwrap_or("none").to_uppercase()))
    }
}

#[tokio::test]
async fn middleware_runs_around_every_handler_and_hands_values_to_it() {
    async fn tenancy(ctx: Ctx, next: Next) -> Ended {
        match ctx.tenant().map(str::to_owned) {
            Some(tenant) => {
                ctx.insert(Tenant(tenant));
                next.run(ctx).await
            }
            None => Err(Stop::fatal("whose job is this?").code("no_tenant")),
        }
    }
    async fn quiet(ctx: Ctx, next: Next) -> Ended {
        // Inside of tenancy: it has been there already.
        assert!(ctx.extension::<Tenant>().is_some());
        next.run(ctx).await
    }
    async fn greet(
        _: Add,
        Extension(tenant): Extension<Tenant>,
        loud: Shouted,
    ) -> Result<String, Stop> {
        Ok(format!("{} {}", tenant.0, loud.0))
    }
    let engine = memory();
    let running = worker(&engine)
        .middleware(tenancy)
        .middleware(quiet)
        .handle_kind("add", greet)
        .handle_kind_blocking("blocking", |_: Raw, Extension(tenant): Extension<Tenant>| {
            Ok::<_, Stop>(tenant.0)
        })
        .build()
        .unwrap()
        .start();
    let id = enqueue(&engine, add().tenant("acme")).await;
    assert_eq!(result(&reaches(&engine, id, JobState::Completed).await), "\"acme ACME\"");
    let id = enqueue(&engine, NewJob::new("blocking").tenant("acme")).await;
    assert_eq!(result(&reaches(&engine, id, JobState::Completed).await), "\"acme\"");
    let id = enqueue(&engine, add()).await;
    assert_eq!(reaches(&engine, id, JobState::Dead).await.error.unwrap().code, "no_tenant");
    running.drain().await;
}

#[test]
fn mistakes_in_a_worker_are_found_when_it_is_built() {
    fn wrong(make: impl FnOnce(windlass_worker::Builder) -> windlass_worker::Builder) -> String {
        let engine: Arc<dyn Engine> = memory();
        make(Worker::builder(engine)).build().unwrap_err().to_string()
    }
    async fn needy(_: Add, Data(_): Data<Tenant>) {}
    let noop = |_: Add| async {};
    let second = Duration::from_secs(1);
    let table = [
        (wrong(|b| b), "needs a handler"),
        (
            wrong(|b| b.handle_kind("add", noop).handle_kind("add", noop)),
            "kind \"add\" has two handlers",
        ),
        (wrong(|b| b.handle_kind("add", needy)), "kind \"add\" takes Data<"),
        (wrong(|b| b.handle_kind("add", needy)), "Tenant>"),
        (wrong(|b| b.handle_kind("add", noop).data(1_u8).data(2_u8)), "type u8 was given twice"),
        (
            wrong(|b| b.handle_kind("add", noop).queue("a").weighted([("b", 1)])),
            "queue \"a\" has no weight",
        ),
        (wrong(|b| b.handle_kind("add", noop).weighted([("b", 0)])), "weight is 0"),
        (
            wrong(|b| b.handle(|_: Add| async { Ok::<u32, Stop>(1) }).queue("a").queue("b")),
            "kind \"add\" can never run: its jobs go to queue \"default\", but this worker serves only \"a\", \"b\"",
        ),
        (wrong(|b| b.handle_kind("add", noop).queue("a").queue("a")), "queue is a: name it once"),
        (wrong(|b| b.handle_kind("add", noop).queue("a b")), "queue is \"a b\""),
        (wrong(|b| b.handle_kind("a b", noop)), "kind is \"a b\""),
        (wrong(|b| b.handle_kind("add", noop).concurrency(0)), "concurrency is 0"),
        (wrong(|b| b.handle_kind("add", noop).blocking_threads(0)), "blocking_threads is 0"),
        (wrong(|b| b.handle_kind("add", noop).queue_limit("x", 1)), "queue_limit names \"x\""),
        (wrong(|b| b.handle_kind("add", noop).kind_limit("x", 1)), "kind_limit names \"x\""),
        (wrong(|b| b.handle_kind("add", noop).kind_limit("add", 0)), "kind_limit is 0"),
        (
            wrong(|b| b.handle_kind("add", noop).kind_rate("x", Rate::bucket(1, 1))),
            "kind_rate names \"x\"",
        ),
        (wrong(|b| b.handle_kind("add", noop).kind_rate("add", Rate::bucket(0, 1))), "rate.amount"),
        (wrong(|b| b.handle_kind("add", noop).floor(0, 100)), "floor is 100"),
        (wrong(|b| b.handle_kind("add", noop).floor(1, 5).floor(1, 6)), "one share"),
        (
            wrong(|b| b.handle_kind("add", noop).kind_timeout("x", second)),
            "kind_timeout names \"x\"",
        ),
        (wrong(|b| b.handle_kind("add", noop).timeout(Duration::ZERO)), "timeout is 0ns"),
        (wrong(|b| b.handle_kind("add", noop).session(second, second)), "heartbeat is 1s"),
        (wrong(|b| b.handle_kind("add", noop).session(second / 2, second / 8)), "ttl_ms"),
        (wrong(|b| b.handle_kind("add", noop).name("")), "name is"),
    ];
    for (message, expected) in table {
        assert!(message.contains(expected), "{message:?} does not say {expected:?}");
    }
}
