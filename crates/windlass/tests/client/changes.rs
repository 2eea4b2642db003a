//! Changing jobs, seen by what becomes of them.

use crate::support::*;
use std::time::Duration;
use windlass::engine::Outcome;
use windlass::model::Policy;
use windlass::testing::{START, TestQueue};
use windlass::{Client, JobId, State};

const MINUTE: Duration = Duration::from_secs(60);

async fn delayed(client: &Client) -> JobId {
    client.enqueue(email("ada")).delay(MINUTE).await.unwrap().id()
}

#[tokio::test]
async fn a_waiting_job_can_be_promoted_rescheduled_and_reprioritised() {
    let queue = TestQueue::new();
    let client = queue.client();
    let id = delayed(&client).await;
    client.reschedule_in(id, 10 * MINUTE).await.unwrap();
    assert_eq!(queue.job(id).header.run_at, START.plus(600_000));
    client.reschedule(id, START.plus(5)).await.unwrap();
    assert_eq!(queue.job(id).header.run_at, START.plus(5));
    client.reprioritise(id, -3).await.unwrap();
    assert_eq!(queue.job(id).header.priority, -3);
    assert_eq!(client.promote(id).await.unwrap().state, Some(State::Available));
    assert_eq!(Hand::of(&client).await.claim("mail").await[0].header.id, id);
}

#[tokio::test]
async fn a_paused_job_is_not_claimed_until_it_is_resumed() {
    let client = TestQueue::new().client();
    let hand = Hand::of(&client).await;
    let id = client.enqueue(email("ada")).await.unwrap().id();
    client.pause(id).await.unwrap();
    assert!(hand.claim("mail").await.is_empty());
    client.resume(id).await.unwrap();
    assert_eq!(hand.claim("mail").await.len(), 1);
}

#[tokio::test]
async fn a_cancelled_job_never_runs_and_can_be_discarded() {
    let client = TestQueue::new().client();
    let id = client.enqueue(email("ada")).await.unwrap().id();
    assert_eq!(client.cancel(id).await.unwrap().state, Some(State::Cancelled));
    assert!(Hand::of(&client).await.claim("mail").await.is_empty());
    client.discard(id).await.unwrap();
    assert_eq!(client.get(id).await.unwrap(), None);
    assert_eq!(client.cancel(id).await.unwrap_err().code(), "not_found");
}

#[tokio::test]
async fn a_signal_wakes_a_job_that_waits() {
    let client = TestQueue::new().client();
    let hand = Hand::of(&client).await;
    client.enqueue(email("ada")).await.unwrap();
    let id = hand.finish("mail", Outcome::WAIT).await;
    assert!(hand.claim("mail").await.is_empty());
    client.signal(id, "go").await.unwrap();
    assert_eq!(hand.claim("mail").await.len(), 1);
}

#[tokio::test]
async fn a_dead_job_lives_again_as_it_was_edited() {
    let queue = TestQueue::new();
    let client = queue.client();
    let hand = Hand::of(&client).await;
    client.enqueue(email("missing")).checkpoint(&"half way").await.unwrap();
    let id = hand.finish("mail", Outcome::fail("no_such_user", "missing")).await;
    assert_eq!(queue.job(id).state, State::Dead);

    let mut policy = Policy::default();
    policy.max_attempts = 1;
    let replay = client.replay(id).job(&email("ada")).priority(2).policy(policy.clone());
    replay.start_over().delay(MINUTE).await.unwrap();
    let job = queue.job(id);
    assert_eq!((job.state, job.header.priority), (State::Scheduled, 2));
    assert_eq!((job.header.policy, job.parts.checkpoint), (policy, None));
    assert_eq!(job.header.run_at, START.plus(60_000));
    queue.advance(MINUTE);
    assert_eq!(hand.claim("mail").await.len(), 1);
    queue.assert_enqueued::<SendEmail>(|job| job.to == "ada");
}

#[tokio::test]
async fn a_replay_can_be_timed_and_take_bytes_and_one_of_a_living_job_is_refused() {
    let queue = TestQueue::new();
    let client = queue.client();
    let id = delayed(&client).await;
    assert_eq!(client.replay(id).await.unwrap_err().code(), "refused");
    assert_eq!(client.replay(id).payload(&Unspeakable).await.unwrap_err().code(), "unwritable");
    client.cancel(id).await.unwrap();
    client.replay(id).payload_bytes("{}").run_at(START.plus(9)).await.unwrap();
    let job = queue.job(id);
    assert_eq!(
        (job.header.run_at, &job.parts.payload.unwrap().bytes[..]),
        (START.plus(9), &b"{}"[..])
    );
}
