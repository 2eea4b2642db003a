//! Invalid requests: answered with a problem that names the field, and without any effect.

use crate::support::{
    assert_code, assert_problem, get, json_request, options, post, send, start, start_with,
};
use serde_json::json;

#[tokio::test]
async fn a_body_that_is_no_json_is_refused() {
    let server = start().await;
    for body in ["", "{", "nonsense", "{\"kind\": }", "\u{0}"] {
        let answer = send(server.address(), &json_request("POST", "/v1/jobs", body)).await;
        assert_problem(&answer, 400, "body");
    }
}

#[tokio::test]
async fn json_nested_too_deep_for_other_clients_is_refused() {
    let server = start().await;
    for depth in [101, 10_000] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let one = format!(r#"{{"kind": "k", "payload": {deep}}}"#);
        let answer = send(server.address(), &json_request("POST", "/v1/jobs", &one)).await;
        assert_problem(&answer, 422, "payload");
        assert!(
            answer.body["detail"].as_str().is_some_and(|text| text.contains("at most 100 levels"))
        );
        let sealed = format!(r#"{{"kind": "k", "parts": {{"metadata": {{"json": {deep}}}}}}}"#);
        let answer = send(server.address(), &json_request("POST", "/v1/jobs", &sealed)).await;
        assert_problem(&answer, 422, "metadata");
    }
    let most = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let fine = format!(r#"{{"kind": "k", "payload": {most}}}"#);
    let answer = send(server.address(), &json_request("POST", "/v1/jobs", &fine)).await;
    assert_eq!(answer.status, 201);
    // The reply is parsed by a parser with a limit of 128 levels.
    let claimed = post(&server, "/v1/claim", json!({"queues": ["default"], "limit": 10})).await;
    assert_eq!(claimed.body["jobs"].as_array().map(Vec::len), Some(1), "{:?}", claimed.body);
}

#[tokio::test]
async fn fields_that_are_unknown_missing_or_of_another_type_are_named() {
    let server = start().await;
    let cases = [
        ("/v1/jobs", json!({"kind": "k", "prioritee": 1}), "prioritee"),
        ("/v1/jobs", json!({"queue": "q"}), "kind"),
        ("/v1/jobs", json!({"kind": "k", "priority": "high"}), "priority"),
        ("/v1/jobs", json!({"kind": "k", "priority": 3_000_000_000_u64}), "priority"),
        ("/v1/jobs", json!({"kind": "k", "delay_ms": -1}), "delay_ms"),
        ("/v1/jobs", json!({"kind": "k", "delay_ms": 1, "run_at": 1}), "run_at"),
        (
            "/v1/jobs",
            json!({"kind": "k", "backoff": {"fixed": {"delay_ms": 1, "x": 2}}}),
            "backoff.fixed.x",
        ),
        ("/v1/jobs", json!({"kind": "a b"}), "kind"),
        ("/v1/claim", json!({"queues": []}), "queues"),
        ("/v1/claim", json!({"queues": ["q"], "limit": 1_000_000}), "limit"),
        ("/v1/claim", json!({"queues": ["q"], "session": "s"}), "claim_no"),
        (
            "/v1/claim",
            json!({"queues": ["q"], "session": "s", "claim_no": 1, "lease_ms": 9}),
            "lease_ms",
        ),
        ("/v1/claim", json!({"queues": ["q"], "wait_ms": 1_000_000}), "wait_ms"),
        (
            "/v1/settle",
            json!({"items": [], "claim": {"queues": ["q"], "wait_ms": 5}}),
            "claim.wait_ms",
        ),
        ("/v1/sessions", json!({"worker": "w", "ttl_ms": 1}), "ttl_ms"),
        ("/internal/maintain", json!({"work": "sleep", "budget": 1}), "work"),
        ("/v1/jobs/zzz/cancel", json!({}), "id"),
    ];
    for (path, body, field) in cases {
        let answer = post(&server, path, body).await;
        assert_problem(&answer, 422, field);
    }
    assert_problem(&get(&server, "/v1/jobs?stat=dead").await, 422, "stat");
    assert_problem(&get(&server, "/v1/jobs/zzz").await, 422, "id");
    assert_problem(&get(&server, "/v1/jobs/%FF").await, 422, "path");
    assert_problem(&get(&server, "/v1/stats?queue=a+b").await, 422, "queue");
    let page = get(&server, "/v1/jobs").await;
    assert_eq!(page.body["jobs"], json!([]), "nothing of it was stored");
}

#[tokio::test]
async fn an_outcome_takes_only_what_it_has_a_use_for() {
    let server = start().await;
    let job = post(&server, "/v1/jobs", json!({"kind": "k"})).await.body;
    let claimed = post(&server, "/v1/claim", json!({"queues": ["default"]})).await.body;
    let lease = &claimed["jobs"][0]["lease"];
    let bad = [
        (json!({"outcome": "complete", "delay_ms": 5}), "delay_ms"),
        (json!({"outcome": "retry"}), "error"),
        (json!({"outcome": "snooze"}), "delay_ms"),
        (json!({"outcome": "release", "result": 1}), "result"),
        (json!({"outcome": "complete", "queue": "other"}), "queue"),
    ];
    for (mut item, field) in bad {
        item["id"] = job["id"].clone();
        item["lease"] = lease.clone();
        let answer = post(&server, "/v1/settle", json!({"items": [item]})).await;
        let item = &answer.body["items"][0];
        assert_eq!(
            (answer.status, &item["ok"], &item["field"]),
            (200, &json!(false), &json!(field))
        );
    }
    let good = json!({"items": [{"id": job["id"], "lease": lease, "outcome": "complete"}]});
    assert_eq!(post(&server, "/v1/settle", good).await.body["items"][0]["ok"], true);
}

#[tokio::test]
async fn only_json_that_says_so_is_read() {
    let server = start().await;
    let request = json_request("POST", "/v1/jobs", r#"{"kind":"k"}"#);
    for media in ["text/plain", "application/x-www-form-urlencoded"] {
        let answer = send(server.address(), &request.replace("application/json", media)).await;
        assert_problem(&answer, 415, "content-type");
    }
    let with_charset = request.replace("application/json", "Application/JSON; charset=utf-8");
    assert_eq!(send(server.address(), &with_charset).await.status, 201);
}

#[tokio::test]
async fn other_paths_and_methods_are_refused_as_problems() {
    let server = start().await;
    assert_code(&get(&server, "/v2/jobs").await, 404, "not_found");
    assert_problem(&get(&server, "/v1/claim").await, 405, "method");
    assert_problem(&get(&server, "/v1/queues/%ff").await, 422, "path");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_by_its_size() {
    let mut options = crate::support::options();
    options.body_bytes_max = 1_000;
    let server = start_with(options).await;
    let big = json_request("POST", "/v1/jobs", &" ".repeat(1_001));
    let answer = send(server.address(), &big).await;
    assert_problem(&answer, 413, "body");
    assert_eq!(answer.body["limit"], 1_000);
    // Without a `Content-Length`, the limit is detected while the body arrives.
    let chunk = format!("3e9\r\n{}\r\n0\r\n\r\n", " ".repeat(1_001));
    let chunked = "POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    assert_problem(&send(server.address(), &format!("{chunked}{chunk}")).await, 413, "body");
}

#[tokio::test]
async fn requests_for_a_foreign_host_name_are_refused() {
    let server = start_with(options().host("jobs.example")).await;
    let get = async |host: &str| {
        let request = format!("GET /v1/jobs HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        send(server.address(), &request).await
    };
    for host in ["evil.example", "localhost.evil.example:7474", "10.0.0.7"] {
        assert_problem(&get(host).await, 403, "host");
    }
    for host in ["localhost:1", "127.0.0.1", "jobs.example"] {
        assert_eq!(get(host).await.status, 200, "{host}");
    }
}
