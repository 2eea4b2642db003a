//! How many workers a queue needs, over HTTP and by command.

use crate::serving::Serving;
use serde_json::{Value, json};
use std::process::Command;

fn json_of(answer: &str) -> Value {
    assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// The reply of a new server.
pub(crate) fn ask(path: &str) -> Value {
    let dir = tempfile::tempdir().unwrap();
    json_of(&Serving::start(dir.path()).request("GET", path, ""))
}

#[test]
fn a_queue_that_fills_wants_workers_and_a_paused_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let server = Serving::start(dir.path());
    let job = json!({"kind": "welcome", "queue": "mail"});
    let jobs = json!({"jobs": vec![job; 45]}).to_string();
    json_of(&server.request("POST", "/v1/jobs/batch", &jobs));
    let path = "/v1/scale?queue=mail&target_latency_ms=30000&per_worker=10&max=8";
    let answer = json_of(&server.request("GET", path, ""));
    assert_eq!(answer["available"], 45);
    assert!(answer["arrivals_per_second"].as_f64().unwrap() > 0.0, "{answer}");
    // How long a job takes is not known: as if 45 of 30 s were to be started within 30 s, and more to come.
    assert!((5..=8).contains(&answer["desired"].as_u64().unwrap()), "{answer}");

    let refused = server.request("GET", "/v1/scale?queue=mail&per_worker=0", "");
    assert!(refused.starts_with("HTTP/1.1 4") && refused.contains("per_worker"), "{refused}");

    json_of(&server.request("PATCH", "/v1/queues/mail", r#"{"paused":true}"#));
    let windlass = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["scale", "mail", "--per-worker", "10", "--json", "--store", &server.url()])
        .output()
        .unwrap();
    let answer: Value = serde_json::from_slice(&windlass.stdout).unwrap();
    assert_eq!((&answer["available"], &answer["desired"]), (&json!(0), &json!(0)), "{answer}");
}
