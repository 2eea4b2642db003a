//! Waiting claims, and how they end.

use crate::spy::Spy;
use crate::support::{
    DEADLINE, assert_problem, get, json_request, options, post, read, start, start_over, until,
};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use windlass_server::ServerHandle;

/// Sends a claim that waits for one minute.
async fn waiting_claim(server: &ServerHandle) -> TcpStream {
    let body = json!({"queues": ["q"], "wait_ms": 60_000}).to_string();
    let mut stream = TcpStream::connect(server.address()).await.expect("connect");
    let request = json_request("POST", "/v1/claim", &body);
    stream.write_all(request.as_bytes()).await.expect("send");
    stream
}

#[tokio::test]
async fn a_waiting_claim_is_answered_when_a_job_comes() {
    let server = start().await;
    let mut waiting = waiting_claim(&server).await;
    until("it waits", || server.status().waiting == 1).await;
    let created = post(&server, "/v1/jobs", json!({"kind": "k", "queue": "q"})).await;
    let claimed = read(&mut waiting).await;
    assert_eq!(claimed.body["jobs"][0]["id"], created.body["id"]);
}

#[tokio::test]
async fn a_claim_waits_no_longer_than_requested() {
    let server = start().await;
    let claimed = post(&server, "/v1/claim", json!({"queues": ["q"], "wait_ms": 20})).await;
    assert_eq!((claimed.status, &claimed.body), (200, &json!({"jobs": []})));
}

#[tokio::test]
async fn no_job_is_leased_to_a_disconnected_caller() {
    let server = start().await;
    let gone: Vec<TcpStream> =
        futures_util::future::join_all((0..20).map(|_| waiting_claim(&server))).await;
    until("all wait", || server.status().waiting == 20).await;
    drop(gone);
    until("all are gone", || server.status().waiting == 0).await;
    let created = post(&server, "/v1/jobs", json!({"kind": "k", "queue": "q"})).await;
    let claimed = post(&server, "/v1/claim", json!({"queues": ["q"]})).await;
    assert_eq!(claimed.body["jobs"][0]["id"], created.body["id"]);
    assert_eq!(claimed.body["jobs"][0]["attempt"], 1, "not claimed before");
}

#[tokio::test]
async fn a_request_for_a_job_waits_for_its_end() {
    let server = start().await;
    let created = post(&server, "/v1/jobs", json!({"kind": "k", "queue": "q"})).await;
    let path = format!("/v1/jobs/{}", created.body["id"].as_str().unwrap());
    let shown = get(&server, &format!("{path}?wait_ms=20")).await;
    assert_eq!((shown.status, &shown.body["state"]), (200, &json!("available")), "time is over");

    let mut waiting = TcpStream::connect(server.address()).await.unwrap();
    let request = json_request("GET", &format!("{path}?wait_ms=60000"), "");
    waiting.write_all(request.as_bytes()).await.unwrap();
    until("it waits", || server.status().waiting == 1).await;
    let claimed = post(&server, "/v1/claim", json!({"queues": ["q"]})).await;
    let job = &claimed.body["jobs"][0];
    let report =
        json!({"id": job["id"], "lease": job["lease"], "outcome": "complete", "result": 7});
    post(&server, "/v1/settle", json!({"items": [report]})).await;
    let ended = read(&mut waiting).await;
    assert_eq!((&ended.body["state"], &ended.body["result"]), (&json!("completed"), &json!(7)));

    assert_problem(&get(&server, &format!("{path}?wait_ms=60001")).await, 422, "wait_ms");
    let missing = "/v1/jobs/019a8b2c-7d4e-7f01-8a23-456789abcdef?wait_ms=60000";
    assert_eq!(get(&server, missing).await.status, 404, "at once");
}

#[tokio::test]
async fn a_stop_answers_waiting_claims_at_once() {
    let server = start().await;
    let mut claim = waiting_claim(&server).await;
    let body = json!({"queues": ["q"], "wait_ms": 60_000}).to_string();
    let mut wait = TcpStream::connect(server.address()).await.unwrap();
    wait.write_all(json_request("POST", "/v1/wait", &body).as_bytes()).await.unwrap();
    until("both wait", || server.status().waiting == 2).await;
    tokio::time::timeout(DEADLINE, server.stop()).await.unwrap();
    assert_eq!(read(&mut claim).await.body, json!({"jobs": []}));
    assert_eq!(read(&mut wait).await.body, json!({"ready": false}));
    assert!(TcpStream::connect(server.address()).await.is_err(), "the port is closed");
}

#[tokio::test]
async fn a_claim_that_can_take_nothing_of_what_is_there_does_not_spin() {
    let spy = Spy::default();
    let server = start_over(Arc::new(spy.clone()), options()).await;
    post(&server, "/v1/jobs", json!({"kind": "k", "queue": "q"})).await;
    // A wake-up signals ready jobs, but the claim's own limit admits none.
    let claim = json!({"queues": [{"name": "q", "limit": 0}], "wait_ms": 300});
    let begin = tokio::time::Instant::now();
    let claimed = post(&server, "/v1/claim", claim).await;
    assert_eq!(claimed.body["jobs"], json!([]), "{claimed:?}");
    assert!(begin.elapsed() >= Duration::from_millis(290), "it waited for its time");
    let claims = spy.claims.load(Ordering::SeqCst);
    assert!((2..=12).contains(&claims), "{claims} claims in 300 ms");
}

#[tokio::test]
async fn one_job_wakes_few_waiting_claims_and_many_jobs_reach_all() {
    const CLAIMS: usize = 100;
    let spy = Spy::default();
    let server = start_over(Arc::new(spy.clone()), options()).await;
    let mut claims =
        futures_util::future::join_all((0..CLAIMS).map(|_| waiting_claim(&server))).await;
    until("all wait", || server.status().waiting == CLAIMS).await;
    until("all have claimed once", || spy.claims.load(Ordering::SeqCst) == CLAIMS).await;
    post(&server, "/v1/jobs", json!({"kind": "k", "queue": "q"})).await;
    until("one has it", || server.status().waiting == CLAIMS - 1).await;
    let more = spy.claims.load(Ordering::SeqCst) - CLAIMS;
    assert!(more <= 10, "{more} claims for one job");

    let jobs = vec![json!({"kind": "k", "queue": "q"}); CLAIMS - 1];
    post(&server, "/v1/jobs/batch", json!({ "jobs": jobs })).await;
    let answers = futures_util::future::join_all(claims.iter_mut().map(read)).await;
    let mut ids: Vec<_> = answers.iter().map(|it| it.body["jobs"][0]["id"].to_string()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), CLAIMS, "a job for each, and each its own");
}
