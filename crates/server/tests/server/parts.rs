//! Parts and results as raw bytes.

use crate::support::{
    Answer, assert_code, assert_problem, call, claimed, get, post, send_bytes, start, start_with,
};
use serde_json::json;
use windlass_server::ServerHandle;

/// Sends a `PUT` of raw bytes with these headers.
async fn put(server: &ServerHandle, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut head = format!("PUT {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    send_bytes(server.address(), &[head.as_bytes(), body].concat()).await
}

fn path(id: &str, part: &str) -> String {
    format!("/v1/jobs/{id}/{part}")
}

#[tokio::test]
async fn parts_and_the_result_are_returned_unchanged() {
    let server = start().await;
    let parts = json!({"blob": {"base64": "AAH/"}, "metadata": {"json": [1]}});
    let job = json!({"kind": "k", "payload": {"to": "ada"}, "parts": parts});
    let (id, lease) = claimed(&server, job).await;
    let payload = get(&server, &path(&id, "payload")).await;
    assert_eq!((payload.status, &payload.body), (200, &json!({"to": "ada"})));
    assert_eq!(payload.header("content-type"), Some("application/json"));
    assert!(payload.header("windlass-now").is_some() && payload.header("windlass-epoch").is_some());
    let blob = get(&server, &path(&id, "blob")).await;
    assert_eq!((blob.status, &*blob.bytes), (200, &[0, 1, 255][..]));
    assert_eq!(blob.header("content-type"), Some("application/octet-stream"));
    assert_eq!(blob.header("x-content-type-options"), Some("nosniff"));
    assert!(blob.header("windlass-envelope").is_none());
    assert_eq!(get(&server, &path(&id, "metadata")).await.body, json!([1]));

    let report = json!({"id": id, "lease": lease, "outcome": "complete", "result_base64": "/w=="});
    post(&server, "/v1/settle", json!({"items": [report]})).await;
    assert_eq!(get(&server, &path(&id, "result")).await.bytes, [255]);
}

#[tokio::test]
async fn missing_jobs_and_parts_answer_404() {
    let server = start().await;
    let created = post(&server, "/v1/jobs", json!({"kind": "k"})).await;
    let id = created.body["id"].as_str().unwrap();
    for part in ["payload", "checkpoint", "blob", "metadata", "result"] {
        assert_code(&get(&server, &path(id, part)).await, 404, "not_found");
    }
    assert_code(&get(&server, &path(id, "soul")).await, 404, "not_found");
    let missing = path("019a0000-0000-7000-8000-000000000000", "payload");
    assert_code(&get(&server, &missing).await, 404, "not_found");
    assert_problem(&get(&server, &path("zzz", "payload")).await, 422, "id");
    assert_problem(&call(&server, "DELETE", &path(id, "blob"), json!({})).await, 405, "method");
    assert_problem(&get(&server, &path(id, "cancel")).await, 405, "method");
    assert_problem(&get(&server, &path(id, "blob?raw=1")).await, 422, "raw");
}

#[tokio::test]
async fn a_worker_puts_a_part_under_its_lease_and_the_next_attempt_has_it() {
    let server = start().await;
    let (id, lease) = claimed(&server, json!({"kind": "k", "queue": "q"})).await;
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    for part in ["checkpoint", "blob", "metadata"] {
        let body = if part == "metadata" { &bytes[..1_000] } else { &bytes[..] };
        let answer = put(&server, &path(&id, part), &[("windlass-lease", &*lease)], body).await;
        assert_eq!((answer.status, &answer.body), (200, &json!({})), "{part}: {}", answer.head);
        assert_eq!(get(&server, &path(&id, part)).await.bytes, body);
    }
    let held = [("windlass-lease", &*lease)];
    let json = put(&server, &path(&id, "checkpoint"), &held, b"{\"step\":3}").await;
    assert_eq!(json.status, 200);
    let report = json!({"id": id, "lease": lease, "outcome": "release"});
    post(&server, "/v1/settle", json!({"items": [report]})).await;
    let claim = json!({"queues": ["q"], "parts": ["checkpoint"]});
    let again = post(&server, "/v1/claim", claim).await;
    assert_eq!(again.body["jobs"][0]["parts"]["checkpoint"]["json"], json!({"step": 3}));
}

#[tokio::test]
async fn the_reply_to_a_put_reports_a_requested_cancellation() {
    let server = start().await;
    let (id, lease) = claimed(&server, json!({"kind": "k"})).await;
    post(&server, &format!("/v1/jobs/{id}/cancel"), json!({})).await;
    let answer = put(&server, &path(&id, "checkpoint"), &[("windlass-lease", &lease)], b"1").await;
    assert_eq!(answer.body, json!({"cancel_requested": true}));
}

#[tokio::test]
async fn an_envelope_travels_in_a_header_both_ways() {
    let server = start().await;
    let (id, lease) = claimed(&server, json!({"kind": "k"})).await;
    let envelope = r#"{"codec":"zstd","location":{"at":"s3://bücket/x"},"key_id":"k1"}"#;
    let headers = [("windlass-lease", &*lease), ("windlass-envelope", envelope)];
    assert_eq!(put(&server, &path(&id, "blob"), &headers, b"[1]").await.status, 200);
    let blob = get(&server, &path(&id, "blob")).await;
    assert_eq!((blob.header("windlass-envelope"), &*blob.bytes), (Some(envelope), &b"[1]"[..]));
    assert_eq!(blob.header("content-type"), Some("application/octet-stream"), "it only looks so");
    for (bad, field) in [
        ("zstd", "windlass-envelope"),
        (r#"{"codec": "zstd", "x": 1}"#, "windlass-envelope.x"),
        (r#"{"key_id": ""}"#, "blob"),
    ] {
        let headers = [("windlass-lease", &*lease), ("windlass-envelope", bad)];
        let answer = put(&server, &path(&id, "blob"), &headers, b"").await;
        assert_problem(&answer, 422, field);
    }
}

#[tokio::test]
async fn only_the_lease_holder_can_put_and_only_parts_of_a_worker() {
    let server = start().await;
    let (id, lease) = claimed(&server, json!({"kind": "k", "payload": 1})).await;
    let held = [("windlass-lease", &*lease)];
    assert_problem(&put(&server, &path(&id, "checkpoint"), &[], b"1").await, 422, "windlass-lease");
    let empty = [("windlass-lease", "")];
    assert_problem(
        &put(&server, &path(&id, "checkpoint"), &empty, b"1").await,
        422,
        "windlass-lease",
    );
    let forged = [("windlass-lease", "0123456789abcdef0123456789abcdef")];
    assert_code(&put(&server, &path(&id, "checkpoint"), &forged, b"1").await, 409, "lease_lost");
    assert_eq!(put(&server, &path(&id, "payload"), &held, b"2").await.status, 200);
    assert_problem(&put(&server, &path(&id, "result"), &held, b"2").await, 422, "part");
    assert_code(&put(&server, &path(&id, "soul"), &held, b"2").await, 404, "not_found");
    let report = json!({"items": [{"id": id, "lease": lease, "outcome": "complete"}]});
    post(&server, "/v1/settle", report).await;
    assert_code(&put(&server, &path(&id, "checkpoint"), &held, b"1").await, 409, "lease_lost");
    let missing = path("019a0000-0000-7000-8000-000000000000", "checkpoint");
    assert_code(&put(&server, &missing, &held, b"1").await, 404, "not_found");
    assert_eq!(get(&server, &path(&id, "payload")).await.body, json!(2));
    assert_code(&get(&server, &path(&id, "checkpoint")).await, 404, "not_found");
}

#[tokio::test]
async fn bytes_beyond_the_limit_of_a_part_or_of_the_server_are_refused() {
    let server = start().await;
    let (id, lease) = claimed(&server, json!({"kind": "k"})).await;
    let held = [("windlass-lease", &*lease)];
    let big = vec![b'x'; 64 * 1024 + 1];
    let answer = put(&server, &path(&id, "metadata"), &held, &big).await;
    assert_problem(&answer, 413, "body");
    assert_eq!(answer.body["limit"], 64 * 1024);
    assert_eq!(put(&server, &path(&id, "metadata"), &held, &big[1..]).await.status, 200);

    let mut options = crate::support::options();
    options.body_bytes_max = 1_000;
    let small = start_with(options).await;
    let (id, lease) = claimed(&small, json!({"kind": "k"})).await;
    let held = [("windlass-lease", &*lease)];
    assert_problem(&put(&small, &path(&id, "blob"), &held, &big[..1_001]).await, 413, "body");
    assert_eq!(put(&small, &path(&id, "blob"), &held, &big[..1_000]).await.status, 200);
}
