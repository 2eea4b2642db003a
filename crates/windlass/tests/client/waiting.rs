//! Waiting for a job to end, and what it ended with.

use crate::support::*;
use std::time::Duration;
use windlass::engine::Outcome;
use windlass::{Client, Error, JobId, State};

/// Longer than anything here should take, however busy the machine is.
const LONG: Duration = Duration::from_secs(20);

async fn enqueued() -> (Client, Hand, JobId) {
    let client = windlass::connect("memory:").await.unwrap();
    let hand = Hand::of(&client).await;
    let id = client.enqueue(email("ada")).await.unwrap().id();
    (client, hand, id)
}

#[tokio::test]
async fn waiting_returns_the_typed_result() {
    let (client, hand, id) = enqueued().await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.wait_for(id, LONG).await }
    });
    hand.finish("mail", done(r#"{"to":"the result"}"#)).await;
    let finished = waiting.await.unwrap().unwrap();
    assert!(finished.is_completed() && finished.error().is_none());
    assert_eq!(finished.result::<SendEmail>().unwrap(), email("the result"));
    let error = finished.result::<u32>().unwrap_err();
    assert_eq!(error.code(), "unreadable");
}

#[tokio::test]
async fn a_job_that_returned_nothing_reads_as_nothing() {
    let (client, hand, id) = enqueued().await;
    hand.finish("mail", Outcome::DONE).await;
    let finished = client.wait(id).await.unwrap();
    finished.result::<()>().unwrap();
    assert_eq!(finished.result::<Option<u32>>().unwrap(), None);
    assert!(finished.result::<u32>().unwrap_err().to_string().contains("there is none"));
}

#[tokio::test]
async fn a_dead_job_has_no_result_but_a_reason() {
    let (client, hand, id) = enqueued().await;
    hand.finish("mail", Outcome::fail("smtp_550", "no such user")).await;
    let finished = client.wait(id).await.unwrap();
    assert_eq!(
        (finished.state(), finished.error().unwrap().code.as_str()),
        (State::Dead, "smtp_550")
    );
    let error = finished.result::<()>().unwrap_err();
    assert_eq!(error.code(), "not_completed");
    assert!(error.to_string().contains("no such user"), "{error}");
}

#[tokio::test]
async fn waiting_ends_at_its_timeout_and_reports_the_state_of_the_job() {
    let (client, _hand, id) = enqueued().await;
    let error = client.wait_for(id, Duration::from_millis(20)).await.unwrap_err();
    assert!(matches!(error, Error::NotFinished { state: State::Available, .. }), "{error}");
    client.cancel(id).await.unwrap();
    assert_eq!(client.wait(id).await.unwrap().state(), State::Cancelled);
}

#[tokio::test]
async fn a_job_that_does_not_exist_is_not_waited_for() {
    let (client, ..) = enqueued().await;
    let error = client.wait(client.new_id()).await.unwrap_err();
    assert_eq!(error.code(), "not_found");
}
