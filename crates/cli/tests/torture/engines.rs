//! The short profile: every engine of ours for a few seconds, through everything that can go wrong with it.
//!
//! `WINDLASS_LONG=1` takes a minute each; `WINDLASS_SEED` makes other things go wrong.

use crate::database::server;
use crate::run::torture;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

fn seconds() -> &'static str {
    let is_long = std::env::var_os("WINDLASS_LONG").is_some_and(|value| value == "1");
    if is_long { "60" } else { "6" }
}

fn seed() -> String {
    std::env::var("WINDLASS_SEED").unwrap_or_else(|_| "1".to_owned())
}

/// Asserts that a directory was left as it was: empty.
#[track_caller]
fn assert_empty(dir: &std::path::Path) {
    let left: Vec<_> = std::fs::read_dir(dir).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_local_engine_keeps_its_promises() {
    let home = tempfile::tempdir().unwrap();
    let url = format!("file:{}", home.path().display());
    torture(&[&url, "--seconds", seconds(), "--seed", &seed()]).assert_kept();
    assert_empty(home.path());
}

#[test]
fn a_server_over_http_keeps_its_promises() {
    let home = tempfile::tempdir().unwrap();
    let url = format!("file:{}", home.path().display());
    let run = torture(&[&url, "--serve", "--seconds", seconds(), "--seed", &seed()]);
    run.assert_kept();
    assert!(run.report["unanswered"].as_u64().unwrap() > 0, "no reply was ever lost");
    assert_empty(home.path());
}

#[test]
fn a_server_over_http_exceeds_no_limit() {
    let home = tempfile::tempdir().unwrap();
    let url = format!("file:{}", home.path().display());
    let run = torture(&[&url, "--serve", "--limits", "--seconds", seconds(), "--seed", &seed()]);
    run.assert_kept();
    assert_eq!(run.report["limits"].as_array().unwrap().len(), 3, "{:#}", run.report);
    assert_empty(home.path());
}

#[test]
fn the_local_engine_exceeds_no_limit() {
    let home = tempfile::tempdir().unwrap();
    let url = format!("file:{}", home.path().display());
    torture(&[&url, "--limits", "--seconds", seconds(), "--seed", &seed()]).assert_kept();
    assert_empty(home.path());
}

#[test]
fn postgres_keeps_its_promises() {
    torture(&[&server(), "--seconds", seconds(), "--seed", &seed()]).assert_kept();
}

#[test]
fn graphs_on_the_local_engine_start_in_order_and_end() {
    let home = tempfile::tempdir().unwrap();
    let url = format!("file:{}", home.path().display());
    let flags = ["--flows", "--seconds", seconds(), "--seed", &seed()];
    torture(&[&[&*url], &flags[..]].concat()).assert_kept();
    assert_empty(home.path());
}

#[test]
fn graphs_on_postgres_start_in_order_and_end() {
    torture(&[&server(), "--flows", "--seconds", seconds(), "--seed", &seed()]).assert_kept();
}

/// Operators beside short retention.
const REMOVING: [&str; 4] = ["--operators", "2", "--retention", "2s"];

#[test]
fn the_local_engine_keeps_its_promises_beside_operators_and_short_retention() {
    let home = tempfile::tempdir().unwrap();
    let url = format!("file:{}", home.path().display());
    let run =
        torture(&[&[&*url, "--seconds", seconds(), "--seed", &seed()], &REMOVING[..]].concat());
    run.assert_kept();
    assert!(run.count("removed") > 20, "{:#}", run.report);
    assert_empty(home.path());
}

#[test]
#[ignore = "long: a minute"]
fn a_server_over_http_keeps_its_promises_beside_operators_and_short_retention() {
    let home = tempfile::tempdir().unwrap();
    let url = format!("file:{}", home.path().display());
    let flags = ["--serve", "--seconds", "60", "--seed", &seed()];
    let run = torture(&[&[&*url], &flags[..], &REMOVING].concat());
    run.assert_kept();
    assert!(run.count("removed") > 20, "{:#}", run.report);
    assert_empty(home.path());
}

/// Partitions are removed as a whole 150 s after their first job at the earliest.
#[test]
#[ignore = "long: five minutes"]
fn a_postgres_that_isolates_more_keeps_its_promises_beside_operators_and_short_retention() {
    let home = tempfile::tempdir().unwrap();
    // Started by root, it runs as another user, who must get there.
    std::fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
    let dir = home.path().join("stores").display().to_string();
    let setting = "default_transaction_isolation=repeatable read";
    let flags = ["--postgres-setting", setting, "--seconds", "300", "--seed", &seed()];
    let run = torture(&[&["--start-postgres", &*dir], &flags[..], &REMOVING].concat());
    run.assert_kept();
    assert!(run.count("removed") > 20, "{:#}", run.report);
}

/// The log line of a PostgreSQL that recovers from a kill.
const RECOVERED: &str = "database system was not properly shut down";

#[test]
fn postgres_killed_with_all_its_processes_keeps_its_promises() {
    let home = tempfile::tempdir().unwrap();
    // Started by root, it runs as another user, who must get there.
    std::fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
    let (dir, evidence) = (home.path().join("stores"), home.path().join("evidence"));
    let run = torture(&[
        "--start-postgres",
        &dir.display().to_string(),
        "--evidence",
        &evidence.display().to_string(),
        "--seconds",
        seconds(),
        "--seed",
        &seed(),
    ]);
    run.assert_promises_kept();
    let read = |name: &str| std::fs::read_to_string(evidence.join(name)).unwrap();
    let (planned, said) = (read("schedule.json"), read("store.log"));
    let kills = planned.matches("SIGKILL store").count();
    assert!(kills >= 1, "{planned}");
    assert_eq!(said.matches(RECOVERED).count(), kills, "{said}");
    assert_empty(&dir);
}
