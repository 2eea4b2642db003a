//! Backpressure: the server refuses jobs with a retry time, and keeps all jobs that it accepted.

use crate::support::{assert_code, call, get, options, post, start_over, start_with};
use serde_json::json;
use std::sync::Arc;
use windlass_memory::MemoryEngine;

#[tokio::test]
async fn the_servers_limit_holds_for_the_queues_behind_a_topic() {
    let server = start_with(options().depths(3, 5)).await;
    let behind = [
        json!({"name": "all", "queue": "all"}),
        json!({"name": "paid", "queue": "paid", "kinds": ["paid"]}),
    ];
    call(&server, "PATCH", "/v1/queues/orders", json!({"subscriptions": behind})).await;
    let job = |kind: &str| json!({"kind": kind, "queue": "orders"});
    for _ in 0..3 {
        assert_eq!(post(&server, "/v1/jobs", job("paid")).await.status, 201);
    }
    for _ in 0..2 {
        let full = post(&server, "/v1/jobs", job("viewed")).await;
        assert_code(&full, 429, "queue_full");
        assert_eq!((&full.body["queue"], &full.body["limit"]), (&json!("all"), &json!(3)));
    }
    let queues = get(&server, "/v1/queues").await.body;
    let depth = |at: usize| queues["queues"][at]["counts"]["depth"].clone();
    assert_eq!((depth(0), queues["queues"].as_array().unwrap().len()), (json!(3), 3), "{queues}");
}

#[tokio::test]
async fn a_queue_without_a_limit_of_its_own_has_the_servers() {
    let server = start_with(options().depths(3, 5)).await;
    let job = || json!({"kind": "k", "queue": "mail"});
    for _ in 0..3 {
        assert_eq!(post(&server, "/v1/jobs", job()).await.status, 201);
    }
    let full = post(&server, "/v1/jobs", job()).await;
    assert_code(&full, 429, "queue_full");
    let reported = (&full.body["queue"], &full.body["depth"], &full.body["limit"]);
    assert_eq!(reported, (&json!("mail"), &json!(3), &json!(3)), "{full:?}");
    let seconds: u64 = full.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{full:?}");
    assert!(full.body["retry_after_ms"].as_u64().unwrap() <= seconds * 1_000);
    // Other queues accept jobs, and each job of a batch has its own result.
    let jobs = json!([job(), {"kind": "k", "queue": "other"}]);
    let batch = post(&server, "/v1/jobs/batch", json!({"jobs": jobs})).await;
    assert_eq!(batch.body["items"][0]["code"], "queue_full", "{batch:?}");
    assert_eq!(batch.body["items"][1]["ok"], true);
    // A queue's own limit replaces the server's soft limit, up to the hard limit.
    call(&server, "PATCH", "/v1/queues/mail", json!({"max_depth": 100})).await;
    let soon = async {
        while post(&server, "/v1/jobs", job()).await.status == 429 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::support::DEADLINE, soon).await.expect("room by its own limit");
    assert_eq!(post(&server, "/v1/jobs", job()).await.status, 201);
    let hard = post(&server, "/v1/jobs", job()).await;
    assert_eq!((hard.status, &hard.body["limit"]), (429, &json!(5)), "{hard:?}");
}

#[tokio::test]
async fn jobs_that_left_make_room_again() {
    let server = start_with(options().depths(1, 1)).await;
    let job = || json!({"kind": "k"});
    assert_eq!(post(&server, "/v1/jobs", job()).await.status, 201);
    assert_eq!(post(&server, "/v1/jobs", job()).await.status, 429);
    let claimed = post(&server, "/v1/claim", json!({"queues": ["default"]})).await;
    assert_eq!(claimed.body["jobs"].as_array().map(Vec::len), Some(1), "{claimed:?}");
    let soon = async {
        while post(&server, "/v1/jobs", job()).await.status == 429 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::support::DEADLINE, soon).await.expect("room");
}

#[tokio::test]
async fn follow_ups_pass_a_full_queue() {
    let server = start_with(options().depths(1, 1)).await;
    let (id, lease) = crate::support::claimed(&server, json!({"kind": "parent"})).await;
    post(&server, "/v1/jobs", json!({"kind": "k"})).await;
    let follow_ups = json!([{"kind": "k"}, {"kind": "k"}]);
    let report = json!({"id": id, "lease": lease, "outcome": "complete", "follow_ups": follow_ups});
    let settled = post(&server, "/v1/settle", json!({"items": [report]})).await;
    assert_eq!(settled.body["items"][0]["ok"], true, "{settled:?}");
    let queue = get(&server, "/v1/queues/default").await;
    assert!(queue.body["counts"]["depth"].as_u64().unwrap() >= 2, "{queue:?}");
}

#[tokio::test]
async fn a_principal_over_its_rate_gets_a_retry_time() {
    let server = start_with(options().jobs_per_second(Some(2))).await;
    let job = json!({"kind": "k"});
    let batch = post(&server, "/v1/jobs/batch", json!({"jobs": [job, job]})).await;
    assert_eq!(batch.status, 200, "{batch:?}");
    let refused = post(&server, "/v1/jobs", job.clone()).await;
    assert_code(&refused, 429, "too_fast");
    assert_eq!((&refused.body["who"], &refused.body["limit"]), (&json!("127.0.0.1"), &json!(2)));
    assert_eq!(refused.header("retry-after"), Some("1"), "{refused:?}");
    let big = json!({"jobs": [job, job, job]});
    assert_code(&post(&server, "/v1/jobs/batch", big).await, 413, "too_large");
    assert_eq!(get(&server, "/v1/stats").await.status, 200, "looking is free");
}

#[tokio::test]
async fn a_second_server_sees_how_deep_the_first_has_made_a_queue() {
    let engine = Arc::new(MemoryEngine::new());
    let first = start_over(engine.clone(), options().depths(2, 2)).await;
    let second = start_over(engine, options().depths(2, 2)).await;
    for _ in 0..2 {
        assert_eq!(post(&first, "/v1/jobs", json!({"kind": "k"})).await.status, 201);
    }
    assert_eq!(post(&second, "/v1/jobs", json!({"kind": "k"})).await.status, 429);
}
