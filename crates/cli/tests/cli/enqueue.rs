//! `windlass enqueue`.

use crate::support::Store;
use serde_json::{Value, json};

#[test]
fn an_enqueued_job_is_there_with_all_that_was_said() {
    let store = Store::new();
    let id = store.enqueue(&[
        "send_email",
        r#"{"to":"ada"}"#,
        "--queue",
        "mail",
        "--priority",
        "-5",
        "--key",
        "ada",
        "--tenant",
        "acme",
        "--tag",
        "a",
        "--tag",
        "b",
        "--max-attempts",
        "9",
        "--timeout",
        "90s",
        "--backoff",
        "5s",
        "--max-wait",
        "1h",
        "--unique",
        "welcome:ada",
        "--delay",
        "10m",
    ]);
    let job = store.job(&id);
    assert_eq!(job["payload"], json!({ "to": "ada" }));
    for (field, value) in [
        ("kind", json!("send_email")),
        ("queue", json!("mail")),
        ("priority", json!(-5)),
        ("key", json!("ada")),
        ("tenant", json!("acme")),
        ("tags", json!(["a", "b"])),
        ("state", json!("scheduled")),
    ] {
        assert_eq!(job[field], value, "{field} of {job}");
    }
    let policy = &job;
    assert_eq!(policy["max_attempts"], 9);
    assert_eq!(policy["timeout_ms"], 90_000);
    assert_eq!(policy["max_wait_ms"], 3_600_000);
    assert_eq!(policy["backoff"]["fixed"]["delay_ms"], 5_000);
    assert_eq!(job["unique"]["key"], "welcome:ada");
}

#[test]
fn a_payload_comes_from_the_line_stdin_or_a_file() {
    let store = Store::new();
    std::fs::write(store.path("payload.json"), "[2]").unwrap();
    let line = store.enqueue(&["x", "[1]"]);
    let file = store.enqueue(&["x", "@payload.json"]);
    let stdin = store.run_with(&["enqueue", "x", "-"], "[3]").ok();
    let payloads = [&line, &file, stdin.trim()].map(|id| store.job(id)["payload"].clone());
    assert_eq!(payloads, [json!([1]), json!([2]), json!([3])]);
    let raw = store.enqueue(&["x", "not json", "--raw"]);
    assert_eq!(store.job(&raw)["payload_text"], "not json");
    // A mistyped flag is not a payload.
    store.run(&["enqueue", "x", "--raw", "--delya=10m"]).refused(2, &["--delya", "--delay"]);
    assert_eq!(store.job(&store.enqueue(&["x", "-7"]))["payload"], -7);
}

#[test]
fn a_unique_job_is_answered_with_the_one_that_is_there() {
    let store = Store::new();
    let first = store.enqueue(&["x", "--unique", "k"]);
    let second = store.json(&["enqueue", "x", "--unique", "k"]);
    assert_eq!(second["id"], first.as_str());
    assert_eq!(second["disposition"], "existing");
    let third = store.json(&["enqueue", "x", "--unique", "k", "--replace"]);
    assert_eq!((&third["disposition"], &third["replaced"]), (&json!("replaced"), &json!(first)));
    let words = store.run(&["enqueue", "x", "--unique", "k"]);
    assert!(words.stderr.contains("exists already"), "{words:?}");
}

#[test]
fn invalid_options_are_reported_with_their_value_and_a_way_out() {
    let store = Store::new();
    let refused = |arguments: &[&str], code, parts: &[&str]| {
        store.run(arguments).refused(code, parts);
    };
    refused(&["enqueue", "x", "{bad"], 1, &["payload", "{bad", "--raw"]);
    refused(&["enqueue", "x", "@nowhere.json"], 1, &["nowhere.json"]);
    refused(&["enqueue", "send email"], 1, &["kind", "send email", "letters"]);
    refused(&["enqueue", "x", "--delay", "soon"], 2, &["--delay", "soon", "1h30m"]);
    refused(&["enqueue", "x", "--max-attempts", "0"], 1, &["max_attempts", "at least one"]);
    refused(&["enqueue"], 2, &["KIND"]);
    refused(&["enqueue", "x", "--store", "sqs://q"], 3, &["--store", "sqs", "file:DIR"]);
    let error = store.run(&["enqueue", "send email", "--json"]).refused(1, &[]);
    let error: Value = serde_json::from_str(&error).unwrap();
    assert_eq!(error["error"]["code"], "invalid");
}

#[test]
fn lines_become_jobs_and_bad_ones_are_named_by_number() {
    let store = Store::new();
    let lines = [
        r#"{"payload":{"n":1},"priority":-3}"#,
        r#"{"kind":"other","tags":["t"],"unique":{"key":"k"},"delay_ms":60000}"#,
        "",
        r#"{"kindd":"x"}"#,
        "not json",
        r#"{"kind":"no good"}"#,
        r#"{"queue":"elsewhere"}"#,
    ];
    let ran = store.run_with(&["enqueue", "x", "--ndjson", "-", "--queue", "q"], &lines.join("\n"));
    let ids: Vec<_> = ran.stdout.lines().map(str::to_owned).collect();
    assert_eq!(ids.len(), 3, "{ran:?}");
    let stderr = ran.refused(4, &["line 4: ", "kindd", "line 5: ", "line 6: ", "no good"]);
    assert!(stderr.contains("3 jobs enqueued, 3 lines refused"), "{stderr}");
    let jobs: Vec<_> = ids.iter().map(|id| store.job(id)).collect();
    let said =
        jobs.iter().map(|job| (job["kind"].as_str().unwrap(), job["queue"].as_str().unwrap()));
    assert_eq!(said.collect::<Vec<_>>(), [("x", "q"), ("other", "q"), ("x", "elsewhere")]);
    assert_eq!((&jobs[0]["priority"], &jobs[1]["state"]), (&json!(-3), &json!("scheduled")));
}

#[test]
fn thousands_of_lines_are_all_stored_and_an_earlier_run_can_be_continued() {
    let store = Store::new();
    let lines: String = (0..2_500).map(|n| format!("{{\"payload\":{n}}}\n")).collect();
    std::fs::write(store.path("jobs.ndjson"), lines).unwrap();
    let ids = store.run(&["enqueue", "x", "--ndjson", "jobs.ndjson"]).ok();
    assert_eq!(ids.lines().count(), 2_500);
    let rest = store.run(&["enqueue", "y", "--ndjson", "jobs.ndjson", "--skip", "2490"]).ok();
    let rest: Vec<_> = rest.lines().collect();
    assert_eq!(rest.len(), 10);
    assert_eq!(store.job(rest[0])["payload"], 2_490);
    let kinds = store.json(&["kinds"]);
    let depths: Vec<_> =
        kinds["kinds"].as_array().unwrap().iter().map(|kind| &kind["counts"]["depth"]).collect();
    assert_eq!(depths, [2_500, 10]);
}

#[test]
fn lines_are_answered_in_json_by_number() {
    let store = Store::new();
    let ran = store.run_with(&["enqueue", "--ndjson", "-", "--json"], "{\"kind\":\"x\"}\n{}\n");
    assert_eq!(ran.code, 4, "{ran:?}");
    let answers: Vec<Value> =
        ran.stdout.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!((&answers[0]["line"], &answers[0]["disposition"]), (&json!(1), &json!("created")));
    assert_eq!(answers[1]["line"], 2);
    assert!(answers[1]["error"].as_str().unwrap().contains("kind is missing"), "{answers:?}");
}

#[test]
fn lines_are_enqueued_at_the_given_rate() {
    let store = Store::new();
    let lines = "{\"kind\":\"x\"}\n".repeat(1_203);
    let paced = ["enqueue", "--ndjson", "-", "--delay", "1h", "--per-second", "2"];
    let ids = store.run_with(&paced, &lines).ok();
    let due = |id: &str| {
        let at = store.job(id)["run_at"].as_str().unwrap().to_owned();
        chrono::DateTime::parse_from_rfc3339(&at).unwrap().timestamp_millis()
    };
    let ids: Vec<_> = ids.lines().collect();
    let due = [1, 2, 3, 1_202].map(|place| due(ids[place]));
    // The last one came with another call, which keeps the pace of the first.
    assert_eq!(due.map(|at| at - due[0]), [0, 500, 1_000, 600_500]);
    for bad in ["0", "1000001", "few"] {
        let paced = ["enqueue", "--ndjson", "-", "--per-second", bad];
        store.run_with(&paced, "").refused(2, &["--per-second", bad]);
    }
    store.run(&["enqueue", "x", "--per-second", "2"]).refused(2, &["--ndjson"]);
}
