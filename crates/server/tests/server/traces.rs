//! Trace propagation from enqueue requests to jobs.

use crate::support::{get, json_request, options, send, start, start_with};
use serde_json::{Value, json};
use windlass_server::ServerHandle;

const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OWN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The reply to a request with these headers.
async fn post_with(server: &ServerHandle, path: &str, headers: &str, body: Value) -> Value {
    let request = json_request("POST", path, &body.to_string());
    let request = request.replacen("\r\n\r\n", &format!("\r\n{headers}\r\n\r\n"), 1);
    let answer = send(server.address(), &request).await;
    assert!(answer.status < 300, "{answer:?}");
    answer.body
}

async fn trace(server: &ServerHandle, enqueued: &Value) -> Value {
    let id = enqueued["id"].as_str().unwrap_or_else(|| panic!("no id: {enqueued}"));
    get(server, &format!("/v1/jobs/{id}")).await.body["trace"].clone()
}

#[tokio::test]
async fn a_job_without_a_trace_has_that_of_its_request() {
    let server = start().await;
    let given = format!("traceparent: {GIVEN}");
    let plain = post_with(&server, "/v1/jobs", &given, json!({"kind": "k"})).await;
    assert_eq!(trace(&server, &plain).await, GIVEN);
    let traced = json!({"kind": "k", "trace": OWN});
    let traced = post_with(&server, "/v1/jobs", &given, traced).await;
    assert_eq!(trace(&server, &traced).await, OWN);
    let jobs = json!({"jobs": [{"kind": "k"}, {"kind": "k", "trace": OWN}]});
    let batch = post_with(&server, "/v1/jobs/batch", &given, jobs).await;
    assert_eq!(trace(&server, &batch["items"][0]).await, GIVEN);
    assert_eq!(trace(&server, &batch["items"][1]).await, OWN);
}

#[tokio::test]
async fn a_malformed_or_repeated_trace_is_ignored_and_the_job_accepted() {
    let server = start().await;
    let wrong = [
        "traceparent: nonsense".to_owned(),
        format!("traceparent: {}", GIVEN.to_uppercase()),
        format!("traceparent: {GIVEN}-more"),
        format!("traceparent: {GIVEN}\r\ntraceparent: {OWN}"),
    ];
    for headers in wrong {
        let plain = post_with(&server, "/v1/jobs", &headers, json!({"kind": "k"})).await;
        assert_eq!(trace(&server, &plain).await, Value::Null, "{headers}");
    }
}

#[tokio::test]
async fn spans_change_nothing_without_a_listener() {
    let server = start_with(options().traces(true)).await;
    let given = format!("traceparent: {GIVEN}");
    let plain = post_with(&server, "/v1/jobs", &given, json!({"kind": "k"})).await;
    assert_eq!(trace(&server, &plain).await, GIVEN);
}
