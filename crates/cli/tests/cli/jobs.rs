//! `windlass jobs`.

use crate::support::Store;
use serde_json::json;

fn state(store: &Store, id: &str) -> String {
    store.job(id)["state"].as_str().unwrap().to_owned()
}

#[test]
fn a_noun_alone_lists() {
    let store = Store::new();
    let id = store.enqueue(&["x"]);
    assert!(store.run(&["jobs"]).ok().contains(&id));
    for noun in ["jobs", "dead", "queues", "kinds", "schedules", "keys"] {
        // Rows show ages, which differ.
        let heading = |text: String| text.lines().next().map(str::to_owned);
        let (alone, listed) = (store.run(&[noun]).ok(), store.run(&[noun, "list"]).ok());
        assert_eq!(heading(alone), heading(listed), "{noun}");
    }
}

#[test]
fn every_change_has_its_effect() {
    let store = Store::new();
    let id = store.enqueue(&["x", "--delay", "1h"]);
    let then = |arguments: &[&str], expected: &str| {
        let said = store.run(&[&["jobs"], arguments, &[&id]].concat()).ok();
        assert_eq!(said, format!("{id}  {expected}\n"));
        assert_eq!(state(&store, &id), expected, "after {arguments:?}");
    };
    then(&["promote"], "available");
    then(&["reschedule", "--in", "2h"], "scheduled");
    then(&["pause"], "paused");
    then(&["resume"], "scheduled");
    then(&["reprioritise", "--priority", "-7"], "scheduled");
    then(&["cancel"], "cancelled");
    then(&["replay"], "available");
    then(&["reschedule", "--at", "2030-01-31T09:00:00Z"], "scheduled");
    let job = store.job(&id);
    assert_eq!(
        (job["priority"].as_i64(), job["run_at"].as_str()),
        (Some(-7), Some("2030-01-31T09:00:00.000Z"))
    );
    then(&["move", "--to", "other"], "scheduled");
    assert_eq!(store.job(&id)["queue"], "other");
    then(&["kill"], "dead");
    assert_eq!(store.job(&id)["finish"], "killed");
    assert_eq!(store.run(&["jobs", "discard", &id]).ok(), format!("{id}  gone\n"));
    store.run(&["jobs", "show", &id]).refused(1, &[&id, "does not exist"]);
}

#[test]
fn waiting_returns_how_jobs_ended_and_never_blocks_the_store() {
    let store = Store::new();
    let (done, failed) = (store.enqueue(&["x"]), store.enqueue(&["y", "--max-attempts", "1"]));
    store.run(&["jobs", "wait", &done]).refused(1, &[&done, "windlass serve"]);
    store.run(&["work", "--exec", "x=true", "--exec", "y=exit 3", "--until-empty"]);
    assert_eq!(store.run(&["jobs", "wait", &done]).ok(), format!("{done}  completed\n"));
    let both = store.run(&["jobs", "wait", &done, &failed, "--timeout", "10s"]);
    assert_eq!(both.code, 1, "{both:?}");
    assert!(both.stdout.contains(&format!("{failed}  dead")), "{both:?}");
    let shown = store.run(&["jobs", "wait", &done, "--json"]).ok();
    assert!(shown.contains("\"state\":\"completed\""), "{shown}");
    let unknown = "019a8b2c-7d4e-7f01-8a23-456789abcdef";
    store.run(&["jobs", "wait", unknown]).refused(1, &[unknown, "does not exist"]);
}

#[test]
fn a_signal_is_kept_and_shown() {
    let store = Store::new();
    let id = store.enqueue(&["x"]);
    let send = |arguments: &[&str]| store.run(&[&["jobs", "signal", &id], arguments].concat());
    let said = format!("{id}  available\n");
    assert_eq!(send(&["approved", r#"{"by":"eve"}"#, "--id", "a-1"]).ok(), said);
    assert_eq!(send(&["approved", "--id", "a-1"]).ok(), said, "the same id is accepted once");
    assert_eq!(send(&["paid"]).ok(), said);
    let inbox = &store.job(&id)["continuation"]["inbox"];
    let approved = json!({"name": "approved", "payload": {"by": "eve"}, "id": "a-1"});
    assert_eq!(*inbox, json!([approved, {"name": "paid"}]));
    let shown = store.run(&["jobs", "show", &id]).ok();
    assert!(shown.contains("kept approved, paid"), "{shown}");
    send(&["approved", "{"]).refused(1, &["signal.payload", "JSON"]);
    send(&["two words"]).refused(1, &["signal.name", "two words"]);
    store.run(&["jobs", "cancel", &id]).ok();
    send(&["late"]).refused(1, &["cannot be signalled"]);
}

#[test]
fn a_job_is_explained_with_all_causes_and_what_to_do() {
    let store = Store::new();
    let id = store.enqueue(&["x", "--queue", "q", "--delay", "1h"]);
    store.run(&["queues", "pause", "q"]).ok();
    let said = store.run(&["jobs", "why", &id]).ok();
    for part in [
        &format!("{id}  scheduled  queue q, kind x\n"),
        "1. not_due: The job is not due yet. (until 2",
        "in 59 min)\n   Wait, or make it due now: windlass jobs promote ",
        "2. queue_paused: Queue q is paused.\n   Resume it: windlass queues resume q\n",
    ] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    let why = store.json(&["jobs", "why", &id]);
    assert_eq!(
        (&why["state"], &why["causes"][0]["code"]),
        (&"scheduled".into(), &"not_due".into())
    );
    assert_eq!(why["causes"][0]["until"], store.job(&id)["run_at"], "times as in other commands");
    store.run(&["jobs", "promote", &id]).ok();
    store.run(&["queues", "resume", "q"]).ok();
    let said = store.run(&["jobs", "why", &id]).ok();
    assert!(said.contains("1. no_worker: ") && said.contains("2. in_line: "), "{said}");
    store.work(&["--exec", "x=true", "--queue", "q"]);
    let why = store.json(&["jobs", "why", &id]);
    assert_eq!(
        (&why["causes"][0]["finish"], &why["state"]),
        (&"completed".into(), &"completed".into())
    );
    let missing = "01a1e214-0000-7000-8000-000000000000";
    store.run(&["jobs", "why", missing]).refused(1, &[missing, "does not exist"]);
    store.run(&["jobs", "why", "no-id"]).refused(2, &["no-id"]);
}

#[test]
fn a_change_that_cannot_be_says_why_and_the_others_are_done() {
    let store = Store::new();
    let (waiting, other) = (store.enqueue(&["x"]), store.enqueue(&["x"]));
    store.run(&["jobs", "discard", &waiting]).refused(1, &[&waiting, "available", "cannot"]);
    let missing = "01a1e214-0000-7000-8000-000000000000";
    let ran = store.run(&["jobs", "cancel", &waiting, missing, &other]);
    assert_eq!(ran.stdout.lines().count(), 2, "{ran:?}");
    ran.refused(4, &[missing, "does not exist"]);
    assert_eq!(
        (state(&store, &waiting), state(&store, &other)),
        ("cancelled".into(), "cancelled".into())
    );
    store.run(&["jobs", "cancel", "no-id"]).refused(2, &["no-id"]);
}

#[test]
fn a_list_is_filtered_and_goes_on_where_it_ended() {
    let store = Store::new();
    let ids: Vec<_> = (0..5).map(|_| store.enqueue(&["x", "--queue", "a"])).collect();
    store.enqueue(&["y", "--queue", "b"]);
    store.run(&["jobs", "cancel", &ids[4]]).ok();
    let listed = |arguments: &[&str]| {
        let page = store.json(&[&["jobs", "list", "--oldest"], arguments].concat());
        let ids = page["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| job["id"].as_str().unwrap().to_owned());
        (ids.collect::<Vec<_>>(), page["next"].as_str().map(str::to_owned))
    };
    assert_eq!(listed(&["--queue", "a"]).0, ids);
    assert_eq!(listed(&["--kind", "y"]).0.len(), 1);
    assert_eq!(listed(&["--state", "cancelled"]).0, ids[4..]);
    let (first, next) = listed(&["--queue", "a", "--limit", "3"]);
    assert_eq!(first, ids[..3]);
    let (rest, _) = listed(&["--queue", "a", "--after", &next.unwrap()]);
    assert_eq!(rest, ids[3..]);
    store.run(&["jobs", "list", "--state", "lost"]).refused(2, &["lost", "available", "expired"]);
}

#[test]
fn a_list_is_searched_by_what_jobs_carry_and_when_they_came() {
    let store = Store::new();
    let wanted =
        store.enqueue(&["x", "--tenant", "acme", "--key", "k1", "--tag", "a", "--tag", "b c"]);
    store.enqueue(&["x", "--tenant", "other", "--key", "k2", "--tag", "b"]);
    let listed = |arguments: &[&str]| {
        let page = store.json(&[&["jobs", "list"], arguments].concat());
        let jobs = page["jobs"].as_array().unwrap().clone();
        jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for search in [["--tenant", "acme"], ["--key", "k1"], ["--tag", "b c"]] {
        assert_eq!(listed(&search), [&*wanted], "{search:?}");
    }
    assert!(listed(&["--parent", &wanted]).is_empty());
    assert!(listed(&["--tenant", "acme", "--tag", "b"]).is_empty());
    let at = store.job(&wanted)["created_at"].as_str().unwrap().to_owned();
    assert_eq!(listed(&["--created-from", &at]).len(), 2);
    assert!(listed(&["--created-until", &at]).is_empty());
    let never = ["jobs", "list", "--created-from", &at, "--created-until", &at];
    store.run(&never).refused(1, &["created_until", "later than"]);
    store.run(&["jobs", "list", "--created-from", "noon"]).refused(2, &["noon"]);
}

#[test]
fn tables_are_aligned_and_without_colours_in_a_pipe() {
    let store = Store::new();
    store.enqueue(&["a_kind_with_a_long_name"]);
    store.enqueue(&["x", "--delay", "2h"]);
    let table = store.run(&["jobs", "list"]).ok();
    assert!(!table.contains('\x1b'), "{table}");
    let place = |line: &str| line.find("default");
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines[0].find("QUEUE"), place(lines[1]), "{table}");
    assert_eq!(place(lines[1]), place(lines[2]), "{table}");
    assert!(table.contains("due in 119 min") || table.contains("due in 2 h"), "{table}");
}
