//! The test queue: time passes as it would, and assertions say what was there.

use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use windlass::engine::{Claim, Claimant, OpenSession, Outcome, Settle, SettleItem};
use windlass::testing::{START, TestQueue};
use windlass::{Job, State};

const HOUR: Duration = Duration::from_secs(3_600);

#[derive(Job, Serialize, Deserialize, Debug, PartialEq)]
struct Remind {
    who: String,
}

#[derive(Job, Serialize, Deserialize)]
struct Forget;

fn remind(who: &str) -> Remind {
    Remind { who: who.to_owned() }
}

/// The message of a failed assertion, and the file that it names.
fn complaint(assertion: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(assertion)).expect_err("it must fail");
    panic.downcast_ref::<String>().expect("a message").clone()
}

#[tokio::test]
async fn time_is_frozen_until_it_is_advanced_and_then_jobs_are_due() {
    let queue = TestQueue::new();
    let id = queue.client().enqueue(remind("ada")).delay(HOUR).await.unwrap().id();
    assert_eq!((queue.now(), queue.job(id).state), (START, State::Scheduled));
    queue.advance(HOUR - Duration::from_millis(1));
    assert_eq!(queue.job(id).state, State::Scheduled);
    queue.advance(Duration::from_millis(1));
    assert_eq!((queue.now(), queue.job(id).state), (START.plus(3_600_000), State::Available));
}

#[tokio::test]
async fn on_a_long_journey_everything_happens_at_its_time() {
    let queue = TestQueue::new();
    let client = queue.client();
    // Due after one hour, expired an hour later, removed an hour after that.
    let job = client.enqueue(remind("ada")).delay(HOUR).max_wait(HOUR).retention(HOUR);
    let gone = job.await.unwrap().id();
    let job = client.enqueue(remind("alan")).delay(HOUR).max_wait(HOUR).retention(20 * HOUR);
    let expired = job.await.unwrap().id();
    queue.advance(10 * HOUR);
    assert_eq!(client.get(gone).await.unwrap(), None);
    let expired = queue.job(expired);
    assert_eq!(expired.state, State::Expired);
    assert_eq!(expired.finished_at, Some(START.plus(2 * 3_600_000)), "not when the journey ended");
}

#[tokio::test]
async fn a_worker_keeps_its_job_however_much_time_is_skipped() {
    let queue = TestQueue::new();
    let engine = queue.client().engine().clone();
    let id = queue.client().enqueue(remind("ada")).await.unwrap().id();
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let claim = Claim::new(Claimant::Session { session, claim_no: 1 }, "default", 1);
    let held = engine.claim(claim).await.unwrap().value.jobs.remove(0);
    queue.advance(24 * HOUR);
    assert_eq!(queue.job(id).state, State::Running);
    let done = Settle::new([SettleItem::new(id, held.lease, Outcome::DONE)]);
    engine.settle(done).await.unwrap().value.items.remove(0).unwrap();
    assert_eq!(queue.job(id).state, State::Completed);
}

#[tokio::test]
async fn enqueued_jobs_are_found_by_type_and_content() {
    let queue = TestQueue::new();
    let client = queue.client();
    client.enqueue(remind("ada")).await.unwrap();
    queue.advance(HOUR);
    client.enqueue(remind("alan")).queue("slow").await.unwrap();
    client.enqueue(Forget).await.unwrap();
    assert_eq!(&*queue.assert_enqueued::<Remind>(|job| job.who == "alan").header.queue, "slow");
    queue.refute_enqueued::<Remind>(|job| job.who == "grace");
    queue.assert_count::<Remind>(2);
    assert_eq!(queue.enqueued::<Remind>(), [remind("ada"), remind("alan")]);
    assert_eq!(
        queue.counts().into_iter().collect::<Vec<_>>(),
        [("forget".into(), 1), ("remind".into(), 2)]
    );
}

#[tokio::test]
async fn more_jobs_than_a_page_holds_are_all_seen() {
    let queue = TestQueue::new();
    let jobs = (0..2_500).map(|n| remind(&n.to_string()));
    queue.client().enqueue_all(jobs).await;
    assert_eq!(queue.jobs().len(), 2_500);
}

#[tokio::test]
async fn a_failing_assertion_lists_what_there_was() {
    let queue = TestQueue::new();
    let absent = || drop(queue.assert_enqueued::<Remind>(|job| job.who == "grace"));
    let text = complaint(absent);
    assert!(
        text.contains("no remind job like this") && text.contains("nothing was enqueued"),
        "{text}"
    );

    queue.client().enqueue(remind("ada")).queue("slow").await.unwrap();
    let text = complaint(absent);
    assert!(text.contains(r#"there is 1 job:"#), "{text}");
    assert!(text.contains(r#"remind on slow, available: {"who":"ada"}"#), "{text}");
    let text = complaint(|| queue.refute_enqueued::<Remind>(|job| job.who == "ada"));
    assert!(text.contains("like this was enqueued"), "{text}");
    let text = complaint(|| queue.assert_count::<Remind>(2));
    assert!(text.contains("1 remind jobs were enqueued, not 2"), "{text}");

    queue.client().enqueue_all((0..30).map(|_| Forget)).await;
    assert!(complaint(absent).contains("and 11 more"));
}

#[tokio::test]
async fn an_unreadable_payload_is_reported_with_its_job() {
    let queue = TestQueue::new();
    let id = queue.client().enqueue(windlass::job_of("remind")).payload(&7).await.unwrap().id();
    let text = complaint(|| drop(queue.enqueued::<Remind>()));
    assert!(text.contains(&id.to_string()), "{text}");
}

#[tokio::test]
async fn two_test_queues_know_nothing_of_each_other() {
    let (one, other) = (TestQueue::new(), TestQueue::new());
    one.client().enqueue(Forget).await.unwrap();
    one.advance(HOUR);
    assert!(other.jobs().is_empty() && other.now() == START);
}
