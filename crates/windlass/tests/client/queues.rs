//! Queues and kinds, seen by what they let through.

use crate::support::*;
use std::time::Duration;
use windlass::State;
use windlass::model::{KindPatch, Order, QueuePatch};
use windlass::policy::Retention;
use windlass::testing::TestQueue;

#[tokio::test]
async fn a_paused_queue_and_a_paused_kind_hand_out_nothing_until_resumed() {
    let client = TestQueue::new().client();
    let hand = Hand::of(&client).await;
    client.enqueue(email("ada")).await.unwrap();
    client.queue("mail").pause().await.unwrap();
    assert!(hand.claim("mail").await.is_empty());
    client.kind("send_email").pause().await.unwrap();
    client.queue("mail").resume().await.unwrap();
    assert!(hand.claim("mail").await.is_empty());
    assert!(client.kind("send_email").settings().await.unwrap().paused);
    client.kind("send_email").resume().await.unwrap();
    assert_eq!(hand.claim("mail").await.len(), 1);
}

#[tokio::test]
async fn a_full_queue_refuses_jobs_and_says_so() {
    let client = TestQueue::new().client();
    let mail = client.queue("mail");
    mail.set_max_depth(Some(1)).await.unwrap();
    client.enqueue(email("ada")).await.unwrap();
    assert_eq!(client.enqueue(email("alan")).await.unwrap_err().code(), "queue_full");
    mail.set_max_depth(None).await.unwrap();
    client.enqueue(email("alan")).await.unwrap();
    assert_eq!(mail.stats().await.unwrap()[0].depth(), 2);
    assert_eq!(client.stats().await.unwrap().len(), 1);
}

#[tokio::test]
async fn jobs_that_wait_too_long_for_their_queue_expire() {
    let queue = TestQueue::new();
    let client = queue.client();
    client.queue("mail").set_max_wait(Some(Duration::from_secs(60))).await.unwrap();
    let id = client.enqueue(email("ada")).await.unwrap().id();
    queue.advance(Duration::from_secs(61));
    assert_eq!(queue.job(id).state, State::Expired);
}

#[tokio::test]
async fn settings_are_read_back_as_they_were_set() {
    let client = TestQueue::new().client();
    let mail = client.queue("mail");
    mail.set_order(Order::Lifo).await.unwrap();
    mail.set_retention(Retention::uniform_ms(5)).await.unwrap();
    let mut patch = QueuePatch::paused(true);
    patch.max_depth = Some(Some(7));
    mail.configure(patch).await.unwrap();
    let settings = mail.settings().await.unwrap();
    assert_eq!((settings.order, settings.retention), (Order::Lifo, Retention::uniform_ms(5)));
    assert_eq!((settings.paused, settings.max_depth), (true, Some(7)));
    assert_eq!(client.queue("other").settings().await.unwrap(), Default::default());
    client.kind("k").configure(KindPatch::permits(Some(3))).await.unwrap();
    assert_eq!(client.kind("k").settings().await.unwrap().permits, Some(3));
    let error = client.queue("no spaces").pause().await.unwrap_err();
    assert_eq!(error.as_engine().unwrap().field(), Some("queue"));
}

#[tokio::test]
async fn workers_and_health_are_there_to_be_seen() {
    let client = TestQueue::new().client();
    let _hand = Hand::of(&client).await;
    assert_eq!(client.sessions().await.unwrap()[0].worker, "hand");
    client.health().await.unwrap();
}
