//! `/metrics` of a real server.

use crate::names;
use crate::serving::{Serving, serve};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// More queues than have labels of their own.
const QUEUES: usize = 1_050;
const LABELLED: usize = 1_000;
/// More groups than are listed for a limit.
const GROUPS: usize = 25;
const GROUPS_LISTED: usize = 20;

struct Metrics(String);

impl Metrics {
    fn of(server: &Serving) -> Self {
        let answer = server.request("GET", "/metrics", "");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        Self(answer)
    }

    /// The value of a series, written as Prometheus writes it.
    fn value(&self, series: &str) -> Option<f64> {
        let mut lines = self.0.lines().filter_map(|line| line.rsplit_once(' '));
        lines.find(|(name, _)| *name == series).map(|(_, value)| value.parse().unwrap())
    }

    fn count(&self, metric: &str) -> usize {
        let begin = format!("{metric}{{");
        self.0.lines().filter(|line| line.starts_with(&begin)).count()
    }

    fn names(&self) -> BTreeSet<String> {
        let types = self.0.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        types.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    }
}

fn post(server: &Serving, path: &str, body: &Value) -> Value {
    let answer = server.request("POST", path, &body.to_string());
    assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// Claims one job of `mail` and reports on it.
fn work(server: &Serving, outcome: &str) -> (Value, Value) {
    let claimed = post(server, "/v1/claim", &json!({"queues": ["mail"]}));
    let job = &claimed["jobs"][0];
    let error = (outcome == "fail").then(|| json!({"code": "e", "message": "m"}));
    let item = json!({"id": job["id"], "lease": job["lease"], "outcome": outcome, "error": error});
    let settled = post(server, "/v1/settle", &json!({"items": [item]}));
    (item, settled)
}

#[test]
fn calls_of_a_server_and_jobs_of_its_store_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let server = Serving::by(serve(dir.path(), "127.0.0.1:0").arg("--metrics-by-kind"));
    let job = json!({"kind": "welcome", "queue": "mail"});
    post(&server, "/v1/jobs/batch", &json!({"jobs": [job, job, job, job]}));
    let refused = server.request("POST", "/v1/jobs", r#"{"kind":"","queue":"mail"}"#);
    assert!(refused.starts_with("HTTP/1.1 4"), "{refused}");
    work(&server, "complete");
    let (failed, _) = work(&server, "fail");
    let mut stale = failed;
    stale["lease"] = json!("no such lease");
    post(&server, "/v1/settle", &json!({"items": [stale]}));
    post(&server, "/v1/claim", &json!({"queues": ["mail"]}));

    let metrics = Metrics::of(&server);
    let lane = r#"{queue="mail",kind="welcome"}"#;
    let expected = [
        ("windlass_jobs_enqueued_total", lane, 4.0),
        ("windlass_jobs_completed_total", lane, 1.0),
        ("windlass_jobs_failed_total", lane, 1.0),
        ("windlass_job_processing_seconds_count", lane, 2.0),
        ("windlass_lease_losses_total", r#"{queue="other",kind="other"}"#, 1.0),
        ("windlass_queue_depth", lane, 1.0),
        ("windlass_queue_running", lane, 1.0),
        ("windlass_queue_completed", lane, 1.0),
        ("windlass_queue_dead", lane, 1.0),
        ("windlass_queue_scheduled", lane, 0.0),
        ("windlass_queue_blocked", lane, 0.0),
        ("windlass_queue_paused", lane, 0.0),
        ("windlass_queue_next_due_timestamp_seconds", lane, 0.0),
        ("windlass_store_up", "", 1.0),
    ];
    for (name, labels, value) in expected {
        assert_eq!(
            metrics.value(&format!("{name}{labels}")),
            Some(value),
            "{name}:\n{}",
            metrics.0
        );
    }
    assert!(metrics.value("windlass_active_workers").unwrap() >= 1.0, "the claim's own session");
    let oldest = metrics.value(&format!("windlass_queue_oldest_seconds{lane}")).unwrap();
    assert!(oldest > 0.0, "{oldest}");
    let unknown: Vec<_> = metrics.names().difference(&names::in_guide()).cloned().collect();
    assert_eq!(unknown, [""; 0], "docs/guides/metrics.md does not list them");
}

#[test]
fn ready_jobs_are_exported_by_priority_if_requested() {
    let dir = tempfile::tempdir().unwrap();
    let server = Serving::by(serve(dir.path(), "127.0.0.1:0").arg("--metrics-by-priority"));
    let job =
        |kind: &str, priority: i32| json!({"kind": kind, "queue": "mail", "priority": priority});
    let made_up = (0..20).map(|n| json!({"kind": "k", "queue": "flood", "priority": n}));
    let jobs = [job("welcome", -5), job("invoice", 0), job("welcome", 0), job("welcome", 0)];
    let jobs: Vec<_> = jobs.into_iter().chain(made_up).collect();
    post(&server, "/v1/jobs/batch", &json!({"jobs": jobs}));
    work(&server, "complete");

    let metrics = Metrics::of(&server);
    let available = |queue: &str, priority: &str| {
        let labels = format!(r#"{{queue="{queue}",priority="{priority}"}}"#);
        metrics.value(&format!("windlass_queue_priority_available{labels}"))
    };
    assert_eq!(available("mail", "-5"), None, "it was completed before the scrape");
    assert_eq!(available("mail", "0"), Some(3.0), "{}", metrics.0);
    assert_eq!(available("flood", "7"), Some(1.0), "{}", metrics.0);
    assert_eq!(available("flood", "other"), Some(4.0), "the least urgent ones");
    let oldest = r#"windlass_queue_priority_oldest_seconds{queue="mail",priority="0"}"#;
    assert!(metrics.value(oldest).unwrap() > 0.0, "{}", metrics.0);
    let unknown: Vec<_> = metrics.names().difference(&names::in_guide()).cloned().collect();
    assert_eq!(unknown, [""; 0], "docs/guides/metrics.md does not list them");

    let dir = tempfile::tempdir().unwrap();
    let plain = Serving::start(dir.path());
    post(&plain, "/v1/jobs", &job("welcome", 0));
    assert_eq!(Metrics::of(&plain).count("windlass_queue_priority_available"), 0, "not requested");
}

#[test]
fn limits_show_their_jobs_and_tokens_and_a_bounded_number_of_groups() {
    let dir = tempfile::tempdir().unwrap();
    let server = Serving::start(dir.path());
    let put = |path: &str, method: &str, body: Value| {
        let answer = server.request(method, path, &body.to_string());
        assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
    };
    let window = json!({"window": {"max": 3, "per_ms": 3_600_000}});
    put("/v1/limits/api", "PUT", json!({"rate": window}));
    put("/v1/limits/share", "PUT", json!({"rate": window, "max_running": 1, "by_group": true}));
    put("/v1/queues/mail", "PATCH", json!({"limits": ["api", "share"]}));
    // Each group has two jobs, and one of them more.
    let job = |n: usize| json!({"kind": "k", "queue": "mail", "group": format!("g{n:02}")});
    let jobs: Vec<_> = (0..GROUPS * 2).map(|n| job(n % GROUPS)).chain([job(7)]).collect();
    post(&server, "/v1/jobs/batch", &json!({"jobs": jobs}));
    post(&server, "/v1/claim", &json!({"queues": ["mail"], "limit": 2}));

    let metrics = Metrics::of(&server);
    let value = |series: &str| metrics.value(&format!("windlass_limit_{series}"));
    let all = (GROUPS * 2 + 1) as f64;
    assert_eq!(value(r#"running{limit="api"}"#), Some(2.0), "{}", metrics.0);
    assert_eq!(value(r#"waiting{limit="api"}"#), Some(all - 2.0));
    assert_eq!(value(r#"tokens{limit="api"}"#), Some(1.0));
    assert_eq!(value(r#"running{limit="share"}"#), Some(2.0));
    assert_eq!(value(r#"tokens{limit="share"}"#), None, "each group has its own");
    assert_eq!(value(r#"group_waiting{limit="share",group="g07"}"#), Some(3.0));
    assert_eq!(value(r#"group_tokens{limit="share",group="g00"}"#), Some(2.0));
    assert_eq!(value(r#"group_running{limit="share",group="g00"}"#), Some(1.0));
    let other = (GROUPS - GROUPS_LISTED) as f64 * 2.0;
    assert_eq!(value(r#"group_waiting{limit="share",group="other"}"#), Some(other));
    assert_eq!(metrics.count("windlass_limit_group_waiting"), GROUPS_LISTED + 1);
}

#[test]
fn queues_beyond_the_bound_share_one_label() {
    let dir = tempfile::tempdir().unwrap();
    let server = Serving::start(dir.path());
    let jobs: Vec<_> =
        (0..QUEUES).map(|n| json!({"kind": "k", "queue": format!("q{n}")})).collect();
    post(&server, "/v1/jobs/batch", &json!({"jobs": jobs}));
    let metrics = Metrics::of(&server);
    for name in ["windlass_jobs_enqueued_total", "windlass_queue_depth"] {
        assert_eq!(metrics.count(name), LABELLED + 1, "{name}");
        let other = metrics.value(&format!(r#"{name}{{queue="other"}}"#));
        assert_eq!(other, Some((QUEUES - LABELLED) as f64), "{name}");
    }
}

#[test]
fn every_metric_is_documented_and_every_documented_metric_exists() {
    let (code, guide) = (names::in_code(), names::in_guide());
    assert!(code.len() > 30, "{code:?}");
    let missing: Vec<_> = code.difference(&guide).collect();
    assert_eq!(missing, [""; 0], "docs/guides/metrics.md does not list them");
    let gone: Vec<_> = guide.difference(&code).collect();
    assert_eq!(gone, [""; 0], "nothing emits them");
}
