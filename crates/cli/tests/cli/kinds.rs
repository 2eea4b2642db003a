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
    assert_eq!(store.json(&["kinds"])[0]["registered"], true);
    let bad = store.run(&["kinds", "register", "send", "--schema", r#"{"type": "strin"}"#]);
    bad.refused(1, &["schema", "type"]);
    store.run(&["kinds", "register", "send", "--breaker-errors", "50"]).refused(2, &["--breaker"]);
    store.run(&["kinds", "unregister", "send"]).ok();
    store.run(&["kinds", "show", "send"]).refused(1, &["send", "not registered"]);
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
    let settings = store.json(&["queues"])[0]["settings"].clone();
    let kept = &settings["retention"];
    assert_eq!(kept["dead_ms"], 90 * 24 * 3_600_000_u64, "{settings}");
    assert_eq!(
        (&kept["finished_ms"], &settings["dead_bytes_max"]),
        (&json!(3_600_000), &json!(1 << 30))
    );
    store.run(&["queues", "set", "q", "--dead-bytes-max", "none"]).ok();
    assert!(store.json(&["queues"])[0]["settings"]["dead_bytes_max"].is_null());
    store.run(&["history"]).ok();
}
