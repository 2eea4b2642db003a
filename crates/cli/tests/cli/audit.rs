//! Operator commands on a store without a server are audited.

use crate::support::Store;
use serde_json::Value;

#[test]
fn commands_on_a_store_without_a_server_are_in_its_audit_log() {
    let store = Store::new();
    let cancelled = store.enqueue(&["x"]);
    let dead = store.enqueue(&["x", "--max-attempts", "1"]);
    for command in [
        &["jobs", "cancel", &cancelled][..],
        &["work", "--until-empty", "--exec", "x=exit 65"],
        &["dead", "replay", &dead],
        &["work", "--until-empty", "--exec", "x=exit 65"],
        &["dead", "discard", &dead],
        &["queues", "pause", "mail"],
        &["queues", "set", "mail", "--max-depth", "7"],
        &["kinds", "pause", "x"],
        &["schedules", "add", "nightly", "x", "--every", "1h"],
        &["schedules", "trigger", "nightly"],
        &["schedules", "remove", "nightly"],
        &["keys", "create", "--name", "ops", "--may", "admin"],
        &["check", "--repair"],
        // Looking is not an action.
        &["jobs", "list"],
        &["check"],
    ] {
        store.run(command).ok();
    }
    let log = store.json(&["audit"]);
    let rows = log["actions"].as_array().unwrap();
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let names: Vec<_> = rows.iter().rev().map(|row| text(row, "action")).collect();
    let expected = [
        "job.cancel",
        "job.replay",
        "job.discard",
        "queue.configure",
        "queue.configure",
        "kind.configure",
        "schedule.create",
        "schedule.trigger",
        "schedule.remove",
        "key.create",
        "store.repair",
    ];
    assert_eq!(names, expected, "{log:#}");
    assert_eq!(rows.last().unwrap()["targets"][0], cancelled.as_str(), "{log:#}");
    let host = |who: &str| who.strip_prefix("cli:").is_some_and(|who| who.contains('@'));
    assert!(rows.iter().all(|row| host(&text(row, "who"))), "{log:#}");
}
