//! Batches that are spread over time.

use crate::support::{assert_problem, get, millis, post, start};
use serde_json::{Value, json};
use windlass_server::ServerHandle;

/// When each job of a batch is due, relative to its enqueue.
async fn delays(server: &ServerHandle, batch: Value) -> Vec<i64> {
    let answer = post(server, "/v1/jobs/batch", batch).await;
    let items = answer.body["items"].as_array().unwrap_or_else(|| panic!("{answer:?}"));
    let ids: Vec<_> = items.iter().map(|item| &item["id"]).collect();
    let jobs = post(server, "/v1/jobs/get", json!({"ids": ids})).await.body;
    let jobs = jobs["jobs"].as_array().expect("the jobs");
    let time = |job: &Value, field: &str| millis(&job[field]);
    let start = time(&jobs[0], "created_at");
    jobs.iter().map(|job| time(job, "run_at") - start).collect()
}

/// Compares times that are measured from shortly before the enqueue.
fn assert_about(times: &[i64], expected: &[i64]) {
    let late = |(time, expected): (&i64, &i64)| expected - time;
    let late: Vec<i64> = times.iter().zip(expected).map(late).collect();
    let same = late[1..].iter().all(|ms| *ms == late[1]);
    assert!(times.len() == expected.len() && same, "{times:?} instead of {expected:?}");
    assert!((0..10_000).contains(&late[1]), "{times:?} instead of {expected:?}");
}

#[tokio::test]
async fn the_jobs_of_a_paced_batch_fall_due_at_its_rate() {
    let server = start().await;
    let jobs = vec![json!({"kind": "k"}); 5];
    let batch = json!({"jobs": jobs, "pace": {"per_second": 2}});
    let times = delays(&server, batch).await;
    assert_about(&times, &[0, 500, 1_000, 1_500, 2_000]);
    let stats = get(&server, "/v1/queues/default").await.body;
    let counts = &stats["counts"];
    assert!(counts["scheduled"].as_u64().unwrap() >= 2, "they wait: {counts}");
}

#[tokio::test]
async fn a_delay_of_a_jobs_own_comes_before_its_turn() {
    let server = start().await;
    let jobs = vec![json!({"kind": "k", "delay_ms": 60_000}); 3];
    let times = delays(&server, json!({"jobs": jobs, "pace": {"per_second": 1}})).await;
    assert_about(&times, &[60_000, 61_000, 62_000]);
    // A time in the past counts as now, or all jobs would be due at once.
    let jobs = vec![json!({"kind": "k", "run_at": 1}); 3];
    let times = delays(&server, json!({"jobs": jobs, "pace": {"per_second": 1}})).await;
    assert_about(&times, &[0, 1_000, 2_000]);
}

#[tokio::test]
async fn a_paced_batch_that_is_repeated_is_the_same_batch() {
    let server = start().await;
    let now = get(&server, "/v1/health").await;
    let now: u64 = now.header("windlass-now").unwrap().parse().unwrap();
    let id = |n: u64| {
        let ms = format!("{now:012x}");
        format!("{}-{}-7000-8000-{n:012x}", &ms[..8], &ms[8..])
    };
    let jobs: Vec<_> = (0..3).map(|n| json!({"kind": "k", "id": id(n)})).collect();
    let batch = json!({"jobs": jobs, "pace": {"per_second": 1}, "atomic": true});
    let dispositions = async |batch: Value| {
        let answer = post(&server, "/v1/jobs/batch", batch).await.body;
        let items = answer["items"].as_array().unwrap().clone();
        items
            .iter()
            .map(|item| item["disposition"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(dispositions(batch.clone()).await, ["created"; 3]);
    let before = get(&server, "/v1/jobs").await.body;
    assert_eq!(dispositions(batch).await, ["existing"; 3]);
    let after = get(&server, "/v1/jobs").await.body;
    let due = |page: &Value| -> Vec<Value> {
        page["jobs"].as_array().unwrap().iter().map(|job| job["run_at"].clone()).collect()
    };
    assert_eq!(due(&before), due(&after), "and nothing moved");
}

#[tokio::test]
async fn a_pace_that_makes_no_sense_is_refused_by_name_and_nothing_is_stored() {
    let server = start().await;
    for (pace, field) in [
        (json!({"per_second": 0}), "pace.per_second"),
        (json!({"per_second": 1_000_001}), "pace.per_second"),
        (json!({"per_second": -1}), "pace.per_second"),
        (json!({"per_second": 0.5}), "pace.per_second"),
        (json!({"per_second": "2"}), "pace.per_second"),
        (json!({}), "pace.per_second"),
        (json!({"per_minute": 5}), "pace.per_minute"),
        (json!(5), "pace"),
    ] {
        let batch = json!({"jobs": [{"kind": "k"}], "pace": pace});
        assert_problem(&post(&server, "/v1/jobs/batch", batch).await, 422, field);
    }
    assert_problem(&post(&server, "/v1/jobs", json!({"kind": "k", "pace": {}})).await, 422, "pace");
    assert_eq!(get(&server, "/v1/jobs").await.body["jobs"], json!([]));
}
