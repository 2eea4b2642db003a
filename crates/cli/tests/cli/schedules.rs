//! `windlass schedules`.

use crate::support::{Store, until};

#[test]
fn a_schedule_fires_while_a_worker_is_there() {
    let store = Store::new();
    store.run(&["schedules", "add", "tick", "x", "[1]", "--every", "1s", "--queue", "q"]).ok();
    let fired = store.path("fired");
    let exec = format!("x=cat >> {}", fired.display());
    let worker = store.start_work(&["--queue", "q", "--exec", &exec]);
    until("it fired", || std::fs::read_to_string(&fired).is_ok_and(|text| text.contains("[1]")));
    worker.drain().ok();
    let listed = store.json(&["schedules", "list"]);
    let listed = &listed["schedules"];
    assert_eq!(listed[0]["name"], "tick");
    assert!(listed[0]["fired"].as_u64().unwrap() >= 1, "{listed}");
}

#[test]
fn a_schedule_after_completion_runs_one_job_after_the_other() {
    let store = Store::new();
    let add = ["schedules", "add", "sync", "x", "--after-completion", "1s", "--queue", "q"];
    let table = store.run(&add).ok();
    assert!(table.contains("1 s after completion"), "{table}");
    let ran = store.path("ran");
    // Each run takes longer than the pause: runs that overlap would mix their lines.
    let exec = format!("x=echo begin >> {0}; sleep 2; echo end >> {0}", ran.display());
    let worker = store.start_work(&["--queue", "q", "--exec", &exec]);
    let text = || std::fs::read_to_string(&ran).unwrap_or_default();
    until("it ran twice", || text().matches("end").count() >= 2);
    worker.drain().ok();
    assert!(text().starts_with("begin\nend\nbegin\nend\n"), "{}", text());
}

#[test]
fn a_schedule_is_paused_resumed_triggered_and_removed() {
    let store = Store::new();
    let cron = ["schedules", "add", "daily", "x", "--cron", "0 6 * * *", "--zone", "Europe/Berlin"];
    let table = store.run(&cron).ok();
    assert!(table.contains("0 6 * * * (Europe/Berlin)") && table.contains("in "), "{table}");
    assert!(store.run(&["schedules", "pause", "daily"]).ok().contains("paused"));
    let id = store.run(&["schedules", "trigger", "daily"]).ok();
    assert_eq!(store.job(id.trim())["kind"], "x");
    assert_eq!(store.json(&["schedules", "resume", "daily"])["paused"], false);
    let shown = store.json(&["schedules", "show", "daily"]);
    assert_eq!(
        (&shown["schedule"]["zone"], &shown["job"]["kind"]),
        (&"Europe/Berlin".into(), &"x".into())
    );
    assert!(store.run(&["schedules", "show", "daily"]).ok().contains(r#"{"kind":"x"}"#));
    store.run(&["schedules", "remove", "daily"]).ok();
    assert_eq!(store.json(&["schedules", "list"]), serde_json::json!({"schedules": []}));
}

#[test]
fn invalid_schedules_are_refused_by_field() {
    let store = Store::new();
    store.enqueue(&["x"]);
    let refused = |arguments: &[&str], code, parts: &[&str]| {
        store.run(&[&["schedules"], arguments].concat()).refused(code, parts);
    };
    refused(&["add", "s", "x", "--cron", "61 * * * *"], 1, &["61 * * * *"]);
    refused(&["add", "s", "x", "--cron", "@daily", "--zone", "Moon/Crater"], 1, &["Moon/Crater"]);
    refused(&["add", "s", "x", "--every", "1ms"], 1, &["every_ms"]);
    refused(&["add", "s", "x", "--after-completion", "1ms"], 1, &["after_completion_ms"]);
    let both = ["add", "s", "x", "--cron", "@daily", "--after-completion", "5m"];
    refused(&both, 2, &["--after-completion", "--cron"]);
    let missed = ["add", "s", "x", "--after-completion", "5m", "--missed", "all"];
    refused(&missed, 1, &["schedule.missed", "leave it out"]);
    refused(&["add", "s", "x"], 2, &["--cron"]);
    refused(&["pause", "missing"], 1, &["missing", "does not exist"]);
    refused(&["remove", "missing"], 1, &["missing", "schedules list"]);
}
