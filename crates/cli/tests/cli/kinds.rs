//! `windlass kinds register`, sensitive kinds, and settings of retention.

use crate::support::Store;
use serde_json::json;

#[test]
fn a_kind_is_registered_shown_and_forgotten() {
    let store = Store::new();
    let schema = store.path("schema.json");
    std::fs::write(&schema, r#"{"type": "object", "required": ["to"]}"#).unwrap();
    let file = format!("@{}", schema.display());
    let arguments =
        ["--schema", &file, "--payload-max", "4K", "--breaker", "--breaker-errors", "50"];
    store.run(&[&["kinds", "register", "send"], &arguments[..]].concat()).ok();
    let shown = store.json(&["kinds", "show", "send"]);
    assert_eq!(shown["rules"]["schema"]["required"], json!(["to"]), "{shown}");
    assert_eq!(shown["rules"]["payload_bytes_max"], 4096);
    assert_eq!(shown["rules"]["breaker"]["error_rate_percent"], 50);
    assert_eq!(store.json(&["kinds"])["kinds"][0]["registered"], true);
    let bad = store.run(&["kinds", "register", "send", "--schema", r#"{"type": "strin"}"#]);
    bad.refused(1, &["schema", "type"]);
    store.run(&["kinds", "register", "send", "--breaker-errors", "50"]).refused(2, &["--breaker"]);
    store.run(&["kinds", "unregister", "send"]).ok();
    store.run(&["kinds", "show", "send"]).refused(1, &["send", "not registered"]);
}

#[test]
fn a_kind_is_registered_with_backoff_and_priorities() {
    let store = Store::new();
    let rules = ["--backoff", "10s..10m~5s", "--priority-min", "-3", "--priority-max", "3"];
    store.run(&[&["kinds", "register", "send"], &rules[..]].concat()).ok();
    let shown = store.json(&["kinds", "show", "send"])["rules"].clone();
    let backoff = json!({"base_ms": 10_000, "cap_ms": 600_000, "jitter_ms": 5_000});
    assert_eq!(shown["backoff"], json!({ "exponential": backoff }), "{shown}");
    assert_eq!(shown["priority"], json!({"min": -3, "max": 3, "default": 0}));
    let bad = store.run(&["kinds", "register", "send", "--priority-min", "1"]);
    bad.refused(1, &["priority.default", "1 to 2147483647"]);
    store.run(&["kinds", "register", "send", "--backoff", "soon"]).refused(2, &["10s..1h"]);
}

#[test]
fn completed_jobs_of_a_kind_are_checked_and_failed_checks_are_listed_with_it() {
    let store = Store::new();
    let rules = ["--check-kind", "verify", "--check-sample", "100%", "--check-queue", "checks"];
    store.run(&[&["kinds", "register", "send"], &rules[..]].concat()).ok();
    let shown = store.json(&["kinds", "show", "send"])["rules"]["check"].clone();
    assert_eq!(shown, json!({"kind": "verify", "queue": "checks", "sample_per_mille": 1_000}));
    let id = store.enqueue(&["send", "[7]"]);
    store.work(&["--exec", "send=echo 8"]);
    // The payload of the job is that of the check.
    store.work(&["--queue", "checks", "--exec", "verify=grep -q 8 || exit 65"]);
    let kinds = store.json(&["kinds"]);
    let send =
        kinds["kinds"].as_array().unwrap().iter().find(|kind| kind["name"] == "send").unwrap();
    let checks = json!({"kind": "verify", "sample_per_mille": 1_000, "pending": 0, "failed": 1});
    assert_eq!(send["checks"], checks, "{kinds}");
    assert!(store.run(&["kinds"]).ok().contains("checked by verify (1 failed)"));
    let failed = store.json(&["dead", "list"])["jobs"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(store.job(&failed)["parent"], json!(id));

    let refused = |arguments: &[&str], code, part: &str| {
        store.run(&[&["kinds", "register", "send"], arguments].concat()).refused(code, &[part]);
    };
    refused(&["--check-sample", "10%"], 2, "--check-kind");
    refused(&["--check-kind", "verify", "--check-sample", "10"], 2, "in percent");
    refused(&["--check-kind", "send"], 1, "cannot check itself");
    refused(&["--check-kind", "a b"], 1, "check.kind");
}

#[test]
fn a_sensitive_dead_letter_is_replayed_only_with_its_kind_named() {
    let store = Store::new();
    let id = store.enqueue(&["charge", "1"]);
    store.work(&["--exec", "charge=exit 65"]);
    store.run(&["kinds", "register", "charge", "--sensitive"]).ok();
    store.run(&["dead", "replay", &id]).refused(1, &["confirm", "charge"]);
    store.run(&["jobs", "retry", &id]).refused(1, &["confirm", "charge"]);
    store.run(&["dead", "replay", "--all", "--yes"]).refused(1, &["confirm", "charge"]);
    assert_eq!(store.job(&id)["state"], "dead");
    store.run(&["dead", "replay", "--all", "--yes", "--confirm", "charge"]).ok();
    assert_eq!(store.job(&id)["state"], "available");
}

#[test]
fn ages_that_are_not_named_stay_as_they_are() {
    let store = Store::new();
    store.run(&["queues", "set", "q", "--keep-dead", "90d", "--dead-bytes-max", "1G"]).ok();
    store.run(&["queues", "set", "q", "--keep-finished", "1h"]).ok();
    let settings = store.json(&["queues"])["queues"][0]["settings"].clone();
    let kept = &settings["retention"];
    assert_eq!(kept["dead_ms"], 90 * 24 * 3_600_000_u64, "{settings}");
    assert_eq!(
        (&kept["finished_ms"], &settings["dead_bytes_max"]),
        (&json!(3_600_000), &json!(1 << 30))
    );
    store.run(&["queues", "set", "q", "--dead-bytes-max", "none"]).ok();
    assert!(store.json(&["queues"])["queues"][0]["settings"]["dead_bytes_max"].is_null());
    store.run(&["history"]).ok();
}

#[test]
fn numbers_to_keep_that_are_not_named_stay_as_they_are() {
    let store = Store::new();
    store.run(&["queues", "set", "q", "--max-dead", "5", "--max-completed", "7"]).ok();
    store.run(&["queues", "set", "q", "--max-dead", "none"]).ok();
    let kept = store.json(&["queues"])["queues"][0]["settings"]["keep_max"].clone();
    assert_eq!((&kept["completed"], kept["dead"].is_null()), (&json!(7), true), "{kept}");
    store.run(&["queues", "set", "q", "--max-dead", "1000001"]).refused(1, &["keep_max.dead"]);
}

#[test]
fn a_discarded_job_is_counted_in_the_history() {
    let store = Store::new();
    let id = store.enqueue(&["charge", "1", "--tenant", "acme"]);
    store.work(&["--exec", "charge=exit 65"]);
    store.run(&["dead", "discard", &id]).ok();
    let rows = store.json(&["history"]);
    let row = json!({"queue": "default", "kind": "charge", "tenant": "acme", "outcome": "dead", "count": 1});
    for (field, value) in row.as_object().unwrap() {
        assert_eq!(rows["rows"][0][field], *value, "{rows}");
    }
}
