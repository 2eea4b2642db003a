//! Registered kinds: jobs that violate their rules are refused on every route.

use crate::support::{
    Answer, assert_problem, call, claimed, dead, get, options, post, start, start_over, start_with,
};
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_core::engine::{Admin as _, Expect, RecordOp};
use windlass_memory::MemoryEngine;
use windlass_server::ServerHandle;

/// The schema of an e-mail.
fn email() -> Value {
    json!({
        "type": "object",
        "required": ["to"],
        "properties": {"to": {"type": "string"}, "copies": {"type": "integer", "maximum": 3}},
    })
}

async fn register(server: &ServerHandle, kind: &str, rules: Value) -> Answer {
    let answer = call(server, "PUT", &format!("/v1/kinds/{kind}"), rules).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

async fn enqueue(server: &ServerHandle, payload: Value) -> Answer {
    post(server, "/v1/jobs", json!({"kind": "email", "payload": payload})).await
}

#[tokio::test]
async fn a_payload_that_does_not_fit_is_refused_by_its_pointer() {
    let server = start().await;
    assert_eq!(enqueue(&server, json!(7)).await.status, 201, "no rules yet");
    register(&server, "email", json!({"schema": email()})).await;
    assert_eq!(enqueue(&server, json!({"to": "ada"})).await.status, 201);
    assert_problem(&enqueue(&server, json!({"copies": 1})).await, 422, "payload/to");
    let many = enqueue(&server, json!({"to": "a", "copies": 9})).await;
    assert_problem(&many, 422, "payload/copies");
    assert!(many.body["detail"].as_str().unwrap().contains("maximum of 3"), "{many:?}");
    let bytes = json!({"kind": "email", "payload_base64": "AAH/"});
    assert_problem(&post(&server, "/v1/jobs", bytes).await, 422, "payload");
    assert_problem(&post(&server, "/v1/jobs", json!({"kind": "email"})).await, 422, "payload");
    // After its rules are removed, they no longer apply.
    let gone = call(&server, "DELETE", "/v1/kinds/email", json!({})).await;
    assert_eq!(gone.status, 200, "{gone:?}");
    assert_eq!(enqueue(&server, json!(7)).await.status, 201);
    assert_eq!(call(&server, "DELETE", "/v1/kinds/email", json!({})).await.status, 404);
}

#[tokio::test]
async fn completed_jobs_are_checked_with_their_payload_and_result() {
    let server = start().await;
    let check = json!({"kind": "verify", "queue": "checks", "sample_per_mille": 1_000});
    let put = register(&server, "email", json!({"check": check})).await;
    assert_eq!(put.body["check"], check);
    let job = json!({"kind": "email", "payload": {"to": "ada"}, "tenant": "t"});
    let (id, lease) = claimed(&server, job).await;
    let report = json!({"id": id, "lease": lease, "outcome": "complete", "result": {"sent": 1}});
    // The second is a repetition after a lost reply.
    for already in [false, true] {
        let settled = post(&server, "/v1/settle", json!({"items": [report]})).await;
        let item = &settled.body["items"][0];
        assert_eq!(item["already"].as_bool().unwrap_or(false), already, "{settled:?}");
        assert!(item.get("follow_ups").is_none_or(|it| it == &json!([])), "{settled:?}");
    }
    let kind = get(&server, "/v1/kinds/email").await.body["checks"].clone();
    let checks = |failed| {
        json!({"kind": "verify", "sample_per_mille": 1_000,
                                 "pending": 1 - failed, "failed": failed})
    };
    assert_eq!(kind, checks(0));
    let claim = post(&server, "/v1/claim", json!({"queues": ["checks"], "limit": 5})).await;
    let jobs = claim.body["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 1, "once: {claim:?}");
    assert_eq!(jobs[0]["payload"], json!({"to": "ada"}));
    assert_eq!((&jobs[0]["parent"], &jobs[0]["tenant"]), (&json!(id), &json!("t")));
    let path = format!("/v1/jobs/{}", jobs[0]["id"].as_str().unwrap());
    let input = get(&server, &path).await.body["after"][0].clone();
    assert_eq!((&input["job"], &input["name"]), (&json!(id), &json!("checked")));
    assert_eq!((&input["outcome"], &input["result"]), (&json!("completed"), &json!({"sent": 1})));
    let error = json!({"code": "not_sent", "message": "no such message"});
    let failed = json!({"id": jobs[0]["id"], "lease": jobs[0]["lease"], "outcome": "fail",
                        "error": error});
    post(&server, "/v1/settle", json!({"items": [failed]})).await;
    let listed = get(&server, "/v1/kinds").await.body;
    let email =
        listed["kinds"].as_array().unwrap().iter().find(|it| it["name"] == "email").unwrap();
    assert_eq!(email["checks"], checks(1));
    for (rule, field) in [
        (json!({"kind": "email", "sample_per_mille": 5}), "check.kind"),
        (json!({"kind": "a b", "sample_per_mille": 5}), "check.kind"),
        (json!({"kind": "v", "sample_per_mille": 0}), "check.sample_per_mille"),
        (json!({"kind": "v", "sample_per_mille": 5, "after": 1}), "check.after"),
        (json!({"kind": "v"}), "check.sample_per_mille"),
    ] {
        let answer = call(&server, "PUT", "/v1/kinds/email", json!({"check": rule})).await;
        assert_problem(&answer, 422, field);
    }
}

#[tokio::test]
async fn in_a_batch_a_job_that_does_not_fit_fails_alone_or_keeps_all_out() {
    let server = start().await;
    register(&server, "email", json!({"schema": email(), "payload_bytes_max": 40})).await;
    let job = |payload: Value| json!({"kind": "email", "payload": payload});
    let jobs = json!([job(json!({"to": "a"})), job(json!({})), job(json!({"to": "x".repeat(40)}))]);
    let each = post(&server, "/v1/jobs/batch", json!({"jobs": jobs})).await;
    let codes = |answer: &Answer| -> Vec<Value> {
        answer.body["items"].as_array().unwrap().iter().map(|it| it["code"].clone()).collect()
    };
    assert_eq!(codes(&each), [Value::Null, json!("invalid"), json!("too_large")], "{each:?}");
    assert_eq!(each.body["items"][1]["field"], "payload/to");
    let all = post(&server, "/v1/jobs/batch", json!({"jobs": jobs, "atomic": true})).await;
    assert_eq!(codes(&all), [json!("aborted"), json!("invalid"), json!("too_large")], "{all:?}");
    let queue = get(&server, "/v1/queues/default").await;
    assert_eq!(queue.body["counts"]["depth"], 1);
}

#[tokio::test]
async fn follow_ups_schedules_and_edits_are_held_to_the_same_rules() {
    let server = start_with(options().services(None)).await;
    let doomed = dead(&server, json!({"kind": "email", "payload": {"to": "a"}})).await;
    register(&server, "email", json!({"schema": email()})).await;
    let (id, lease) = claimed(&server, json!({"kind": "parent"})).await;
    let follow_up = |payload: Value| json!([{"kind": "email", "payload": payload}]);
    let report = |payload: Value| {
        let follow_ups = follow_up(payload);
        json!({"items": [{"id": id, "lease": lease, "outcome": "complete", "follow_ups": follow_ups}]})
    };
    let refused = post(&server, "/v1/settle", report(json!({}))).await;
    assert_eq!(refused.body["items"][0]["field"], "follow_ups[0].payload/to", "{refused:?}");
    let settled = post(&server, "/v1/settle", report(json!({"to": "b"}))).await;
    assert_eq!(settled.body["items"][0]["ok"], true, "the lease was kept: {settled:?}");

    let schedule = json!({"schedule": {"cron": "@daily"}, "job": {"kind": "email", "payload": {}}});
    let put = call(&server, "PUT", "/v1/schedules/daily", schedule).await;
    assert_problem(&put, 422, "job.payload/to");

    let edits = json!({"parts": {"payload": {"json": {"to": 7}}}});
    let refused = post(&server, &format!("/v1/jobs/{doomed}/replay"), edits).await;
    assert_problem(&refused, 422, "payload/to");
}

#[tokio::test]
async fn a_payload_that_is_edited_under_a_lease_is_held_to_the_rules_of_its_kind() {
    let server = start_with(options().services(None)).await;
    register(&server, "email", json!({"schema": email()})).await;
    let (id, lease) = claimed(&server, json!({"kind": "email", "payload": {"to": "a"}})).await;
    let item = |outcome: Option<&str>, payload: Value| {
        let parts = json!({"payload": payload});
        let mut item = json!({"id": id, "lease": lease, "parts": parts});
        if let Some(outcome) = outcome {
            item["outcome"] = outcome.into();
        }
        json!({"items": [item]})
    };
    for payload in [json!({"json": {"to": 7}}), Value::Null] {
        for (path, outcome) in [("/v1/update", None), ("/v1/settle", Some("release"))] {
            let refused = post(&server, path, item(outcome, payload.clone())).await;
            assert_eq!(refused.body["items"][0]["ok"], false, "{path}, {payload}: {refused:?}");
        }
    }
    let valid = json!({"json": {"to": "b"}});
    let updated = post(&server, "/v1/update", item(None, valid.clone())).await;
    assert_eq!(updated.body["items"][0]["ok"], true, "the lease was kept: {updated:?}");
    let settled = post(&server, "/v1/settle", item(Some("release"), valid)).await;
    assert_eq!(settled.body["items"][0]["ok"], true, "{settled:?}");
}

#[tokio::test]
async fn a_job_takes_from_its_kind_what_it_does_not_say_itself() {
    let server = start().await;
    register(&server, "email", json!({"max_attempts": 9, "timeout_ms": 7000})).await;
    for (job, attempts) in
        [(json!({"kind": "email"}), 9), (json!({"kind": "email", "max_attempts": 2}), 2)]
    {
        let id = post(&server, "/v1/jobs", job).await.body["id"].as_str().unwrap().to_owned();
        let job = get(&server, &format!("/v1/jobs/{id}")).await;
        assert_eq!(job.body["max_attempts"], attempts, "{job:?}");
        assert_eq!(job.body["timeout_ms"], 7000);
    }
}

#[tokio::test]
async fn a_kind_sets_backoff_and_priority_and_refuses_priorities_outside_its_range() {
    let server = start_with(options().services(None)).await;
    let backoff = json!({"fixed": {"delay_ms": 7, "jitter_ms": 0}});
    let priority = json!({"min": -5, "max": 5, "default": 2});
    register(&server, "email", json!({"backoff": backoff, "priority": priority})).await;
    let id = post(&server, "/v1/jobs", json!({"kind": "email"})).await.body["id"].clone();
    let path = format!("/v1/jobs/{}", id.as_str().unwrap());
    let job = get(&server, &path).await.body;
    assert_eq!((&job["backoff"], &job["priority"]), (&backoff, &json!(2)), "{job}");
    let own = json!({"kind": "email", "priority": -5, "backoff": {"fixed": {"delay_ms": 9}}});
    let id = post(&server, "/v1/jobs", own).await.body["id"].clone();
    let job = get(&server, &format!("/v1/jobs/{}", id.as_str().unwrap())).await.body;
    assert_eq!((&job["backoff"]["fixed"]["delay_ms"], &job["priority"]), (&json!(9), &json!(-5)));
    let refused = post(&server, "/v1/jobs", json!({"kind": "email", "priority": 6})).await;
    assert_problem(&refused, 422, "priority");
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.contains('6') && detail.contains("-5 to 5"), "{detail}");
    let change = format!("{path}/reprioritise");
    assert_problem(&post(&server, &change, json!({"priority": 6})).await, 422, "priority");
    assert_eq!(post(&server, &change, json!({"priority": 5})).await.status, 200);
    let doomed = dead(&server, json!({"kind": "email", "queue": "other"})).await;
    let replay = json!({"priority": 6});
    let refused = post(&server, &format!("/v1/jobs/{doomed}/replay"), replay).await;
    assert_problem(&refused, 422, "priority");
}

#[tokio::test]
async fn a_kind_may_not_allow_larger_payloads_than_the_store() {
    let server = start().await;
    let large = json!({"payload_bytes_max": 65_537});
    let refused = call(&server, "PUT", "/v1/kinds/email", large).await;
    assert_problem(&refused, 422, "payload_bytes_max");
    assert!(refused.body["detail"].as_str().unwrap().contains("65536"), "{refused:?}");
}

#[tokio::test]
async fn a_strict_server_takes_registered_kinds_only_and_names_those_that_are_near() {
    let server = start_with(options().strict_kinds(true)).await;
    register(&server, "send_email", json!({})).await;
    let refused = post(&server, "/v1/jobs", json!({"kind": "send_emial"})).await;
    assert_problem(&refused, 422, "kind");
    assert!(refused.body["detail"].as_str().unwrap().contains("\"send_email\""), "{refused:?}");
    assert_eq!(post(&server, "/v1/jobs", json!({"kind": "send_email"})).await.status, 201);
    assert_eq!(post(&start().await, "/v1/jobs", json!({"kind": "any"})).await.status, 201);
}

#[tokio::test]
async fn a_sensitive_kind_is_replayed_only_if_it_is_named() {
    let server = start().await;
    register(&server, "charge", json!({"sensitive": true})).await;
    let one = dead(&server, json!({"kind": "charge"})).await;
    let path = format!("/v1/jobs/{one}/replay");
    let plain = post(&server, &path, json!({})).await;
    assert_problem(&plain, 422, "confirm");
    let wrong = json!({"confirm": "chrge"});
    assert_problem(&post(&server, &path, wrong).await, 422, "confirm");
    let batch = json!({"filter": {}});
    let refused = post(&server, "/v1/dead/replay", batch).await;
    assert_eq!(refused.body["items"][0]["field"], "confirm", "{refused:?}");
    let confirmed =
        post(&server, "/v1/dead/replay", json!({"filter": {}, "confirm": "charge"})).await;
    assert_eq!(confirmed.body["items"][0]["state"], "available", "{confirmed:?}");
    // Jobs of other kinds are replayed without confirmation.
    let other = dead(&server, json!({"kind": "email", "queue": "other"})).await;
    let path = format!("/v1/jobs/{other}/replay");
    assert_eq!(post(&server, &path, json!({})).await.status, 200);
}

#[tokio::test]
async fn rules_that_were_put_on_one_server_hold_on_all_of_them_soon() {
    let engine = Arc::new(MemoryEngine::new());
    let (first, second) =
        (start_over(engine.clone(), options()).await, start_over(engine.clone(), options()).await);
    assert_eq!(enqueue(&second, json!(7)).await.status, 201, "it has looked, and seen none");
    register(&first, "email", json!({"schema": email()})).await;
    assert_eq!(enqueue(&first, json!(7)).await.status, 422, "at once where they were put");
    let soon = async {
        while enqueue(&second, json!(7)).await.status != 422 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::support::DEADLINE, soon).await.expect("soon elsewhere");
    // Unreadable rules refuse all jobs instead of accepting all.
    let broken = |value: &'static str| RecordOp::Put {
        key: "kind/email".into(),
        value: value.into(),
        expect: Expect::Any,
    };
    let changes =
        RecordOp::Put { key: "kind-changes".into(), value: "{}".into(), expect: Expect::Any };
    engine.records(vec![broken("nonsense"), changes]).await.unwrap();
    let third = start_over(engine, options()).await;
    assert_problem(&enqueue(&third, json!({"to": "a"})).await, 422, "kind");
}

#[tokio::test]
async fn a_kind_returns_its_rules_and_invalid_rules_are_refused_by_field() {
    let server = start().await;
    let rules = json!({"schema": email(), "sensitive": true, "breaker": {"min_samples": 3}});
    register(&server, "email", rules).await;
    let kind = get(&server, "/v1/kinds/email").await.body;
    assert_eq!((&kind["registered"], &kind["rules"]["schema"]), (&json!(true), &email()));
    assert_eq!(kind["rules"]["breaker"]["error_rate_percent"], 80);
    let listed = get(&server, "/v1/kinds").await.body;
    assert_eq!(listed["kinds"][0]["name"], "email");
    assert_eq!(listed["kinds"][0]["registered"], true);
    for (bad, field) in [
        (json!({"schema": {"type": "strin"}}), "schema"),
        (json!({"schema": {"$ref": "http://127.0.0.1:1/x"}}), "schema"),
        (json!({"breaker": {"window_ms": 1}}), "breaker.window_ms"),
        (json!({"max_attempts": 0}), "max_attempts"),
        (json!({"colour": 1}), "colour"),
    ] {
        assert_problem(&call(&server, "PUT", "/v1/kinds/email", bad).await, 422, field);
    }
}
