//! The `/metrics` route; its contents are tested with the program that exports them.

use crate::spy::Spy;
use crate::support::*;
use futures_util::future::join_all;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use windlass_server::Exporter;

#[tokio::test]
async fn concurrent_scrapes_read_the_store_once_a_second() {
    let spy = Spy::default();
    let exporter = Exporter::new(|| "windlass_store_up 1\n".to_owned());
    let options = options().services(None).exporter(exporter);
    let server = start_over(Arc::new(spy.clone()), options).await;
    let jobs: Vec<_> = (0..50).map(|n| json!({"kind": "k", "queue": format!("q{n}")})).collect();
    post(&server, "/v1/jobs/batch", json!({"jobs": jobs})).await;
    // An enqueue makes the server read the depths of queues.
    let before = spy.looks.load(Ordering::SeqCst);
    let begun = tokio::time::Instant::now();
    for _ in 0..4 {
        for answer in join_all((0..5).map(|_| get(&server, "/metrics"))).await {
            assert_eq!(answer.status, 200);
            assert!(
                answer.header("content-type").unwrap().starts_with("text/plain; version=0.0.4")
            );
            assert_eq!(answer.bytes, b"windlass_store_up 1\n");
        }
    }
    let looks = (spy.looks.load(Ordering::SeqCst) - before) as u64;
    assert!((1..=begun.elapsed().as_secs() + 1).contains(&looks), "{looks} looks for 20 answers");
}

#[tokio::test]
async fn a_server_whose_program_collects_nothing_says_so() {
    let answer = get(&start().await, "/metrics").await;
    assert_code(&answer, 404, "not_found");
}
