//! Changes of limits and services at run time, by their effect.

use crate::support::{assert_problem, get, options, post, start, start_over, start_with, until};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use windlass_memory::MemoryEngine;
use windlass_services::ServiceOptions;

#[tokio::test]
async fn limits_hold_for_requests_that_come_after_the_change() {
    let server = start().await;
    let job = json!({"kind": "k", "payload": "x".repeat(700)});
    assert_eq!(post(&server, "/v1/jobs", job.clone()).await.status, 201);
    let mut limits = server.limits();
    limits.body_bytes_max = 600;
    server.set_limits(limits).unwrap();
    assert_problem(&post(&server, "/v1/jobs", job).await, 413, "body");
    assert_eq!(get(&server, "/v1/capabilities").await.body["body_bytes_max"], 600);
}

#[tokio::test]
async fn limits_that_cannot_be_kept_are_refused_and_change_nothing() {
    let mut options = options();
    (options.body_bytes_max, options.bodies_bytes_max) = (4_096, 4_096);
    let server = start_with(options).await;
    let before = server.limits();
    let mut limits = before;
    limits.body_bytes_max = 5_000;
    let error = server.set_limits(limits).unwrap_err();
    assert_eq!(error.field(), Some("body_bytes_max"));
    assert!(error.to_string().contains("bodies_bytes_max"), "{error}");
    limits = before;
    limits.call_timeout = Duration::from_millis(0);
    assert_eq!(server.set_limits(limits).unwrap_err().field(), Some("call_timeout"));
    assert_eq!(server.limits(), before);
}

#[tokio::test]
async fn services_can_be_left_out_taken_back_and_are_gone_with_the_server() {
    let engine = Arc::new(MemoryEngine::new());
    let server = start_over(engine.clone(), options().services(None)).await;
    let soon = json!({"kind": "k", "delay_ms": 20});
    assert_eq!(post(&server, "/v1/jobs", soon.clone()).await.status, 201);
    let claim = |wait_ms: u64| json!({"queues": ["default"], "wait_ms": wait_ms});
    let early = post(&server, "/v1/claim", claim(200)).await;
    assert_eq!(early.body["jobs"], json!([]), "not promoted yet");
    let mut services = ServiceOptions::default();
    services.promote.batch = 0;
    assert!(server.set_services(Some(&services)).await.is_err());
    services.promote.batch = 10;
    server.set_services(Some(&services)).await.unwrap();
    let claimed = post(&server, "/v1/claim", claim(30_000)).await;
    assert_eq!(claimed.body["jobs"][0]["kind"], "k", "promoted now");
    server.set_services(None).await.unwrap();
    assert_eq!(post(&server, "/v1/jobs", soon).await.status, 201);
    let none = post(&server, "/v1/claim", claim(200)).await;
    assert_eq!(none.body["jobs"], json!([]), "not promoted again");
    server.stop().await;
    assert!(server.set_services(Some(&services)).await.is_err(), "too late");
    tokio::time::timeout(Duration::from_secs(1), server.ended()).await.unwrap();
    until("the engine is let go", || Arc::strong_count(&engine) == 1).await;
}
