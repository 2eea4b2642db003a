//! Changes of all jobs that match a filter, and their end after the process that ran them was killed.

use crate::support::Store;
use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;
use windlass::Url;
use windlass_core::engine::{
    Change, ChangeItem, Cursor, Enqueue, Filter, List, ListOrder, StatsRequest,
};
use windlass_core::limits::PAGE_MAX;
use windlass_core::model::NewJob;

/// Far more than the process changes before it is killed.
const MANY: usize = 30_000;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn jobs_are_listed_and_changed_by_what_they_contain() {
    let store = Store::new();
    let mine = store.enqueue(&["x", r#"{"customer": 42}"#]);
    let other = store.enqueue(&["x", r#"{"customer": 43}"#]);
    let listed = store.run(&["jobs", "list", "--where", "payload.customer=42"]).ok();
    assert!(listed.contains(&mine) && !listed.contains(&other), "{listed}");
    let listed = store.run(&["jobs", "list", "--text", "CUSTOMER", "--id", &mine[..13]]).ok();
    assert!(listed.contains(&mine), "{listed}");
    let of_mine = ["jobs", "cancel", "--where", "payload.customer=42"];
    let said = store.run(&[&of_mine[..], &["--dry-run"]].concat()).ok();
    assert_eq!(said, "would cancel 1 jobs\n");
    store.run(&of_mine).refused(1, &["would cancel 1 jobs", "--yes"]);
    assert_eq!(store.job(&mine)["state"], "available");
    let said = store.run(&[&of_mine[..], &["--yes"]].concat()).ok();
    assert_eq!(said, "cancel done: 1 jobs, 0 refused\n");
    assert_eq!(store.job(&mine)["state"], "cancelled");
    assert_eq!(store.job(&other)["state"], "available");
    let all = json(&store.run(&["bulk", "--json"]).ok());
    assert_eq!(all["bulks"].as_array().unwrap().len(), 3, "two counts and one change: {all}");
    store.run(&["jobs", "cancel"]).refused(1, &["--where", "--all"]);
    store.run(&["jobs", "cancel", &other, "--tag", "x"]).refused(1, &["not both"]);
    store.run(&["jobs", "list", "--where", "customer=1"]).refused(2, &["payload.customer"]);
}

#[test]
fn a_queue_is_obliterated_only_with_its_name() {
    let store = Store::new();
    for _ in 0..3 {
        store.enqueue(&["x", "--queue", "old"]);
    }
    let kept = store.enqueue(&["x", "--queue", "new"]);
    let said = store.run(&["queues", "obliterate", "old", "--dry-run"]).ok();
    assert_eq!(said, "would purge 3 jobs\n");
    store.run(&["queues", "obliterate", "old", "--confirm", "new"]).refused(1, &["old"]);
    store.run(&["queues", "obliterate", "old"]).refused(2, &["--confirm"]);
    let said = store.run(&["queues", "obliterate", "old", "--confirm", "old"]).ok();
    assert_eq!(said, "purge done: 3 jobs, 0 refused\n");
    let listed = store.run(&["jobs", "list", "--json"]).ok();
    let listed = json(&listed);
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(listed["jobs"][0]["id"], kept);
}

#[test]
fn a_replay_whose_process_is_killed_is_resumed_and_replays_each_job_once() {
    let store = Store::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let url: Url = store.url().parse().unwrap();
    // All jobs are dead: two entries into a state each.
    runtime.block_on(async {
        let engine = url.clone().open().await.unwrap();
        for _ in 0..MANY / 5_000 {
            let jobs = Enqueue::each(vec![NewJob::new("x").json(r#"{"customer": 42}"#); 5_000]);
            let ids = engine.enqueue(jobs).await.unwrap().value;
            let kill = ids.into_iter().map(|it| ChangeItem::new(it.unwrap().id, Change::Kill));
            engine.change(kill.collect()).await.unwrap();
        }
    });
    let replay = ["jobs", "replay", "--state", "dead", "--where", "payload.customer=42", "--yes"];
    let mut running = store.command(&replay).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(running.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let id = line.split(['`', ' ', ':']).nth(1).unwrap().to_owned();
    std::thread::sleep(Duration::from_millis(700));
    running.kill().unwrap();
    running.wait().unwrap();
    let counted = |state: &str| {
        runtime.block_on(async {
            let engine = url.clone().open().await.unwrap();
            let lanes = engine.stats(StatsRequest::default()).await.unwrap().value;
            let count = |lane: &windlass_core::engine::LaneStats| match state {
                "dead" => lane.dead,
                _ => lane.available,
            };
            lanes.iter().map(count).sum::<u64>()
        })
    };
    assert!(counted("dead") > 0, "the process was killed before its end");
    let shown = json(&store.run(&["bulk", "show", &id]).ok());
    assert_ne!(shown["state"], "done", "{shown}");
    let said = store.run(&["bulk", "resume", &id]).ok();
    assert!(said.contains("replay done"), "{said}");
    assert_eq!((counted("dead"), counted("available")), (0, MANY as u64));
    // The replay is the third entry into a state, of every job.
    let entered: HashMap<u32, usize> = runtime.block_on(async {
        let engine = url.open().await.unwrap();
        let (mut entered, mut after) = (HashMap::new(), None::<Cursor>);
        loop {
            let list = List::new(Filter::default()).order(ListOrder::Oldest).limit(PAGE_MAX);
            let page = engine.list(list.after(after)).await.unwrap().value;
            for job in page.rows {
                *entered.entry(job.transitions).or_default() += 1;
            }
            after = page.next;
            if after.is_none() {
                return entered;
            }
        }
    });
    assert_eq!(entered, HashMap::from([(3, MANY)]));
}
