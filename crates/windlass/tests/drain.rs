//! Draining the test queue: the handlers of production, now, in order, with every failure in sight.
#![allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]

use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use windlass::model::AttemptEnd;
use windlass::policy::Schedule;
use windlass::testing::{Drained, TestQueue};
use windlass::worker::{Builder, Data as Shared};
use windlass::{Client, Ctx, Job, Raw, State, Stop};

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Job, Serialize, Deserialize)]
#[job(output = String, max_attempts = 3, backoff = "fixed(1m)")]
struct Step {
    name: String,
}

fn step(name: &str) -> Step {
    Step { name: name.to_owned() }
}

/// The jobs that ran, in order.
type Seen = Arc<Mutex<Vec<String>>>;

async fn run(job: Step, Shared(seen): Shared<Seen>, ctx: Ctx) -> Result<String, Stop> {
    seen.lock().unwrap().push(job.name.clone());
    match job.name.as_str() {
        "flaky" if ctx.attempt() == 1 => Err(Stop::retry("engaged").code("busy")),
        "broken" => Err(Stop::retry("always")),
        "hopeless" => Err(Stop::fatal("never")),
        "panics" => panic!("out of paper"),
        "first" => {
            ctx.follow_up_with(&step("second"))?;
            Ok(job.name)
        }
        "restless" => Err(Stop::release()),
        "stubborn" if ctx.attempt() < 50 => Err(Stop::retry("again").after(Duration::ZERO)),
        _ => Ok(job.name),
    }
}

fn worker(client: &Client, seen: &Seen) -> Builder {
    client.worker().data(seen.clone()).handle(run)
}

async fn drain(queue: &TestQueue, seen: &Seen) -> Drained {
    queue.drain(worker(&queue.client(), seen)).await
}

fn ends(drained: &Drained) -> Vec<AttemptEnd> {
    drained.attempts.iter().map(windlass::testing::Attempted::end).collect()
}

fn complaint(assertion: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(assertion)).expect_err("it must fail");
    panic.downcast_ref::<String>().expect("a message").clone()
}

#[tokio::test]
async fn everything_due_runs_in_order_and_what_is_not_due_waits() {
    let (queue, seen) = (TestQueue::new(), Seen::default());
    let client = queue.client();
    for name in ["a", "b", "c"] {
        client.enqueue(step(name)).await.unwrap();
    }
    client.enqueue(step("urgent")).priority(-1).await.unwrap();
    client.enqueue(step("later")).delay(MINUTE).await.unwrap();

    let drained = drain(&queue, &seen).await;
    drained.assert_all_completed();
    assert_eq!(*seen.lock().unwrap(), ["urgent", "a", "b", "c"]);
    assert_eq!((drained.completed(), drained.left), (4, 0));

    queue.advance(MINUTE);
    assert_eq!(drain(&queue, &seen).await.completed(), 1);
    assert_eq!(drain(&queue, &seen).await.attempts, []);
    assert_eq!(seen.lock().unwrap().last().unwrap(), "later");
}

#[tokio::test]
async fn follow_ups_are_run_as_well() {
    let (queue, seen) = (TestQueue::new(), Seen::default());
    let parent = queue.client().enqueue(step("first")).await.unwrap().id();
    drain(&queue, &seen).await.assert_all_completed();
    assert_eq!(*seen.lock().unwrap(), ["first", "second"]);
    let second = queue.assert_enqueued::<Step>(|job| job.name == "second");
    assert_eq!((second.state, second.header.parent), (State::Completed, Some(parent)));
}

#[tokio::test]
async fn a_failure_is_reported_and_its_retry_runs_when_due() {
    let (queue, seen) = (TestQueue::new(), Seen::default());
    let id = queue.client().enqueue(step("flaky")).await.unwrap().id();
    let drained = drain(&queue, &seen).await;
    assert_eq!(ends(&drained), [AttemptEnd::Retry]);
    let failure = drained.failures().next().unwrap();
    assert_eq!((failure.id, failure.error().as_str()), (id, "busy: engaged"));
    let text = complaint(|| drained.assert_all_completed());
    assert!(text.contains("step job") && text.contains("busy: engaged"), "{text}");

    assert_eq!(drain(&queue, &seen).await.attempts, [], "its backoff is not over");
    queue.advance(2 * MINUTE);
    let drained = drain(&queue, &seen).await;
    drained.assert_all_completed();
    assert_eq!(drained.attempts[0].attempt.number, 2);
    assert_eq!(queue.job(id).state, State::Completed);
}

#[tokio::test]
async fn time_travel_uses_up_the_attempts_and_the_job_is_dead() {
    let (queue, seen) = (TestQueue::new(), Seen::default());
    let broken = queue.client().enqueue(step("broken")).await.unwrap().id();
    let panics = queue.client().enqueue(step("panics")).await.unwrap().id();
    let hopeless = queue.client().enqueue(step("hopeless")).await.unwrap().id();
    let drained = drain(&queue, &seen).await;
    assert_eq!(ends(&drained), [AttemptEnd::Retry, AttemptEnd::Retry, AttemptEnd::Fail]);
    assert!(drained.attempts[1].error().contains("out of paper"));
    assert_eq!(queue.job(hopeless).state, State::Dead);
    for end in [AttemptEnd::Retry, AttemptEnd::Fail] {
        queue.advance(2 * MINUTE);
        assert_eq!(drain(&queue, &seen).await.ended(end), 2);
    }
    for id in [broken, panics] {
        assert_eq!(queue.job(id).state, State::Dead, "after three attempts");
    }
}

#[tokio::test]
async fn every_attempt_is_reported_even_those_dropped_from_the_history() {
    let (queue, seen) = (TestQueue::new(), Seen::default());
    queue.client().enqueue(step("stubborn")).max_attempts(100).await.unwrap();
    let drained = drain(&queue, &seen).await;
    let numbers: Vec<_> = drained.attempts.iter().map(|each| each.attempt.number).collect();
    assert_eq!(numbers, (1..=50).collect::<Vec<_>>());
}

#[tokio::test]
async fn jobs_without_a_handler_are_left_and_reported() {
    let (queue, seen) = (TestQueue::new(), Seen::default());
    queue.client().enqueue(windlass::job_of("unknown")).await.unwrap();
    queue.client().enqueue(step("elsewhere")).queue("other").await.unwrap();
    let drained = drain(&queue, &seen).await;
    assert_eq!((drained.attempts.len(), drained.left), (0, 2));
    assert!(complaint(|| drained.assert_all_completed()).contains("2 jobs are ready"));
}

#[tokio::test]
async fn schedules_fire_on_the_way_and_their_jobs_are_drained() {
    let (queue, seen) = (TestQueue::new(), Seen::default());
    let client = queue.client();
    client.schedule("every-minute", Schedule::every(MINUTE), step("tick")).await.unwrap();
    queue.advance(10 * MINUTE);
    assert_eq!(drain(&queue, &seen).await.completed(), 10);
    client.schedules().pause("every-minute").await.unwrap();
    queue.advance(10 * MINUTE);
    assert_eq!(drain(&queue, &seen).await.completed(), 0);
}

#[tokio::test]
async fn the_middleware_and_the_blocking_handlers_of_the_worker_run_too() {
    let (queue, seen) = (TestQueue::new(), Seen::default());
    let by = seen.clone();
    let refuse = async |_: Ctx, _| Err(Stop::fatal("not today"));
    let blocking = move |Raw(bytes): Raw| by.lock().unwrap().push(format!("{bytes:?}"));
    let built = |client: &Client| client.worker().handle_kind_blocking("raw", blocking.clone());
    queue.client().enqueue(windlass::job_of("raw")).payload_bytes("one").await.unwrap();
    queue.drain(built(&queue.client())).await.assert_all_completed();
    assert_eq!(*seen.lock().unwrap(), [r#"b"one""#]);

    queue.client().enqueue(windlass::job_of("raw")).payload_bytes("two").await.unwrap();
    let drained = queue.drain(built(&queue.client()).middleware(refuse)).await;
    assert_eq!(drained.attempts[0].error(), "fatal: not today");
}

#[tokio::test]
#[should_panic(expected = "jobs are still ready")]
async fn a_job_that_never_comes_to_an_end_ends_the_test() {
    let (queue, seen) = (TestQueue::new(), Seen::default());
    queue.client().enqueue(step("restless")).await.unwrap();
    drain(&queue, &seen).await;
}

#[tokio::test]
#[should_panic(expected = "a worker needs a handler")]
async fn a_worker_that_cannot_be_built_says_why() {
    let queue = TestQueue::new();
    queue.drain(queue.client().worker()).await;
}

#[tokio::test]
async fn two_runs_of_one_story_are_the_same() {
    let story = || async {
        let (queue, seen) = (TestQueue::new(), Seen::default());
        let jobs = (0..20).map(|n| step(if n % 3 == 0 { "flaky" } else { "fine" }));
        queue.client().enqueue_all(jobs).await;
        queue.client().enqueue(windlass::job_of("step")).payload(&step("first")).await.unwrap();
        let mut reported = ends(&drain(&queue, &seen).await);
        queue.advance(2 * MINUTE);
        reported.extend(ends(&drain(&queue, &seen).await));
        (seen.lock().unwrap().clone(), reported)
    };
    assert_eq!(story().await, story().await);
}
