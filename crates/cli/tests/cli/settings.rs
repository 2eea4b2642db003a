//! `windlass queues`, `windlass kinds` and `windlass limits`.

use crate::support::{Store, until};

#[test]
fn queues_are_listed_with_what_is_in_them() {
    let store = Store::new();
    store.enqueue(&["x", "--queue", "mail"]);
    store.enqueue(&["x", "--queue", "mail", "--delay", "1h"]);
    store.enqueue(&["y", "--queue", "media"]);
    let queues = store.json(&["queues"]);
    let figures = |queue: usize| {
        let queue = &queues["queues"][queue];
        let of = |name: &str| queue["counts"][name].clone();
        let paused = queue["settings"]["paused"].clone();
        (queue["name"].clone(), of("depth"), of("available"), of("scheduled"), paused)
    };
    assert_eq!(figures(0), ("mail".into(), 2.into(), 1.into(), 1.into(), false.into()));
    assert_eq!(figures(1), ("media".into(), 1.into(), 1.into(), 0.into(), false.into()));
    let table = store.run(&["queues"]).ok();
    assert!(table.starts_with("QUEUE") && table.lines().count() == 3, "{table}");
}

#[test]
fn no_job_of_a_paused_queue_or_kind_starts() {
    let store = Store::new();
    let held = [store.enqueue(&["x", "--queue", "slow"]), store.enqueue(&["y"])];
    store.enqueue(&["x"]);
    assert!(store.run(&["queues", "pause", "slow"]).ok().contains("paused"));
    assert!(store.run(&["kinds", "pause", "y"]).ok().contains("paused"));
    let done = store.path("done");
    let touch = format!("x=touch {}", done.display());
    let arguments = ["--queue", "slow", "--queue", "default", "--exec", &touch, "--exec", "y=true"];
    let worker = store.start_work(&[&arguments[..], &["--concurrency", "1"]].concat());
    // The only slot served what may run; the paused ones were before it.
    until("the other job ran", || done.exists());
    worker.drain().ok();
    for id in &held {
        let job = store.job(id);
        assert_eq!((&job["state"], &job["attempt"]), (&"available".into(), &0.into()), "{job}");
    }
    store.run(&["queues", "resume", "slow"]).ok();
    store.run(&["kinds", "resume", "y"]).ok();
    store.work(&arguments);
    assert!(held.iter().all(|id| store.job(id)["state"] == "completed"));
}

#[test]
fn settings_are_in_force_and_can_be_lifted() {
    let store = Store::new();
    store.run(&["queues", "set", "q", "--max-depth", "1", "--order", "ageing=10s"]).ok();
    store.enqueue(&["x", "--queue", "q"]);
    store.run(&["enqueue", "x", "--queue", "q"]).refused(1, &["q", "full", "limit 1", "max_depth"]);
    let table = store.run(&["queues"]).ok();
    assert!(table.contains("max depth 1, ageing 10 s"), "{table}");
    store.run(&["queues", "set", "q", "--max-depth", "none"]).ok();
    store.enqueue(&["x", "--queue", "q"]);
    store.run(&["kinds", "set", "x", "--permits", "0"]).ok();
    assert_eq!(store.json(&["kinds"])["kinds"][0]["settings"]["permits"], 0);
    store.run(&["queues", "set", "q"]).refused(1, &["nothing to set", "--max-depth"]);
    store.run(&["queues", "set", "q", "--order", "random"]).refused(2, &["random", "strict"]);
    store.run(&["queues", "set", "q", "--max-depth", "few"]).refused(2, &["few", "none"]);
}

#[test]
fn limits_are_created_listed_applied_and_removed() {
    let store = Store::new();
    let arguments = ["--max-running", "1", "--rate", "100/1m", "--by-group", "--group", "acme=2"];
    store.run(&[&["limits", "set", "stripe"][..], &arguments].concat()).ok();
    store.run(&["queues", "set", "q", "--limit", "stripe"]).ok();
    assert!(store.run(&["queues"]).ok().contains("limits stripe"));
    let limits = store.json(&["limits"])["limits"].clone();
    assert_eq!((&limits[0]["name"], &limits[0]["queues"][0]), (&"stripe".into(), &"q".into()));
    assert_eq!(limits[0]["rate"]["bucket"]["burst"], 100);
    let shown = store.run(&["limits", "show", "stripe"]).ok();
    assert!(shown.contains("each other group") && shown.contains("acme"), "{shown}");
    let enqueue = |group: &str| store.enqueue(&["x", "--queue", "q", "--group", group]);
    let [first, second] = [enqueue("g"), enqueue("g")];
    assert_eq!(store.job(&first)["state"], "available");
    let waiting = store.job(&second);
    assert_eq!((&waiting["state"], &waiting["limits"][0]), (&"blocked".into(), &"stripe".into()));
    let shown = store.json(&["limits", "show", "stripe"]);
    let group = serde_json::json!({"group": "g", "running": 0, "waiting": 2, "tokens": 100});
    assert_eq!((&shown["waiting"], &shown["groups"][0]), (&2.into(), &group));
    store.work(&["--queue", "q", "--exec", "x=true"]);
    assert_eq!(store.job(&second)["state"], "completed", "after the first");
    store.run(&["limits", "remove", "stripe"]).refused(1, &["stripe", "queue q"]);
    store.run(&["queues", "set", "q", "--limit", "none"]).ok();
    store.run(&["limits", "remove", "stripe"]).ok();
    store.run(&["queues", "set", "q", "--limit", "stripe"]).refused(1, &["stripe", "create it"]);
    store.run(&["limits", "set", "l"]).refused(1, &["nothing to limit", "--max-running"]);
    store.run(&["limits", "set", "l", "--rate", "fast"]).refused(2, &["fast", "100/1m"]);
}
