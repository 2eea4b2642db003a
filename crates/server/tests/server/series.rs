//! Time series of queues.

use crate::support::*;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_core::Timestamp;
use windlass_core::random::Seeded;
use windlass_core::time::ManualClock;
use windlass_memory::MemoryEngine;

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// Waits until the points of `mail` satisfy a condition.
async fn points_where(
    server: &windlass_server::ServerHandle,
    what: &str,
    so: impl Fn(&[Value]) -> bool,
) -> Vec<Value> {
    let looking = async {
        loop {
            let answer = get(server, "/v1/series?queue=mail").await;
            assert_eq!(answer.status, 200, "{answer:?}");
            let points = answer.body["points"].as_array().expect("points").clone();
            if so(&points) {
                return points;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(DEADLINE, looking).await.unwrap_or_else(|_| panic!("never: {what}"))
}

#[tokio::test]
async fn jobs_of_all_servers_are_in_the_series_after_their_minute() {
    let clock = Arc::new(ManualClock::at(START));
    let engine = Arc::new(MemoryEngine::with(clock.clone(), Arc::new(Seeded::new(1))));
    let servers =
        [start_over(engine.clone(), options()).await, start_over(engine.clone(), options()).await];
    for server in &servers {
        let created = post(server, "/v1/jobs", json!({"kind": "k", "queue": "mail"})).await;
        assert_eq!(created.status, 201);
    }
    let (id, lease) = {
        let claimed = post(&servers[0], "/v1/claim", json!({"queues": ["mail"]})).await;
        (claimed.body["jobs"][0]["id"].clone(), claimed.body["jobs"][0]["lease"].clone())
    };
    clock.advance(4_000);
    let item = json!({"id": id, "lease": lease, "outcome": "complete"});
    post(&servers[0], "/v1/settle", json!({"items": [item]})).await;
    assert!(get(&servers[0], "/v1/series").await.body["points"].as_array().unwrap().is_empty());

    clock.advance(60_000);
    let points = points_where(&servers[1], "both servers wrote their minute", |points| {
        points.first().is_some_and(|point| point["enqueued"] == 2 && point["completed"] == 1)
    })
    .await;
    assert_eq!(points[0]["at"], START.to_string());
    assert_eq!((&points[0]["started"], &points[0]["run_ms"]), (&json!(1), &json!(4_000)));
    let overview = get(&servers[1], "/").await;
    let page = String::from_utf8(overview.bytes).unwrap();
    let flow = page.split("<span>completed</span>").nth(1).expect("the flow");
    let drawn = flow.split("</div>").next().unwrap();
    assert!(drawn.contains("L59 1.0"), "the other server's job is drawn: {drawn}");

    assert_problem(&get(&servers[0], "/v1/series?step_ms=1").await, 422, "step_ms");
}
