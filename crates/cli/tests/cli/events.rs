//! `windlass events`, and how events are switched on.

use crate::support::Store;
use serde_json::{Value, json};

fn printed(store: &Store, arguments: &[&str]) -> Vec<Value> {
    let lines = store.run(arguments).ok();
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn events_are_printed_and_continued_after_a_cursor() {
    let store = Store::new();
    store.run(&["queues", "set", "default", "--events", "on"]).ok();
    let id = store.enqueue(&["one", "--max-attempts", "1"]);
    store.work(&["--exec", "one=exit 3"]);
    let shown = store.run(&["events", "default"]).ok();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 3, "{shown}");
    assert!(lines[0].contains(&format!("{id} one enqueue -> available")), "{shown}");
    assert!(lines[1].contains("claim -> running attempt 1"), "{shown}");
    assert!(lines[2].contains("retry -> dead attempt 1, attempts spent, error"), "{shown}");
    let events = printed(&store, &["events", "default", "--json"]);
    assert_eq!((&events[2]["number"], &events[2]["reason"]), (&json!(3), &json!("attempts_spent")));
    let cursor = events[0]["cursor"].as_str().unwrap();
    let rest = printed(&store, &["events", "default", "--json", "--after", cursor]);
    assert_eq!(rest, events[1..]);
    assert!(printed(&store, &["events", "default", "--json", "--after", "latest"]).is_empty());
}

#[test]
fn events_are_bounded_by_number_and_age_and_say_where_some_are_missing() {
    let store = Store::new();
    store.run(&["queues", "set", "default", "--events", "2", "--events-max-age", "1h"]).ok();
    let queues = store.json(&["queues"]);
    assert_eq!(
        queues["queues"][0]["settings"]["events"],
        json!({"max": 2, "max_age_ms": 3_600_000})
    );
    store.enqueue(&["a"]);
    let first = printed(&store, &["events", "default", "--json"]);
    (0..3).for_each(|_| drop(store.enqueue(&["a"])));
    let cursor = first[0]["cursor"].as_str().unwrap();
    let events = printed(&store, &["events", "default", "--json", "--after", cursor]);
    assert_eq!((events.len(), &events[0]), (3, &json!({"gap": true})));
    store.run(&["queues", "set", "default", "--events-max-age", "2h"]).ok();
    let settings = &store.json(&["queues"])["queues"][0]["settings"]["events"];
    assert_eq!(*settings, json!({"max": 2, "max_age_ms": 7_200_000}));
    store.run(&["queues", "set", "default", "--events", "off"]).ok();
    store.run(&["events", "default"]).refused(1, &["events are off", "--events on"]);
}

#[test]
fn bad_values_are_refused() {
    let store = Store::new();
    store.run(&["queues", "set", "q", "--events", "some"]).refused(2, &["on, off"]);
    store.run(&["queues", "set", "q", "--events", "0"]).refused(1, &["events.max", "0"]);
    let both = ["queues", "set", "q", "--events", "off", "--events-max-age", "1h"];
    store.run(&both).refused(1, &["--events off"]);
    store.run(&["queues", "set", "q", "--events", "on"]).ok();
    store.run(&["events", "q", "--after", "yesterday"]).refused(1, &["after", "yesterday"]);
}
