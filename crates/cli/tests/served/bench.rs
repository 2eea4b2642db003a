//! `windlass bench` over HTTP: on a running server, and beside the engine in one process.

use crate::serving::Serving;
use serde_json::Value;
use std::process::Command;

fn bench(arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    let output =
        command.arg("bench").args(arguments).args(["--profile", "tiny", "--json"]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn names(rows: &Value) -> Vec<&str> {
    rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect()
}

#[test]
fn a_server_is_measured_beside_the_engine_in_one_process_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file:{}", dir.path().display());
    let only = ["--only", "W1c64,W2,W3,idle2000", "--no-baselines"];
    let rows = bench(&[&[url.as_str(), "--over-http"], &only[..]].concat());
    let expected = ["W1c64", "W1c64@http", "W2", "W2@http", "W3", "W3@http", "idle2000@http"];
    assert_eq!(names(&rows), expected);
    for row in rows.as_array().unwrap().iter().filter(|row| {
        row["name"].as_str().is_some_and(|name| name.starts_with('W') && name.ends_with("@http"))
    }) {
        assert!(row["ratio_to_inside"].as_f64().unwrap() > 0.0, "{row}");
    }
    let idle = &rows[6];
    assert!(idle["rss_mb"].as_f64().unwrap() > 1.0 && idle["cpu_percent"].is_f64(), "{idle}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_running_server_is_measured_and_left_with_no_job_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let server = Serving::start(dir.path());
    let rows = bench(&[&server.url(), "--only", "W1c64,W2,W3,W4,idle2000"]);
    assert_eq!(names(&rows), ["W1c64", "W2", "W3", "W4", "idle2000"]);
    assert!(rows[0]["jobs_per_s"].as_f64().unwrap() > 0.0, "{rows}");
    let cost = (&rows[0]["cpu_s"], &rows[0]["rss_mb"]);
    assert_eq!(cost, (&Value::Null, &Value::Null), "it does not know the server's process");
    let waiting = server.request("GET", "/v1/jobs?state=available", "");
    assert!(waiting.contains(r#""jobs":[]"#), "{waiting}");
}
