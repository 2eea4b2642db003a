//! Flows over HTTP: graphs are stored whole, and read, cancelled and replayed as a whole.

use crate::support::{Answer, assert_problem, get, post, start};
use serde_json::{Value, json};
use windlass_server::ServerHandle;

async fn settle_next(server: &ServerHandle, outcome: Value) -> Value {
    let claim = json!({"queues": ["default"], "limit": 1, "lease_ms": 30_000});
    let claimed = post(server, "/v1/claim", claim).await;
    let job = claimed.body["jobs"][0].clone();
    let mut report = json!({"id": job["id"], "lease": job["lease"]});
    let fields = outcome.as_object().expect("an object").clone();
    report.as_object_mut().expect("an object").extend(fields);
    let settled = post(server, "/v1/settle", json!({"items": [report]})).await;
    assert_eq!(settled.body["items"][0]["ok"], true, "{settled:?}");
    job["kind"].clone()
}

fn kinds(flow: &Answer) -> Vec<&str> {
    let jobs = flow.body["jobs"].as_array().expect("a list");
    jobs.iter().map(|job| job["kind"].as_str().expect("a kind")).collect()
}

fn graph() -> Value {
    json!({"flow": "order-7", "nodes": {
        "notify": {"kind": "notify", "after": ["small", {"job": "large", "on_failure": "run"}]},
        "large": {"kind": "large"},
        "small": {"kind": "small"},
    }})
}

#[tokio::test]
async fn a_graph_is_stored_runs_in_order_and_hands_results_on() {
    let server = start().await;
    let stored = post(&server, "/v1/flows", graph()).await;
    assert_eq!(stored.status, 201, "{stored:?}");
    assert_eq!(stored.body["nodes"]["notify"]["state"], "blocked");
    let flow = get(&server, "/v1/flows/order-7").await;
    assert_eq!(flow.body["states"], json!({"available": 2, "blocked": 1}), "{flow:?}");
    assert_eq!(kinds(&flow).last(), Some(&"notify"));
    for _ in 0..2 {
        settle_next(&server, json!({"outcome": "complete", "result": {"n": 1}})).await;
    }
    assert_eq!(settle_next(&server, json!({"outcome": "complete"})).await, "notify");
    let id = stored.body["nodes"]["notify"]["id"].as_str().unwrap();
    let job = get(&server, &format!("/v1/jobs/{id}")).await;
    let after = job.body["after"].as_array().unwrap();
    assert_eq!(job.body["dependencies"]["total"], 2, "{job:?}");
    assert_eq!((&after[0]["name"], &after[0]["outcome"]), (&json!("small"), &json!("completed")));
    assert_eq!(after[1]["result"], json!({"n": 1}));
    let listed = get(&server, "/v1/jobs?flow=order-7&state=completed").await;
    assert_eq!(listed.body["jobs"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_flow_is_cancelled_and_replayed_as_a_whole() {
    let server = start().await;
    post(&server, "/v1/flows", graph()).await;
    let cancelled = post(&server, "/v1/flows/order-7/cancel", json!({})).await;
    assert_eq!(cancelled.body["items"].as_array().unwrap().len(), 3, "{cancelled:?}");
    let flow = get(&server, "/v1/flows/order-7").await;
    assert_eq!(flow.body["states"], json!({"cancelled": 3}), "{flow:?}");
    let replayed = post(&server, "/v1/flows/order-7/replay", json!({})).await;
    assert_eq!(replayed.body["items"].as_array().unwrap().len(), 3, "{replayed:?}");
    let flow = get(&server, "/v1/flows/order-7").await;
    assert_eq!(flow.body["states"], json!({"available": 2, "blocked": 1}), "{flow:?}");
}

#[tokio::test]
async fn bad_graphs_are_refused_by_node_and_nothing_is_stored() {
    let server = start().await;
    let id = "019a8b2c-7d4e-7f01-8a23-456789abcdef";
    for (nodes, field) in [
        (json!({"a": {"kind": "k", "after": ["b"]}, "b": {"kind": "k", "after": ["a"]}}), "after"),
        (json!({"a": {"kind": "k"}, "b": {"kind": "k", "after": [id]}}), "after"),
        (json!({"a": {"kind": "k", "after": ["missing"]}}), "after"),
        (json!({"a": {"kind": "k"}, "b": {"kind": "no spaces"}}), "kind"),
    ] {
        let refused = post(&server, "/v1/flows", json!({"nodes": nodes})).await;
        assert_eq!(refused.status, 422, "{refused:?}");
        let named = refused.body["field"].as_str().unwrap();
        assert!(named.starts_with("nodes.") && named.ends_with(field), "{refused:?}");
    }
    let none = get(&server, "/v1/jobs").await;
    assert_eq!(none.body["jobs"], json!([]));
    let single = post(&server, "/v1/jobs", json!({"kind": "k", "after": ["a"]})).await;
    assert_problem(&single, 422, "after");
}

#[tokio::test]
async fn a_signal_wakes_a_job_which_learns_what_it_says() {
    let server = start().await;
    let id = post(&server, "/v1/jobs", json!({"kind": "order"})).await.body["id"].clone();
    let path = format!("/v1/jobs/{}/signal", id.as_str().expect("an id"));
    let wait =
        json!({"outcome": "wait", "signals": ["approved", "rejected"], "timeout_ms": 60_000});
    settle_next(&server, wait).await;
    let why = get(&server, &format!("/v1/jobs/{}/why", id.as_str().expect("an id"))).await;
    assert_eq!(why.body["causes"][0]["signals"], json!(["approved", "rejected"]), "{why:?}");
    let signal = json!({"name": "approved", "payload": {"by": "eve", "n": 1.50}, "id": "a-1"});
    let sent = post(&server, &path, signal.clone()).await;
    assert_eq!((sent.status, &sent.body["state"]), (200, &json!("available")), "{sent:?}");
    let claim = json!({"queues": ["default"], "limit": 1, "lease_ms": 30_000});
    let job = post(&server, "/v1/claim", claim).await.body["jobs"][0].clone();
    let update = json!({"id": job["id"], "lease": job["lease"], "recall": true});
    let updated = post(&server, "/v1/update", json!({"items": [update]})).await;
    let wake = &updated.body["items"][0]["continuation"]["wake"];
    assert_eq!(*wake, json!({"signal": signal}), "{updated:?}");

    let unnamed = post(&server, &path, json!({"payload": 1})).await;
    assert_problem(&unnamed, 422, "name");
    let bad = post(&server, &path, json!({"name": "two words"})).await;
    assert_problem(&bad, 422, "signal.name");
    let change = |item: serde_json::Value| json!({"items": [item]});
    let unnamed = change(json!({"id": id, "change": "signal"}));
    let refused = post(&server, "/v1/jobs/change", unnamed).await;
    assert_eq!(refused.body["items"][0]["field"], "signal", "{refused:?}");
    let through = change(json!({"id": id, "change": "signal", "signal": {"name": "x"}}));
    let done = post(&server, "/v1/jobs/change", through).await;
    assert_eq!(done.body["items"][0]["ok"], true, "{done:?}");
}

#[tokio::test]
async fn a_job_waits_for_its_children_and_reads_their_results() {
    let server = start().await;
    let id =
        post(&server, "/v1/jobs", json!({"kind": "album", "flow": "f"})).await.body["id"].clone();
    let page = |name: &str| json!({"kind": name, "joins": {"name": name}});
    let wait = json!({"outcome": "wait_for_jobs", "follow_ups": [page("one"), page("two")]});
    settle_next(&server, wait).await;
    let flow = get(&server, "/v1/flows/f").await;
    assert_eq!(flow.body["states"], json!({"available": 2, "blocked": 1}), "{flow:?}");
    for result in [1, 2] {
        settle_next(&server, json!({"outcome": "complete", "result": result})).await;
    }
    let parent = get(&server, &format!("/v1/jobs/{}", id.as_str().expect("an id"))).await;
    assert_eq!(parent.body["state"], "available", "{parent:?}");
    assert_eq!(parent.body["after"][1]["result"], json!(2), "{parent:?}");
    assert_eq!(parent.body["after"][0]["name"], "one", "{parent:?}");
}
