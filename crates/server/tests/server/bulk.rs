//! Changes of all jobs that match a filter, over HTTP.

use crate::support::{assert_problem, get, post, start};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn matching_jobs_are_counted_and_changed_by_the_services() {
    let server = start().await;
    let jobs: Vec<_> =
        (0..20).map(|n| json!({"kind": "k", "payload": {"customer": n % 4}})).collect();
    post(&server, "/v1/jobs/batch", json!({"jobs": jobs})).await;
    let filter = json!({"state": "available", "fields": {"payload.customer": "3"}});
    let done = async |body: Value| {
        let started = post(&server, "/v1/bulk", body).await;
        assert_eq!(started.status, 200, "{started:?}");
        let path = format!("/v1/bulk/{}", started.body["id"].as_str().unwrap());
        for _ in 0..500 {
            let shown = get(&server, &path).await;
            if shown.body["state"] == "done" {
                return shown.body;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{path} does not end")
    };
    let dry = done(json!({"filter": filter, "change": "cancel", "dry_run": true})).await;
    assert_eq!((&dry["total"], &dry["changed"]), (&json!(5), &json!(0)));
    let real = done(json!({"filter": filter, "change": "cancel"})).await;
    assert_eq!((&real["total"], &real["changed"]), (&json!(5), &json!(5)));
    assert_eq!(real["filter"], filter, "it is shown as it was given");
    let left = get(&server, "/v1/jobs?state=available").await;
    assert_eq!(left.body["jobs"].as_array().unwrap().len(), 15);
    let all = get(&server, "/v1/bulk").await;
    assert_eq!(all.body["bulks"].as_array().unwrap().len(), 2);
    let audit = get(&server, "/v1/audit?action=bulk.start").await;
    assert_eq!(audit.status, 200, "{audit:?}");
    assert!(audit.body.to_string().contains("payload.customer"), "{audit:?}");
}

#[tokio::test]
async fn an_operation_that_makes_no_sense_is_refused_by_field() {
    let server = start().await;
    for (body, field) in [
        (json!({"change": "cancel"}), "filter"),
        (json!({"filter": {}}), "change"),
        (json!({"filter": {}, "change": "explode"}), "change"),
        (json!({"filter": {"colour": "red"}, "change": "cancel"}), "filter.colour"),
        (json!({"filter": {"fields": {"customer": "1"}}, "change": "cancel"}), "filter.field"),
        (json!({"filter": {"text": ""}, "change": "cancel"}), "filter.text"),
        (json!({"filter": {}, "change": "move"}), "queue"),
        (json!({"filter": {}, "change": "cancel", "queue": "a"}), "queue"),
        (json!({"filter": {}, "change": "reprioritise"}), "priority"),
        (json!({"filter": {}, "change": "reschedule"}), "run_at"),
        (json!({"filter": {}, "change": "cancel", "start_over": true}), "start_over"),
        (json!({"filter": {}, "change": "cancel", "confirm": "x"}), "confirm"),
        (json!({"filter": {}, "change": "purge"}), "confirm"),
        (json!({"filter": {"queue": "a"}, "change": "purge", "confirm": "b"}), "confirm"),
    ] {
        let answer = post(&server, "/v1/bulk", body).await;
        assert_problem(&answer, 422, field);
    }
    let none = "/v1/bulk/0190a000-0000-7000-8000-000000000001";
    assert_eq!(get(&server, none).await.status, 404);
    assert_eq!(post(&server, &format!("{none}/cancel"), json!({})).await.status, 404);
}
