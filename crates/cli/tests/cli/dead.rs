//! `windlass dead`.

use crate::support::Store;

/// A store with these many dead letters of each kind.
fn with_dead(kinds: &[(&str, usize)]) -> Store {
    let store = Store::new();
    let mut work = Vec::new();
    for (kind, count) in kinds {
        (0..*count).for_each(|n| drop(store.enqueue(&[kind, &n.to_string()])));
        work.push(format!("{kind}=echo broken >&2; exit 65"));
    }
    let arguments: Vec<_> = work.iter().flat_map(|exec| ["--exec", exec]).collect();
    store.work(&arguments);
    store
}

fn ids(store: &Store, arguments: &[&str]) -> Vec<String> {
    let page = store.json(&[&["dead", "list"], arguments].concat());
    let id = |job: &serde_json::Value| job["id"].as_str().unwrap().to_owned();
    page["jobs"].as_array().unwrap().iter().map(id).collect()
}

#[test]
fn a_dead_letter_is_shown_edited_and_replayed() {
    let store = with_dead(&[("x", 1)]);
    let id = ids(&store, &[]).remove(0);
    let shown = store.run(&["dead", "show", &id]).ok();
    assert!(shown.contains("dead") && shown.contains("exit code 65: broken"), "{shown}");
    store.run(&["dead", "replay", &id, "--payload", "[42]"]).ok();
    assert!(ids(&store, &[]).is_empty());
    store.work(&["--exec", "x=cat"]);
    let job = store.job(&id);
    assert_eq!((&job["state"], &job["result"]), (&"completed".into(), &serde_json::json!([42])));
}

#[test]
fn all_at_once_needs_a_yes_and_stays_within_its_filter() {
    let store = with_dead(&[("x", 3), ("y", 2)]);
    store.run(&["dead", "replay", "--all", "--kind", "x"]).refused(1, &["replay 3 dead", "--yes"]);
    assert_eq!(ids(&store, &[]).len(), 5);
    let said = store.run(&["dead", "replay", "--all", "--kind", "x", "--yes"]).ok();
    assert_eq!(said, "3 dead letters done, 0 refused\n");
    assert_eq!(ids(&store, &["--kind", "x"]).len(), 0);
    assert_eq!(ids(&store, &["--kind", "y"]).len(), 2);
    let done = store.json(&["dead", "discard", "--all", "--yes"]);
    assert_eq!((done["done"].as_u64(), ids(&store, &[]).len()), (Some(2), 0));
}

#[test]
fn only_the_dead_are_thrown_away() {
    let store = Store::new();
    let id = store.enqueue(&["x"]);
    store.run(&["jobs", "cancel", &id]).ok();
    store.run(&["dead", "discard", &id]).refused(1, &["is cancelled, not dead", "windlass jobs"]);
    store.job(&id);
    store.run(&["dead", "replay"]).refused(2, &["ID"]);
}
