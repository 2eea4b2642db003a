//! `workers`, `check`, `top`, `completions`, and stores that cannot be used.

use crate::support::{Store, until};

#[test]
fn reading_a_missing_store_does_not_create_it() {
    let store = Store::new();
    for arguments in
        [&["jobs", "list"][..], &["queues"], &["check"], &["workers"], &["top", "--json"]]
    {
        store.run(arguments).refused(3, &["no store at file:", "windlass enqueue", "--store"]);
    }
    assert!(!store.path("store").exists());
}

#[test]
fn a_store_in_use_is_reported_with_its_owner_and_a_way_out() {
    let store = Store::new();
    store.enqueue(&["x"]);
    let started = store.path("started");
    let exec = format!("x=touch {}", started.display());
    let worker = store.start_work(&["--exec", &exec]);
    until("the worker works", || started.exists());
    let pid = worker.pid().to_string();
    store.run(&["jobs", "list"]).refused(3, &["in use by process", &pid, "stop it"]);
    let error = store.run(&["jobs", "list", "--json"]).refused(3, &[]);
    let error: serde_json::Value = serde_json::from_str(&error).unwrap();
    assert_eq!(error["error"]["code"], "in_use");
    worker.drain().ok();
    store.run(&["jobs", "list"]).ok();
}

#[test]
fn a_worker_that_was_killed_is_seen_until_its_session_is_taken_back() {
    let store = Store::new();
    store.enqueue(&["x"]);
    assert!(store.run(&["workers"]).stderr.contains("no workers"));
    let started = store.path("started");
    let exec = format!("x=touch {}; sleep 600", started.display());
    let worker = store.start_work(&["--exec", &exec, "--name", "killed-one"]);
    until("the job runs", || started.exists());
    worker.kill();
    let workers = store.json(&["workers"]);
    assert_eq!(
        (&workers["workers"][0]["worker"], &workers["workers"][0]["running"]),
        (&"killed-one".into(), &1.into())
    );
    assert!(store.run(&["workers"]).ok().contains("killed-one"));
}

#[test]
fn a_good_store_is_said_to_be_good() {
    let store = Store::new();
    store.enqueue(&["x"]);
    assert_eq!(store.run(&["check"]).ok(), "1 jobs, no problems found\n");
    let report = store.json(&["check", "--repair"]);
    let good = serde_json::json!({ "jobs": 1, "ok": true, "findings": [], "warnings": [] });
    assert_eq!(report, good);
}

#[test]
fn top_needs_a_terminal_and_prints_one_snapshot_for_programs() {
    let store = Store::new();
    store.enqueue(&["x", "--queue", "mail"]);
    store.run(&["top"]).refused(1, &["terminal", "--json"]);
    let look = store.json(&["top"]);
    assert_eq!(
        (&look["queues"][0]["name"], &look["queues"][0]["counts"]["depth"]),
        (&"mail".into(), &1.into())
    );
    store.run(&["top", "--every", "1ms"]).refused(1, &["--every", "100ms"]);
}

#[test]
fn every_shell_completes_every_command_but_the_hidden_ones() {
    let store = Store::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = store.run(&["completions", shell]).ok();
        for command in ["enqueue", "work", "jobs", "dead", "queues", "schedules", "top"] {
            assert!(script.contains(command), "{command} in {shell}");
        }
    }
    let help = store.run(&["--help"]).ok();
    assert!(help.contains("Exit codes") && !help.contains("sandbox"), "{help}");
}

#[test]
fn every_command_has_a_manual_page_and_a_section_in_the_reference() {
    let store = Store::new();
    let dir = tempfile::tempdir().unwrap();
    store.run(&["man", dir.path().join("new").to_str().unwrap()]).ok();
    let page = |name: &str| std::fs::read_to_string(dir.path().join("new").join(name)).unwrap();
    assert!(page("windlass.1").contains(".SH NAME\nwindlass"), "{}", page("windlass.1"));
    assert!(page("windlass-limits-set.1").contains("max\\-running"));
    let reference = store.run(&["reference"]).ok();
    for heading in ["## windlass\n", "## windlass enqueue\n", "## windlass limits set\n"] {
        assert!(reference.contains(heading), "{heading}");
    }
    for hidden in ["windlass help", "bench-run"] {
        assert!(!reference.contains(&format!("## {hidden}")), "{hidden}");
    }
}

#[test]
fn no_password_is_ever_shown() {
    let store = Store::new();
    let url = "postgres://ada:s3cr3t@db/jobs";
    let said = store.run(&["jobs", "list", "--store", url]).refused(3, &["postgres://***@db/jobs"]);
    assert!(!said.contains("s3cr3t"), "{said}");
    let help =
        store.command(&["jobs", "list", "--help"]).env("WINDLASS_STORE", url).output().unwrap();
    assert!(!String::from_utf8(help.stdout).unwrap().contains("s3cr3t"));
}

#[test]
fn a_misplaced_row_is_found_and_repaired() {
    let store = Store::new();
    let id = store.enqueue(&["x", "--delay", "1h"]);
    let database = rusqlite::Connection::open(store.path("store/windlass.db")).unwrap();
    assert_eq!(database.execute("DELETE FROM scheduled", []).unwrap(), 1);
    drop(database);
    let found = store.run(&["check"]);
    assert_eq!(found.code, 1, "{found:?}");
    assert!(found.stdout.contains(&id) && found.stdout.contains("--repair"), "{found:?}");
    let repaired = store.run(&["check", "--repair"]).ok();
    assert!(repaired.contains("all repaired"), "{repaired}");
    assert_eq!(store.run(&["check"]).ok(), "1 jobs, no problems found\n");
    assert_eq!(store.run(&["jobs", "promote", &id]).ok(), format!("{id}  available\n"));
}
