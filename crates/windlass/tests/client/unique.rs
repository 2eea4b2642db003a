//! `#[job(unique)]`: the second of two equal jobs is the first.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use windlass::testing::TestQueue;
use windlass::{Job, job};

#[derive(Job, Serialize, Deserialize)]
#[job(unique(by(account), period = "1h"))]
struct Report {
    account: u32,
    requested_by: String,
}

fn report(account: u32, requested_by: &str) -> Report {
    Report { account, requested_by: requested_by.to_owned() }
}

#[tokio::test]
async fn equal_fields_are_one_job_within_the_period() {
    let queue = TestQueue::new();
    let client = queue.client();
    let first = client.enqueue(report(1, "ada")).await.unwrap();
    let again = client.enqueue(report(1, "alan")).await.unwrap();
    assert_eq!((again.is_new(), again.id()), (false, first.id()));
    assert!(client.enqueue(report(2, "ada")).await.unwrap().is_new());
    queue.advance(Duration::from_secs(3_600));
    assert!(client.enqueue(report(1, "ada")).await.unwrap().is_new());
}

#[tokio::test]
async fn every_way_to_enqueue_applies_the_rule() {
    let queue = TestQueue::new();
    let client = queue.client();
    client.enqueue(report(1, "ada")).await.unwrap();
    let built = client.enqueue(job(report(1, "alan")).priority(-1)).await.unwrap();
    let bulk = client.enqueue_all([report(1, "grace")]).await.remove(0).unwrap();
    let atomic = client.enqueue_atomic([report(1, "joan")]).await.unwrap().remove(0);
    for job in [built, bulk, atomic] {
        assert!(!job.is_new());
    }
    queue.assert_count::<Report>(1);
}

#[tokio::test]
async fn a_key_of_its_own_replaces_the_rule_of_the_type() {
    let queue = TestQueue::new();
    let client = queue.client();
    client.enqueue(report(1, "ada")).await.unwrap();
    assert!(client.enqueue(report(1, "ada")).unique("another").await.unwrap().is_new());
}

#[cfg(feature = "worker")]
#[tokio::test]
async fn follow_ups_apply_the_rule() {
    use windlass::{Ctx, Stop};

    #[derive(Job, Serialize, Deserialize)]
    struct Order;
    async fn order(_: Order, ctx: Ctx) -> Result<(), Stop> {
        Ok(ctx.follow_up_with(&report(1, "ada"))?)
    }
    let queue = TestQueue::new();
    let client = queue.client();
    client.enqueue_all([Order, Order]).await;
    queue.drain(client.worker().handle(order)).await;
    queue.assert_count::<Report>(1);
}
