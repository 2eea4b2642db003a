//! Queries: what matches, page by page or as one stream.

use crate::support::*;
use futures_util::TryStreamExt as _;
use std::collections::HashSet;
use std::time::Duration;
use windlass::testing::{START, TestQueue};
use windlass::{Client, JobQuery, State, job, job_of};

async fn kinds(query: JobQuery) -> Vec<String> {
    let jobs: Vec<_> = query.stream().try_collect().await.unwrap();
    jobs.into_iter().map(|job| job.header.kind.to_string()).collect()
}

async fn store(client: &Client) {
    client.enqueue(job_of("plain")).await.unwrap();
    client.enqueue(job_of("tenant").tenant("acme")).await.unwrap();
    client.enqueue(job_of("key").key("user:1")).await.unwrap();
    client.enqueue(job_of("tag").tag("beta")).await.unwrap();
    client.enqueue(job_of("queue").queue("bulk")).await.unwrap();
    client.enqueue(job_of("later").delay(Duration::from_secs(60))).await.unwrap();
    client.enqueue(email("ada")).await.unwrap();
}

#[tokio::test]
async fn every_criterion_narrows_the_query_down() {
    let queue = TestQueue::new();
    let client = queue.client();
    store(&client).await;
    let jobs = || client.jobs();
    assert_eq!(kinds(jobs().of_tenant("acme")).await, ["tenant"]);
    assert_eq!(kinds(jobs().with_key("user:1")).await, ["key"]);
    assert_eq!(kinds(jobs().with_tag("beta")).await, ["tag"]);
    assert_eq!(kinds(jobs().in_queue("bulk")).await, ["queue"]);
    assert_eq!(kinds(jobs().in_state(State::Scheduled)).await, ["later"]);
    assert_eq!(kinds(jobs().of_kind("plain")).await, ["plain"]);
    assert_eq!(kinds(jobs().of::<SendEmail>()).await, ["send_email"]);
    assert_eq!(kinds(jobs().of_kind("plain").with_tag("beta")).await, [""; 0]);
    assert_eq!(kinds(jobs().children_of(client.new_id())).await, [""; 0]);
    assert_eq!(kinds(jobs()).await.len(), 7);
}

#[tokio::test]
async fn times_of_creation_narrow_it_down_too() {
    let queue = TestQueue::new();
    let client = queue.client();
    client.enqueue(job_of("early")).await.unwrap();
    queue.advance(Duration::from_secs(60));
    client.enqueue(job_of("late")).await.unwrap();
    let noon = START + Duration::from_secs(30);
    assert_eq!(kinds(client.jobs().created_until(noon)).await, ["early"]);
    assert_eq!(kinds(client.jobs().created_from(noon)).await, ["late"]);
    assert_eq!(kinds(client.jobs().oldest_first()).await, ["early", "late"]);
    assert_eq!(kinds(client.jobs()).await, ["late", "early"]);
}

#[tokio::test]
async fn a_stream_fetches_all_pages_and_every_job_once() {
    let queue = TestQueue::new();
    let client = queue.client();
    client.enqueue_all((0..25).map(|n| job(email(&n.to_string())))).await;
    let mut stream = client.jobs().limit(10).stream();
    let mut seen = HashSet::new();
    while let Some(job) = stream.next().await {
        assert!(seen.insert(job.unwrap().header.id));
    }
    assert_eq!(seen.len(), 25);
}

#[tokio::test]
async fn a_stream_reads_a_page_only_when_it_is_needed() {
    let queue = TestQueue::new();
    let client = queue.client();
    client.enqueue_all((0..2).map(|n| email(&n.to_string()))).await;
    let mut stream = client.jobs().oldest_first().limit(1).stream();
    stream.next().await.unwrap().unwrap();
    let last = client.enqueue(email("late")).await.unwrap().id();
    let rest: Vec<_> = stream.try_collect().await.unwrap();
    assert_eq!(rest.last().unwrap().header.id, last, "the later pages were read too early");
}

#[tokio::test]
async fn a_page_continues_after_the_cursor_of_another() {
    let queue = TestQueue::new();
    let client = queue.client();
    client.enqueue_all((0..3).map(|n| email(&n.to_string()))).await;
    let first = client.jobs().limit(2).page().await.unwrap();
    assert_eq!(first.rows.len(), 2);
    let second = client.jobs().limit(2).after(first.next.unwrap()).page().await.unwrap();
    assert_eq!((second.rows.len(), second.next), (1, None));
}

#[tokio::test]
async fn a_refused_query_is_an_error_and_the_end_of_its_stream() {
    let client = windlass::connect("memory:").await.unwrap();
    let mut stream = client.jobs().in_queue("no spaces").stream();
    assert_eq!(stream.next().await.unwrap().unwrap_err().code(), "invalid");
    assert!(stream.next().await.is_none());
}
