//! One vocabulary for all commands: nouns that list, prefixes of ids, times, hints and notes.

use crate::support::{Store, until};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

#[test]
fn a_noun_alone_lists_and_takes_the_options_of_its_list() {
    let store = Store::new();
    let id = store.enqueue(&["x", "--queue", "mail"]);
    store.enqueue(&["y"]);
    for noun in
        ["jobs", "dead", "queues", "kinds", "limits", "schedules", "keys", "bulk", "workers"]
    {
        store.run(&[noun]).ok();
    }
    let page = store.json(&["jobs", "--queue", "mail"]);
    assert_eq!((page["jobs"].as_array().unwrap().len(), &page["jobs"][0]["id"]), (1, &json!(id)));
    let ignored = ["jobs", "--queue", "mail", "cancel", &id];
    store.run(&ignored).refused(1, &["jobs list --queue"]);
    assert_eq!(store.job(&id)["state"], "available", "nothing was changed");
}

#[test]
fn an_id_may_be_cut_short_unless_several_jobs_have_its_digits() {
    let store = Store::new();
    let (one, two) = (store.enqueue(&["one"]), store.enqueue(&["two"]));
    assert!(store.run(&["jobs", "show", &one[..30]]).ok().contains(&one));
    // Both ids begin with the same hour.
    let refused = store.run(&["jobs", "cancel", &one[..6]]);
    refused.refused(1, &["several jobs", &format!("{one}  one in default"), &two]);
    store.run(&["jobs", "why", "ffff"]).refused(1, &["no job has an id that starts with ffff"]);
    let error = store.run(&["jobs", "why", "ffff", "--json"]).refused(1, &[]);
    let error: Value = serde_json::from_str(&error).unwrap();
    assert_eq!(error["error"]["code"], "not_found");
    store.run(&["jobs", "kill", &two[..30]]).ok();
    store.run(&["dead", "retry", &two[..30]]).ok();
    assert_eq!(store.job(&two)["state"], "available");
    store.run(&["jobs", "cancel", &two]).ok();
    store.run(&["jobs", "retry", &two]).ok();
}

#[test]
fn times_are_absolute_or_relative() {
    let store = Store::new();
    let id = store.enqueue(&["x"]);
    let count = |arguments: &[&str]| {
        store.json(&[&["jobs", "list"], arguments].concat())["jobs"].as_array().unwrap().len()
    };
    assert_eq!((count(&["--since", "1h"]), count(&["--until", "1h"])), (1, 0));
    assert_eq!((count(&["--since", "2030-01-31T09:00:00Z"]), count(&["--since", "now"])), (0, 0));
    // In a state of ended jobs, it is the end that counts.
    store.run(&["jobs", "cancel", &id]).ok();
    assert_eq!(count(&["--state", "cancelled", "--since", "1h"]), 1);
    assert_eq!(count(&["--state", "cancelled", "--until", "1h"]), 0);
    let audit = |arguments: &[&str]| {
        store.json(&[&["audit"], arguments].concat())["actions"].as_array().unwrap().len()
    };
    assert_eq!((audit(&["--since", "1h"]), audit(&["--until", "1h"])), (1, 0));
    store.run(&["history", "--since", "1d", "--until", "2030-01-31T09:00:00Z"]).ok();
    store.run(&["jobs", "--since", "yesterday"]).refused(2, &["yesterday", "+1h"]);
    let other = store.enqueue(&["x", "--delay", "1h"]);
    store.run(&["jobs", "reschedule", &other, "--delay", "2h"]).ok();
    let events = store.run(&["events", "default", "--since", "1h"]);
    events.refused(2, &["--since"]);
}

#[test]
fn a_name_that_does_not_exist_yet_is_noted_with_similar_ones() {
    let store = Store::new();
    store.enqueue(&["resize", "--queue", "mail"]);
    let paused = store.run(&["queues", "pause", "mial"]);
    assert!(paused.stderr.contains("warning: queue mial does not exist yet (similar: mail)"));
    paused.ok();
    assert!(!store.run(&["queues", "pause", "mail"]).stderr.contains("warning"));
    assert!(store.run(&["kinds", "pause", "resise"]).stderr.contains("(similar: resize)"));
    let shown = store.json(&["queues", "show", "mail"]);
    let expected = (&json!("mail"), &json!(true), &json!(1));
    let depth = &shown["counts"]["depth"];
    assert_eq!((&shown["name"], &shown["settings"]["paused"], depth), expected);
    let shown = store.run(&["queues", "show", "mail"]).ok();
    assert!(shown.contains("resize") && shown.contains("max_depth"), "{shown}");
}

#[test]
fn notes_are_silenced_and_hints_name_the_store_that_was_given() {
    let store = Store::new();
    for _ in 0..3 {
        store.enqueue(&["x", "--queue", "q"]);
    }
    let list = ["jobs", "list", "--limit", "1"];
    assert!(store.run(&list).stderr.contains("more jobs follow"));
    assert_eq!(store.run(&[&list[..], &["--quiet"]].concat()).stderr, "");
    store.run(&["queues", "pause", "q"]).ok();
    let id = store.enqueue(&["x", "--queue", "q"]);
    // The environment names the store, for the next command, too.
    let hint = "windlass queues resume q";
    assert!(store.run(&["jobs", "why", &id]).ok().contains(&format!("{hint}\n")));
    let mut given = store.command(&["jobs", "why", &id, "--url", &store.url()]);
    let given = given.env_remove("WINDLASS_STORE").output().unwrap();
    let said = String::from_utf8(given.stdout).unwrap();
    assert!(said.contains(&format!("{hint} --store {}\n", store.url())), "{said}");
    let mut missing = store.command(&["limits", "show", "none", "--store", &store.url()]);
    let missing = missing.env_remove("WINDLASS_STORE").output().unwrap();
    let said = String::from_utf8(missing.stderr).unwrap();
    assert!(said.contains(&format!("`windlass limits --store {}`", store.url())), "{said}");
}

#[test]
fn the_status_is_a_few_lines() {
    let store = Store::new();
    store.run(&["status"]).refused(3, &["no store"]);
    store.enqueue(&["x"]);
    store.run(&["queues", "pause", "default"]).ok();
    let said = store.run(&["status"]).ok();
    for part in ["(local)", "waiting  1 jobs", "dead     none", "paused   default", "workers  0"] {
        assert!(said.contains(part), "{part:?} in {said}");
    }
    let status = store.json(&["status"]);
    assert_eq!((&status["counts"]["depth"], &status["workers"]), (&json!(1), &json!(0)));
}

#[test]
fn json_is_that_of_the_api() {
    let store = Store::new();
    let line = r#"{"kind":"x","run_at":"2030-01-31T09:00:00Z","backoff":{"fixed":{"delay_ms":7}}}"#;
    store.run_with(&["enqueue", "--ndjson", "-", "--queue", "q"], line).ok();
    let jobs = store.json(&["jobs"]);
    let job = &jobs["jobs"][0];
    assert_eq!((&job["run_at"], &job["queue"]), (&json!("2030-01-31T09:00:00.000Z"), &json!("q")));
    // A job that was listed is a line to enqueue, but for what the store has added.
    assert_eq!(job["backoff"]["fixed"]["delay_ms"], 7);
    assert_eq!((&job["max_attempts"], job.get("policy")), (&json!(5), None));
    let id = job["id"].as_str().unwrap();
    assert_eq!(
        store.json(&["jobs", "cancel", id]),
        json!({"ok": true, "id": id, "state": "cancelled"})
    );
    let refused = store.run(&["jobs", "promote", id, "--json"]);
    let refused: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!((&refused["ok"], &refused["code"]), (&json!(false), &json!("refused")));
}

#[test]
fn flags_that_do_not_exist_are_errors_everywhere() {
    let store = Store::new();
    let id = store.enqueue(&["x"]);
    let commands: [&[&str]; 6] = [
        &["enqueue", "x", "--raw", "--delya=10m"],
        &["enqueue", "x", "--delya"],
        &["schedules", "add", "s", "x", "--every", "1h", "--delya=10m"],
        &["jobs", "signal", &id, "go", "--delya=10m"],
        &["jobs", "--delya"],
        &["work", "--exec", "x=true", "--delya"],
    ];
    for command in commands {
        store.run(command).refused(2, &["--delya"]);
    }
}

#[test]
fn a_worker_serves_its_health_and_metrics_on_request() {
    let store = Store::new();
    let id = store.enqueue(&["x"]);
    let worker = store.start_work(&["--exec", "x=true", "--listen", "0"]);
    let log = store.path("work.log");
    let address = || {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        let (_, rest) = log.split_once("on http://")?;
        rest.split_once('\n').map(|(address, _)| address.to_owned())
    };
    until("it says where it listens", || address().is_some());
    let address = address().unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let get = |path: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    until("it ran the job", || get("/healthz").contains("\"completed\":1"));
    assert!(get("/healthz").starts_with("HTTP/1.1 200"), "{}", get("/healthz"));
    let metrics = get("/metrics");
    assert!(metrics.contains("windlass_jobs_finished_total"), "{metrics}");
    assert!(get("/").starts_with("HTTP/1.1 404"));
    worker.drain().ok();
    assert!(TcpStream::connect(&address).is_err(), "it has ended");
    assert_eq!(store.job(&id)["state"], "completed");
    store.run(&["work", "--exec", "x=true", "--listen", "nowhere"]).refused(2, &["nowhere"]);
}
