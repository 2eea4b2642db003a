//! Queues and kinds: settings and statistics.

use crate::support::{assert_problem, call, claimed, dead, get, millis, post, start};
use serde_json::{Value, json};

#[tokio::test]
async fn a_queue_returns_its_settings_and_its_numbers() {
    let server = start().await;
    let job = |kind: &str| json!({"kind": kind, "queue": "mail"});
    dead(&server, job("a")).await;
    claimed(&server, job("a")).await;
    for kind in ["a", "b"] {
        assert_eq!(post(&server, "/v1/jobs", job(kind)).await.status, 201);
    }
    let later = json!({"kind": "b", "queue": "mail", "delay_ms": 3_600_000});
    post(&server, "/v1/jobs", later).await;
    let patched = call(&server, "PATCH", "/v1/queues/mail", json!({"max_depth": 10})).await;
    assert_eq!(patched.status, 200);

    let queue = get(&server, "/v1/queues/mail").await;
    assert_eq!((queue.status, &queue.body["name"]), (200, &json!("mail")));
    let counts = json!({"depth": 3, "scheduled": 1, "blocked": 0, "available": 2, "running": 1,
                        "paused": 0, "completed": 0, "dead": 1, "cancelled": 0, "expired": 0});
    assert_eq!(queue.body["counts"], counts);
    let settings = &queue.body["settings"];
    assert_eq!((&settings["max_depth"], &settings["paused"]), (&json!(10), &json!(false)));
    let (ready_at, age_ms) = (&queue.body["head_ready_at"], &queue.body["head_age_ms"]);
    let now: i64 = queue.header("windlass-now").unwrap().parse().unwrap();
    assert_eq!(millis(ready_at) + age_ms.as_i64().unwrap(), now);
    let lanes = queue.body["lanes"].as_array().unwrap();
    assert_eq!(lanes.len(), 2, "{lanes:?}");

    let kind = get(&server, "/v1/kinds/b").await;
    let counts = &kind.body["counts"];
    assert_eq!((&counts["depth"], &counts["running"]), (&json!(2), &json!(0)), "{kind:?}");
    assert_eq!(kind.body["settings"], json!({"paused": false, "permits": null}));
    assert_eq!(kind.body["lanes"][0]["queue"], "mail");
}

#[tokio::test]
async fn queues_with_jobs_or_settings_are_listed_by_name() {
    let server = start().await;
    for (queue, kind) in [("b", "x"), ("a", "y"), ("b", "y")] {
        post(&server, "/v1/jobs", json!({"kind": kind, "queue": queue})).await;
    }
    call(&server, "PATCH", "/v1/queues/c", json!({"paused": true})).await;
    call(&server, "PATCH", "/v1/kinds/z", json!({"permits": 3})).await;
    let reported = |list: &Value, fact: fn(&Value) -> &Value| -> Vec<(String, Value)> {
        let all = list.as_array().unwrap().iter();
        all.map(|it| (it["name"].as_str().unwrap().to_owned(), fact(it).clone())).collect()
    };
    let named = |facts: [(&str, Value); 3]| facts.map(|(name, fact)| (name.to_owned(), fact));
    let queues = get(&server, "/v1/queues").await.body;
    let depths = reported(&queues["queues"], |it| &it["counts"]["depth"]);
    assert_eq!(depths, named([("a", json!(1)), ("b", json!(2)), ("c", json!(0))]));
    let paused = reported(&queues["queues"], |it| &it["settings"]["paused"]);
    assert_eq!(paused, named([("a", json!(false)), ("b", json!(false)), ("c", json!(true))]));
    let kinds = get(&server, "/v1/kinds").await.body;
    let depths = reported(&kinds["kinds"], |it| &it["counts"]["depth"]);
    assert_eq!(depths, named([("x", json!(1)), ("y", json!(2)), ("z", json!(0))]));
}

#[tokio::test]
async fn a_paused_queue_gives_no_job_until_it_is_resumed() {
    let server = start().await;
    post(&server, "/v1/jobs", json!({"kind": "k", "queue": "q"})).await;
    for (path, gate) in [("/v1/queues/q", "queue_paused"), ("/v1/kinds/k", "kind_paused")] {
        call(&server, "PATCH", path, json!({"paused": true})).await;
        let shown = get(&server, path).await.body;
        assert_eq!(shown["settings"]["paused"], true);
        assert_eq!(shown["lanes"][0]["gate"], gate);
        let claim = json!({"queues": ["q"]});
        assert_eq!(post(&server, "/v1/claim", claim).await.body["jobs"], json!([]));
        call(&server, "PATCH", path, json!({"paused": false})).await;
        assert!(get(&server, path).await.body["lanes"][0].get("gate").is_none());
    }
    let claim = json!({"queues": ["q"]});
    assert_eq!(post(&server, "/v1/claim", claim).await.body["jobs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_unused_queue_has_zeros_and_the_defaults() {
    let server = start().await;
    let nothing = get(&server, "/v1/queues/a%2Fb").await;
    assert_eq!((nothing.status, &nothing.body["name"]), (200, &json!("a/b")));
    assert_eq!(nothing.body["counts"]["depth"], 0);
    assert_eq!(nothing.body["settings"]["paused"], false);
    assert!(nothing.body.get("head_age_ms").is_none());
    assert_eq!(get(&server, "/v1/queues").await.body, json!({"queues": []}));
    assert_eq!(get(&server, "/v1/kinds").await.body, json!({"kinds": []}));
}

#[tokio::test]
async fn a_bad_name_setting_or_method_is_refused() {
    let server = start().await;
    assert_problem(&get(&server, "/v1/queues/a%20b").await, 422, "queue");
    assert_problem(&get(&server, "/v1/kinds/a%20b").await, 422, "kind");
    let long = "x".repeat(129);
    assert_problem(&get(&server, &format!("/v1/queues/{long}")).await, 413, "queue");
    let patch = async |path: &str, body: Value| call(&server, "PATCH", path, body).await;
    for (body, field) in [
        (json!({"pause": true}), "pause"),
        (json!({"paused": "yes"}), "paused"),
        (json!({"max_depth": 0}), "max_depth"),
        (json!({"max_wait_ms": 0}), "max_wait_ms"),
        (json!({"order": "random"}), "order"),
        (json!({"order": {"ageing": {"quantum_ms": 5, "x": 1}}}), "order.ageing.x"),
        (json!({"retention": {"dead_ms": 5, "x": 1}}), "retention.x"),
    ] {
        assert_problem(&patch("/v1/queues/q", body).await, 422, field);
    }
    for path in
        ["/v1/queues?page=2", "/v1/queues/q?page=2", "/v1/kinds?page=2", "/v1/kinds/k?page=2"]
    {
        assert_problem(&get(&server, path).await, 422, "page");
    }
    assert_problem(&patch("/v1/kinds/k", json!({"permits": -1})).await, 422, "permits");
    assert_problem(&call(&server, "DELETE", "/v1/queues/q", json!({})).await, 405, "method");
    assert_problem(&post(&server, "/v1/queues", json!({})).await, 405, "method");
    assert_problem(&post(&server, "/v1/kinds", json!({})).await, 405, "method");
}
