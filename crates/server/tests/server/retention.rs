//! Retention and expiry through the API: outdated jobs are removed and appear in the history.

use crate::support::{DEADLINE, call, claimed, dead, get, options, post, start_with};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;
use windlass_server::ServerHandle;
use windlass_services::ServiceOptions;

/// A server whose services run frequently.
async fn busy() -> ServerHandle {
    let mut services = ServiceOptions::default();
    services.retain.interval = Duration::from_millis(20);
    services.expire.interval = Duration::from_millis(20);
    services.trim.interval = Duration::from_millis(20);
    start_with(options().services(Some(services))).await
}

async fn set(server: &ServerHandle, queue: &str, patch: Value) {
    let answer = call(server, "PATCH", &format!("/v1/queues/{queue}"), patch).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// Waits until a job's request returns this status and, if the job exists, this state.
async fn becomes(server: &ServerHandle, id: &str, status: u16, state: Option<&str>) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let job = get(server, &format!("/v1/jobs/{id}")).await;
        if job.status == status && state.is_none_or(|state| job.body["state"] == state) {
            return;
        }
        assert!(Instant::now() < deadline, "never {status} {state:?}: {job:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn each_end_has_its_own_age_and_dead_letters_their_bytes() {
    let server = busy().await;
    let job = |queue: &str| json!({"kind": "k", "queue": queue, "payload": "x".repeat(100)});
    let keep = 3_600_000;
    let ages = |finished: u64, dead: u64| json!({"retention": {"finished_ms": finished, "dead_ms": dead, "expired_ms": keep}});
    set(&server, "short", ages(0, keep)).await;
    set(&server, "deadly", ages(keep, 0)).await;
    set(&server, "waits", json!({"max_wait_ms": 1})).await;
    set(&server, "small", json!({"dead_bytes_max": 150})).await;

    let mut ended = Vec::new();
    for queue in ["short", "deadly"] {
        let (id, lease) = claimed(&server, job(queue)).await;
        let report = json!({"items": [{"id": id, "lease": lease, "outcome": "complete"}]});
        assert_eq!(post(&server, "/v1/settle", report).await.status, 200);
        ended.push(id);
    }
    becomes(&server, &ended[0], 404, None).await;
    becomes(&server, &ended[1], 200, Some("completed")).await;
    let stays = dead(&server, job("short")).await;
    let goes = dead(&server, job("deadly")).await;
    becomes(&server, &goes, 404, None).await;
    becomes(&server, &stays, 200, Some("dead")).await;
    let waits = post(&server, "/v1/jobs", job("waits")).await.body["id"].clone();
    becomes(&server, waits.as_str().unwrap(), 200, Some("expired")).await;
    let (older, newer) = (dead(&server, job("small")).await, dead(&server, job("small")).await);
    becomes(&server, &older, 404, None).await;
    becomes(&server, &newer, 200, Some("dead")).await;

    let rows = get(&server, "/v1/history?queue=deadly").await.body["rows"].clone();
    let expected = json!({"queue": "deadly", "kind": "k", "outcome": "dead", "count": 1});
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(rows[0][field], *value, "{rows}");
    }
    assert!(rows[0]["hour"].is_string() && rows.as_array().unwrap().len() == 1, "{rows}");
    let all = get(&server, "/v1/history?limit=1").await;
    let after = all.body["next"].as_str().expect("more than one row");
    let next = get(&server, &format!("/v1/history?limit=1&after={after}")).await;
    assert_ne!(all.body["rows"], next.body["rows"]);
    assert_eq!(get(&server, "/v1/history?after=x").await.status, 422);
    assert_eq!(get(&server, "/v1/history?limit=0").await.status, 422);
}
