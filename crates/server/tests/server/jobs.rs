//! The lifecycle of a job over HTTP, and the status of each reply.

use crate::support::{Answer, assert_problem, call, get, json_request, post, send, start};
use serde_json::{Value, json};
use windlass_server::ServerHandle;

#[tokio::test]
async fn a_job_goes_in_is_claimed_settled_and_shown() {
    let server = start().await;
    let job =
        json!({"kind": "send_email", "queue": "mail", "payload": {"to": "ada"}, "tags": ["vip"]});
    let created = post(&server, "/v1/jobs", job).await;
    assert_eq!((created.status, &created.body["state"]), (201, &json!("available")));
    assert!(created.header("windlass-now").unwrap().parse::<i64>().unwrap() > 0);
    assert!(!created.header("windlass-epoch").unwrap().is_empty());

    let claim =
        json!({"queues": ["mail"], "kinds": ["send_email"], "limit": 5, "lease_ms": 30_000});
    let claimed = post(&server, "/v1/claim", claim.clone()).await;
    let job = &claimed.body["jobs"][0];
    assert_eq!(claimed.status, 200);
    assert_eq!((&job["id"], &job["payload"]), (&created.body["id"], &json!({"to": "ada"})));
    assert_eq!((&job["attempt"], &job["tags"]), (&json!(1), &json!(["vip"])));

    let report =
        json!({"id": job["id"], "lease": job["lease"], "outcome": "complete", "result": [1]});
    let settle = json!({"items": [report], "claim": claim});
    let settled = post(&server, "/v1/settle", settle.clone()).await;
    assert_eq!(settled.body["items"][0]["ok"], true, "{settled:?}");
    assert_eq!(settled.body["jobs"], json!([]), "what the claim got");
    let again = post(&server, "/v1/settle", settle).await;
    assert_eq!(again.body["items"][0]["already"], true, "{again:?}");

    let path = format!("/v1/jobs/{}", created.body["id"].as_str().unwrap());
    let shown = get(&server, &path).await;
    assert_eq!((&shown.body["state"], &shown.body["result"]), (&json!("completed"), &json!([1])));
    let page = get(&server, "/v1/jobs?queue=mail&state=completed").await;
    assert_eq!(page.body["jobs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_job_is_explained_and_the_answer_follows_its_state() {
    let server = start().await;
    let created = post(&server, "/v1/jobs", json!({"kind": "k", "queue": "q"})).await;
    let path = format!("/v1/jobs/{}/why", created.body["id"].as_str().unwrap());
    let pause = async |paused: bool| {
        let changed = call(&server, "PATCH", "/v1/queues/q", json!({"paused": paused})).await;
        assert_eq!(changed.status, 200, "{changed:?}");
    };
    pause(true).await;
    let why = get(&server, &path).await;
    assert_eq!((why.status, &why.body["state"]), (200, &json!("available")), "{why:?}");
    let causes = why.body["causes"].as_array().unwrap();
    let codes: Vec<&str> = causes.iter().map(|cause| cause["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["queue_paused", "no_worker", "in_line"]);
    assert_eq!(causes[0]["message"], "Queue q is paused.");
    assert_eq!(causes[0]["way_out"], "Resume it: windlass queues resume q");
    assert_eq!((&causes[2]["ahead"], causes[2].get("at_least")), (&json!(0), None));
    pause(false).await;
    let claim = json!({"queues": ["q"], "worker": "w1", "lease_ms": 30_000});
    assert_eq!(post(&server, "/v1/claim", claim).await.status, 200);
    let why = get(&server, &path).await;
    let cause = &why.body["causes"][0];
    assert_eq!((&cause["code"], &cause["worker"]), (&json!("running"), &json!("w1")), "{why:?}");
    assert!(cause["until"].as_str() > cause["since"].as_str());

    let missing = get(&server, "/v1/jobs/019a8b2c-7d4e-7f01-8a23-456789abcdef/why").await;
    assert_eq!((missing.status, &missing.body["code"]), (404, &json!("not_found")));
    let bad = get(&server, "/v1/jobs/nonsense/why").await;
    assert_problem(&bad, 422, "id");
    let unknown = get(&server, &format!("{path}?verbose=1")).await;
    assert_problem(&unknown, 422, "verbose");
}

#[tokio::test]
async fn a_unique_job_is_created_once_and_found_after() {
    let server = start().await;
    let job = json!({"kind": "k", "unique": {"key": "signup:789"}});
    let first = post(&server, "/v1/jobs", job.clone()).await;
    let second = post(&server, "/v1/jobs", job).await;
    assert_eq!((first.status, second.status), (201, 200));
    assert_eq!(first.body["id"], second.body["id"]);
    assert_eq!(second.body["disposition"], "existing");
    let strict = json!({"kind": "k", "unique": {"key": "signup:789", "on_conflict": "reject"}});
    let refused = post(&server, "/v1/jobs", strict).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("duplicate")));
    assert_eq!(refused.body["holder"], first.body["id"]);
}

/// Sends an enqueue with headers.
async fn post_with(server: &ServerHandle, path: &str, headers: &str, body: Value) -> Answer {
    let request = json_request("POST", path, &body.to_string());
    send(server.address(), &request.replacen("\r\n", &format!("\r\n{headers}\r\n"), 1)).await
}

#[tokio::test]
async fn a_repeated_enqueue_with_an_idempotency_key_stores_nothing() {
    let server = start().await;
    let once = async |body: Value| {
        post_with(&server, "/v1/jobs", "Idempotency-Key: order-789", body).await
    };
    let first = once(json!({"kind": "k"})).await;
    let claimed = post(&server, "/v1/claim", json!({"queues": ["default"]})).await;
    let job = &claimed.body["jobs"][0];
    let report = json!({"id": job["id"], "lease": job["lease"], "outcome": "complete"});
    post(&server, "/v1/settle", json!({"items": [report]})).await;
    let again = once(json!({"kind": "k", "queue": "elsewhere"})).await;
    assert_eq!((first.status, again.status), (201, 200), "after its end, too");
    assert_eq!(first.body["id"], again.body["id"]);
    assert_eq!(once(json!({"kind": "another"})).await.status, 201, "a kind of its own");

    // Jobs of a batch keep their keys by place, also beside a bad one.
    let batch = async |jobs: Value| {
        let body = json!({"jobs": jobs});
        let answer = post_with(&server, "/v1/jobs/batch", "Idempotency-Key: b", body).await;
        let ids = answer.body["items"].as_array().unwrap().iter();
        ids.map(|item| item["id"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let ids = batch(json!([{"kind": "k"}, {"kind": "c d"}, {"kind": "k"}])).await;
    assert!(ids[0] != ids[2] && ids[1].is_none(), "{ids:?}");
    assert_eq!(batch(json!([{"kind": "k"}, {"kind": "k"}, {"kind": "k"}])).await[2], ids[2]);

    let own = json!({"kind": "k", "unique": {"key": "u"}});
    assert_problem(&once(own).await, 422, "idempotency-key");
    let long = format!("Idempotency-Key: {}", "x".repeat(201));
    for headers in [&*long, "Idempotency-Key: a\r\nIdempotency-Key: b", "Idempotency-Key: \u{e4}"] {
        let refused = post_with(&server, "/v1/jobs", headers, json!({"kind": "k"})).await;
        assert!([413, 422].contains(&refused.status), "{refused:?}");
        assert_eq!(refused.body["field"], "idempotency-key", "{refused:?}");
    }
    let page = get(&server, "/v1/jobs").await;
    assert_eq!(page.body["jobs"].as_array().unwrap().len(), 5, "{page:?}");
}

#[tokio::test]
async fn a_bad_job_of_a_batch_fails_alone_or_with_all() {
    let server = start().await;
    // The second is not a valid job, the third is refused by the engine.
    let jobs = json!([{"kind": "a"}, {"kind": "b", "payload": 1, "payload_base64": "MQ=="}, {"kind": "c d"}]);
    let each = post(&server, "/v1/jobs/batch", json!({"jobs": jobs})).await;
    let items = each.body["items"].as_array().unwrap();
    let oks: Vec<_> = items.iter().map(|item| item["ok"].as_bool().unwrap()).collect();
    assert_eq!((each.status, &*oks), (200, &[true, false, false][..]), "{each:?}");
    assert_eq!((&items[1]["field"], &items[2]["field"]), (&json!("payload"), &json!("kind")));

    let all = post(&server, "/v1/jobs/batch", json!({"jobs": jobs, "atomic": true})).await;
    let codes: Vec<_> =
        all.body["items"].as_array().unwrap().iter().map(|it| &it["code"]).collect();
    assert_eq!(codes[..2], [&json!("aborted"), &json!("invalid")], "{all:?}");
    let page = get(&server, "/v1/jobs").await;
    assert_eq!(
        page.body["jobs"].as_array().unwrap().len(),
        1,
        "only the good one of the first call"
    );
}

#[tokio::test]
async fn refused_changes_and_unknown_ids_are_answered_with_their_status() {
    let server = start().await;
    let created = post(&server, "/v1/jobs", json!({"kind": "k", "queue": "q"})).await;
    let job = format!("/v1/jobs/{}", created.body["id"].as_str().unwrap());
    let refused = post(&server, &format!("{job}/replay"), json!({})).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("refused")), "{refused:?}");
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    let cancelled = post(&server, &format!("{job}/cancel"), json!({})).await;
    assert_eq!((cancelled.status, &cancelled.body["state"]), (200, &json!("cancelled")));

    let missing = "/v1/jobs/0199b2c8-0000-7000-8000-000000000000";
    assert_eq!(get(&server, missing).await.status, 404);
    let beat = json!({"session": "missing", "held": [], "upto": 0});
    assert_eq!(post(&server, "/v1/heartbeat", beat).await.status, 409);
}

#[tokio::test]
async fn a_full_queue_answers_429_and_when_to_come_again() {
    let server = start().await;
    let patch = json_request("PATCH", "/v1/queues/q", r#"{"max_depth": 1}"#);
    assert_eq!(send(server.address(), &patch).await.status, 200);
    let job = json!({"kind": "k", "queue": "q"});
    assert_eq!(post(&server, "/v1/jobs", job.clone()).await.status, 201);
    let full = post(&server, "/v1/jobs", job.clone()).await;
    assert_eq!((full.status, &full.body["code"]), (429, &json!("queue_full")));
    assert!(full.header("retry-after").is_some());
    let lifted = json_request("PATCH", "/v1/queues/q", r#"{"max_depth": null}"#);
    assert_eq!(send(server.address(), &lifted).await.status, 200);
    assert_eq!(post(&server, "/v1/jobs", job).await.status, 201);
}

#[tokio::test]
async fn hosted_services_let_a_delayed_job_in() {
    let server = start().await;
    let created = post(&server, "/v1/jobs", json!({"kind": "k", "delay_ms": 50})).await;
    assert_eq!(created.body["state"], "scheduled");
    let claimed =
        post(&server, "/v1/claim", json!({"queues": ["default"], "wait_ms": 20_000})).await;
    assert_eq!(claimed.body["jobs"][0]["id"], created.body["id"]);
}

#[tokio::test]
async fn bytes_that_are_not_json_travel_as_base64() {
    let server = start().await;
    let parts = json!({"blob": {"base64": "AAH/"}, "checkpoint": {"json": {"step": 3}}});
    let job = json!({"kind": "k", "payload_base64": "/w==", "parts": parts});
    let created = post(&server, "/v1/jobs", job).await;
    let path = format!("/v1/jobs/{}", created.body["id"].as_str().unwrap());
    let shown = get(&server, &path).await.body;
    assert_eq!((&shown["payload_base64"], &shown["parts"]), (&json!("/w=="), &parts));
    let light = get(&server, &format!("{path}?parts=checkpoint")).await.body;
    assert_eq!(light["parts"], json!({"checkpoint": {"json": {"step": 3}}}));
    assert!(light.get("payload_base64").is_none());
}

#[tokio::test]
async fn a_server_says_how_it_is() {
    let server = start().await;
    assert_eq!(get(&server, "/healthz").await.status, 200);
    assert_eq!(get(&server, "/readyz").await.status, 200);
    let reported = get(&server, "/v1/capabilities").await.body;
    assert_eq!((&reported["engine"], &reported["protocol"]), (&json!("memory"), &json!(1)));
}

#[tokio::test]
async fn a_job_is_moved_by_an_operator_and_by_its_worker_and_killed() {
    let server = start().await;
    let created = post(&server, "/v1/jobs", json!({"kind": "k", "queue": "a"})).await;
    let id = created.body["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/jobs/{id}");
    let action = |name: &str| format!("{path}/{name}");
    let elsewhere = json!({"queue": "b", "if_state": "dead"});
    let refused = post(&server, &action("move"), elsewhere).await;
    assert_eq!(refused.body["code"], "state_conflict", "{refused:?}");
    let moved = post(&server, &action("move"), json!({"queue": "b"})).await;
    assert_eq!((moved.status, &moved.body["state"]), (200, &json!("available")), "{moved:?}");
    assert_eq!(get(&server, &path).await.body["queue"], "b");
    let unnamed = post(&server, &action("move"), json!({})).await;
    assert_eq!((unnamed.status, &unnamed.body["field"]), (422, &json!("queue")), "{unnamed:?}");

    let claimed = post(&server, "/v1/claim", json!({"queues": ["b"], "worker": "w"})).await;
    let lease = &claimed.body["jobs"][0]["lease"];
    let shown = get(&server, &path).await;
    let running = &shown.body["running"];
    assert_eq!((&running["worker"], &running["attempt"]), (&json!("w"), &json!(1)), "{shown:?}");
    assert!(running["expires_at"].as_str() > shown.body["started_at"].as_str(), "{shown:?}");
    assert_eq!(shown.body["transitions"], 3, "enqueued, moved, claimed");
    let report = json!({"id": id, "lease": lease, "outcome": "release", "queue": "c",
        "parts": {"payload": {"json": {"step": 2}}}});
    let settled = post(&server, "/v1/settle", json!({"items": [report]})).await;
    assert_eq!(settled.body["items"][0]["ok"], true, "{settled:?}");
    let shown = get(&server, &path).await;
    let now = (&shown.body["queue"], &shown.body["payload"], &shown.body["running"]);
    assert_eq!(now, (&json!("c"), &json!({"step": 2}), &json!(null)));

    let killed = post(&server, &action("kill"), json!({})).await;
    assert_eq!(killed.body["state"], "dead", "{killed:?}");
    let dead = get(&server, "/v1/dead?queue=c").await;
    assert_eq!(dead.body["jobs"][0]["finish"], "killed", "{dead:?}");
    let moves = json!({"queue": "a"});
    assert_eq!(post(&server, &action("replay"), moves).await.body["state"], "available");
    assert_eq!(get(&server, &path).await.body["queue"], "a");
}

#[tokio::test]
async fn jobs_of_one_server_are_imported_by_another() {
    let (from, to) = (start().await, start().await);
    let created = post(&from, "/v1/jobs", json!({"kind": "k", "payload": {"a": 1}})).await;
    let path = format!("/v1/jobs/{}", created.body["id"].as_str().unwrap());
    let claimed = post(&from, "/v1/claim", json!({"queues": ["default"], "worker": "w"})).await;
    let lease = &claimed.body["jobs"][0]["lease"];
    let error = json!({"code": "e", "message": "m"});
    let report =
        json!({"id": created.body["id"], "lease": lease, "outcome": "fail", "error": error});
    post(&from, "/v1/settle", json!({"items": [report]})).await;
    let exported = get(&from, &path).await.body;
    let import = json!({"jobs": [exported, {"nothing": true}]});
    assert_eq!(post(&to, "/v1/jobs/import", import).await.status, 422);
    let imported = post(&to, "/v1/jobs/import", json!({"jobs": [exported]})).await;
    assert_eq!(imported.body["items"][0]["disposition"], "created", "{imported:?}");
    assert_eq!(get(&to, &path).await.body, exported);
    let again = post(&to, "/v1/jobs/import", json!({"jobs": [exported]})).await;
    assert_eq!(again.body["items"][0]["disposition"], "existing", "{again:?}");
    let hinted = get(&to, &format!("{path}?queue_hint=elsewhere")).await;
    assert_eq!(hinted.body, exported);
}
