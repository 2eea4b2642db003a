//! Schedules over HTTP: created, read, paused, triggered and deleted; and their jobs are enqueued
//! when due.

use crate::support::{
    assert_code, assert_problem, call, get, ids, json_request, millis, post, send, start,
};
use serde_json::{Value, json};
use std::time::Duration;

const REPORT: &str = "/v1/schedules/report";

fn daily() -> Value {
    json!({"schedule": {"cron": "0 6 * * *", "zone": "Europe/Berlin", "missed": "skip"},
           "job": {"kind": "send_report", "queue": "mail", "payload": {"to": "ada"}}})
}

#[tokio::test]
async fn a_schedule_is_put_shown_listed_replaced_and_removed() {
    let server = start().await;
    let put = call(&server, "PUT", REPORT, daily()).await;
    assert_eq!(put.status, 200, "{put:?}");
    let now: i64 = put.header("windlass-now").unwrap().parse().unwrap();
    assert!(millis(&put.body["next"]) > now);
    assert_eq!((&put.body["name"], &put.body["paused"]), (&json!("report"), &json!(false)));
    assert_eq!(put.body["schedule"], daily()["schedule"]);
    assert_eq!(put.body["job"], daily()["job"]);
    assert_eq!(get(&server, REPORT).await.body, put.body);

    let sweep = json!({"schedule": {"every_ms": 900_000}, "job": {"kind": "sweep"}});
    assert_eq!(call(&server, "PUT", "/v1/schedules/a%2Fsweep", sweep.clone()).await.status, 200);
    let first = get(&server, "/v1/schedules?limit=1").await.body;
    assert_eq!(first["schedules"][0]["name"], "a/sweep");
    let after = first["next"].as_str().expect("there is another");
    let second = get(&server, &format!("/v1/schedules?after={after}")).await.body;
    assert_eq!(second["schedules"][0]["name"], "report");
    assert!(second.get("next").is_none(), "{second}");

    assert_eq!(call(&server, "PUT", REPORT, sweep).await.body["job"], json!({"kind": "sweep"}));
    assert_eq!(call(&server, "DELETE", REPORT, json!({})).await.status, 200);
    assert_code(&get(&server, REPORT).await, 404, "not_found");
    assert_eq!(get(&server, "/v1/schedules").await.body["schedules"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_paused_schedule_has_no_next_fire_until_it_is_resumed() {
    let server = start().await;
    call(&server, "PUT", REPORT, daily()).await;
    let paused = call(&server, "PATCH", REPORT, json!({"paused": true})).await;
    assert_eq!((paused.status, &paused.body["paused"]), (200, &json!(true)));
    assert!(paused.body.get("next").is_none());
    let again = call(&server, "PUT", REPORT, daily()).await;
    assert_eq!(again.body["paused"], true, "a new job is no reason to go on");
    let resumed = call(&server, "PATCH", REPORT, json!({"paused": false})).await;
    assert!(resumed.body["next"].is_string() && resumed.body["paused"] == false, "{resumed:?}");
}

#[tokio::test]
async fn a_trigger_enqueues_the_job_now_paused_or_not() {
    let server = start().await;
    let mut unique = daily();
    unique["job"]["unique"] = json!({"key": "report"});
    call(&server, "PUT", REPORT, unique).await;
    call(&server, "PATCH", REPORT, json!({"paused": true})).await;
    let trigger = "/v1/schedules/report/trigger";
    let first = post(&server, trigger, json!({})).await;
    let second = post(&server, trigger, json!({})).await;
    assert_eq!((first.status, second.status), (201, 200), "{first:?} {second:?}");
    assert_eq!(first.body["id"], second.body["id"], "it is unique");
    let claimed = post(&server, "/v1/claim", json!({"queues": ["mail"]})).await;
    let job = &claimed.body["jobs"][0];
    assert_eq!((&job["id"], &job["payload"]), (&first.body["id"], &json!({"to": "ada"})));
}

#[tokio::test]
async fn a_schedule_that_was_put_fires_by_itself() {
    let server = start().await;
    let every = json!({"schedule": {"every_ms": 1_000}, "job": {"kind": "tick", "queue": "ticks"}});
    call(&server, "PUT", "/v1/schedules/tick", every).await;
    let claim = json!({"queues": ["ticks"], "wait_ms": 30_000});
    let claimed = post(&server, "/v1/claim", claim).await;
    assert_eq!(claimed.body["jobs"][0]["kind"], "tick", "{claimed:?}");
    // The run is recorded after its job is enqueued.
    let fired = async {
        while get(&server, "/v1/schedules/tick").await.body["fired"] == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::support::DEADLINE, fired).await.expect("it is counted");
}

#[tokio::test]
async fn a_schedule_after_completion_awaits_the_end_of_its_job() {
    let server = start().await;
    let after = json!({"schedule": {"after_completion_ms": 1_000},
                       "job": {"kind": "tick", "queue": "ticks"}});
    let put = call(&server, "PUT", "/v1/schedules/tick", after.clone()).await;
    assert_eq!(put.body["schedule"], after["schedule"], "{put:?}");
    let claim = json!({"queues": ["ticks"], "wait_ms": 30_000});
    let first = post(&server, "/v1/claim", claim.clone()).await;
    let id = first.body["jobs"][0]["id"].clone();
    let awaits = async {
        loop {
            let schedule = get(&server, "/v1/schedules/tick").await.body;
            if schedule["awaits"] == id {
                return schedule;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waiting = tokio::time::timeout(crate::support::DEADLINE, awaits).await.expect("it waits");
    assert!(waiting.get("next").is_none(), "{waiting}");
    let report = json!({"items": [{"id": id, "lease": first.body["jobs"][0]["lease"],
                                   "outcome": "complete"}]});
    let settled = post(&server, "/v1/settle", report).await;
    assert_eq!(settled.status, 200, "{settled:?}");
    let second = post(&server, "/v1/claim", claim).await;
    assert_eq!(second.body["jobs"][0]["kind"], "tick", "{second:?}");
}

#[tokio::test]
async fn invalid_schedules_are_refused_by_field_and_not_stored() {
    let server = start().await;
    let job = json!({"kind": "k"});
    let hourly = json!({"cron": "@hourly"});
    let with_job = |job: Value| json!({"schedule": {"cron": "@hourly"}, "job": job});
    let with_schedule = |schedule: Value| json!({"schedule": schedule, "job": {"kind": "k"}});
    for (body, field) in [
        (json!({"job": job}), "schedule"),
        (json!({"schedule": hourly}), "job"),
        (json!({"schedule": hourly, "job": job, "paused": true}), "paused"),
        (with_schedule(json!({})), "schedule.cron"),
        (with_schedule(json!({"cron": "61 * * * *"})), "schedule.cron"),
        (with_schedule(json!({"cron": "@hourly", "zone": "Mars/Olympus"})), "schedule.zone"),
        (with_schedule(json!({"cron": "@hourly", "every_ms": 1_000})), "schedule.every_ms"),
        (with_schedule(json!({"every_ms": 5})), "schedule.every_ms"),
        (with_schedule(json!({"after_completion_ms": 5})), "schedule.after_completion_ms"),
        (
            with_schedule(json!({"cron": "@hourly", "after_completion_ms": 1_000})),
            "schedule.after_completion_ms",
        ),
        (with_schedule(json!({"after_completion_ms": 1_000, "missed": "all"})), "schedule.missed"),
        (with_schedule(json!({"every_ms": 1_000, "zone": "UTC"})), "schedule.zone"),
        (with_schedule(json!({"cron": "@hourly", "start": 9, "end": 5})), "schedule.end"),
        (with_schedule(json!({"cron": "@hourly", "limit": 0})), "schedule.limit"),
        (with_schedule(json!({"cron": "@hourly", "missed": "never"})), "schedule.missed"),
        (with_schedule(json!({"cron": "@hourly", "tz": "UTC"})), "schedule.tz"),
        (with_job(json!({"kind": "a b"})), "job.kind"),
        (with_job(json!({"kind": "k", "delay_ms": 5})), "job.delay_ms"),
        (with_job(json!({"kind": "k", "run_at": 5})), "job.run_at"),
        (with_job(json!({"kind": "k", "parts": {"blob": {"json": 1}}})), "job.parts.blob"),
        (with_job(json!({"kind": "k", "payload_base64": "?"})), "job.payload"),
        (with_job(json!({"kind": "k", "max_attempts": 0})), "job.max_attempts"),
        (with_job(json!({"kind": "k", "colour": "red"})), "job.colour"),
    ] {
        assert_problem(&call(&server, "PUT", REPORT, body).await, 422, field);
    }
    let large = with_job(json!({"kind": "k", "payload": "x".repeat(65_000)}));
    assert_problem(&call(&server, "PUT", REPORT, large).await, 413, "job.payload");
    let long = format!("/v1/schedules/{}", "n".repeat(125));
    assert_problem(&call(&server, "PUT", &long, daily()).await, 422, "name");
    assert_problem(&get(&server, "/v1/schedules/a%20b").await, 422, "name");
    for limit in ["0", "1001", "x"] {
        let page = get(&server, &format!("/v1/schedules?limit={limit}")).await;
        assert_problem(&page, 422, "limit");
    }
    assert_problem(&get(&server, "/v1/schedules?name=x").await, 422, "name");
    assert_eq!(get(&server, "/v1/schedules").await.body, json!({"schedules": []}));
}

#[tokio::test]
async fn a_schedule_that_is_not_there_answers_404_to_everything_but_a_put() {
    let server = start().await;
    assert_code(&get(&server, REPORT).await, 404, "not_found");
    assert_code(&call(&server, "DELETE", REPORT, json!({})).await, 404, "not_found");
    assert_code(&call(&server, "PATCH", REPORT, json!({"paused": true})).await, 404, "not_found");
    assert_code(&call(&server, "PATCH", REPORT, json!({"paused": false})).await, 404, "not_found");
    let trigger = "/v1/schedules/report/trigger";
    assert_code(&post(&server, trigger, json!({})).await, 404, "not_found");
    assert_problem(&post(&server, trigger, json!({"now": true})).await, 422, "now");
    assert_problem(&get(&server, trigger).await, 405, "method");
    assert_problem(&post(&server, "/v1/schedules", json!({})).await, 405, "method");
    assert_problem(&call(&server, "PATCH", REPORT, json!({})).await, 422, "paused");
    // Any page in a browser could send a request of this type.
    let request = json_request("POST", trigger, "{}").replace("application/json", "text/plain");
    assert_problem(&send(server.address(), &request).await, 415, "content-type");
    let jobs = get(&server, "/v1/jobs").await;
    assert!(ids(&jobs).is_empty());
}
