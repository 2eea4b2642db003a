//! Handles: reading a job, waiting for it, changing it.

use crate::support::*;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use windlass::engine::Outcome;
use windlass::model::PartSet;
use windlass::testing::TestQueue;
use windlass::{Disposition, Error, Job, State, Untyped, job_of};

const LONG: Duration = Duration::from_secs(20);

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct Receipt {
    number: u32,
}

#[derive(Job, Serialize, Deserialize, Debug)]
#[job(output = Receipt)]
struct Pay {
    cents: u32,
}

#[tokio::test]
async fn waiting_returns_the_result_as_the_jobs_output_type() {
    let client = windlass::connect("memory:").await.unwrap();
    let job = client.enqueue(Pay { cents: 5 }).await.unwrap();
    Hand::of(&client).await.finish("default", done(r#"{"number":7}"#)).await;
    assert_eq!(job.wait().await.unwrap(), Receipt { number: 7 });
    // The same through a handle from the id, and without the type.
    assert_eq!(client.job::<Pay>(job.id()).wait_for(LONG).await.unwrap(), Receipt { number: 7 });
    let untyped = client.job::<Untyped>(job.id()).wait().await.unwrap();
    assert_eq!(untyped, serde_json::json!({ "number": 7 }));
    assert_eq!(job.ended_within(LONG).await.unwrap().result::<Receipt>().unwrap().number, 7);
}

#[tokio::test]
async fn a_job_that_fails_or_takes_too_long_is_an_error_with_its_reason() {
    let client = windlass::connect("memory:").await.unwrap();
    let job = client.enqueue(Pay { cents: 5 }).await.unwrap();
    let error = job.wait_for(Duration::from_millis(20)).await.unwrap_err();
    assert!(matches!(error, Error::NotFinished { state: State::Available, .. }), "{error}");
    Hand::of(&client).await.finish("default", Outcome::fail("card", "declined")).await;
    let error = job.wait().await.unwrap_err();
    assert_eq!(error.code(), "not_completed");
    assert!(error.to_string().contains("declined"), "{error}");
    assert_eq!(job.ended().await.unwrap().state(), State::Dead);
}

#[tokio::test]
async fn a_handle_says_whether_its_job_is_new() {
    let queue = TestQueue::new();
    let client = queue.client();
    let first = client.enqueue(email("ada")).unique("ada").await.unwrap();
    assert!(first.is_new());
    assert_eq!(first.enqueued().unwrap().disposition, Disposition::Created);
    let second = client.enqueue(email("ada")).unique("ada").await.unwrap();
    assert_eq!((second.is_new(), second.id()), (false, first.id()));
    assert_eq!(second.enqueued().unwrap().disposition, Disposition::Existing);
    let by_id = client.job::<SendEmail>(first.id());
    assert_eq!((by_id.is_new(), by_id.enqueued()), (false, None));
}

#[tokio::test]
async fn a_handle_reads_and_cancels_its_job_and_no_other() {
    let queue = TestQueue::new();
    let client = queue.client();
    let (job, other) =
        (client.enqueue(email("ada")).await.unwrap(), client.enqueue(email("alan")).await.unwrap());
    assert_eq!(job.payload().await.unwrap(), email("ada"));
    assert_eq!(&*job.get().await.unwrap().header.queue, "mail");
    assert!(job.get_with(PartSet::PAYLOAD).await.unwrap().parts.payload.is_some());
    job.clone().cancel().await.unwrap();
    assert_eq!(job.state().await.unwrap(), State::Cancelled);
    assert_eq!(other.state().await.unwrap(), State::Available);
}

#[tokio::test]
async fn a_job_of_another_kind_and_a_job_that_is_gone_are_errors() {
    let client = windlass::connect("memory:").await.unwrap();
    let odd = client.enqueue(job_of("odd").payload(&7)).await.unwrap();
    let error = client.job::<Pay>(odd.id()).payload().await.unwrap_err();
    assert!(error.to_string().contains("\"odd\" job, not a \"pay\" job"), "{error}");
    let gone = client.job::<Pay>(client.new_id());
    for error in [gone.get().await.unwrap_err(), gone.wait().await.unwrap_err()] {
        assert_eq!(error.code(), "not_found");
    }
}

#[tokio::test]
async fn bulk_enqueues_return_typed_handles() {
    let client = windlass::connect("memory:").await.unwrap();
    let jobs = client.enqueue_atomic([1, 2].map(|cents| Pay { cents })).await.unwrap();
    let hand = Hand::of(&client).await;
    for job in hand.claim("default").await {
        hand.settle(&job, done(r#"{"number":1}"#)).await;
    }
    for job in jobs {
        assert_eq!(job.wait_for(LONG).await.unwrap(), Receipt { number: 1 });
    }
}
