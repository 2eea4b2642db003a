//! The short profile: every engine of ours for a few seconds, through everything that can go wrong with it.
//!
//! `WINDLASS_LONG=1` takes a minute each; `WINDLASS_SEED` makes other things go wrong.

use crate::run::torture;

/// Where PostgreSQL is; `cargo xtask test` starts one and sets it.
const POSTGRES: &str = "WINDLASS_TEST_POSTGRES";

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
fn postgres_keeps_its_promises() {
    let url = std::env::var(POSTGRES).unwrap_or_else(|_| {
        panic!("{POSTGRES} is not set: run `cargo xtask test`, or set it to a database's URL")
    });
    torture(&[&url, "--seconds", seconds(), "--seed", &seed()]).assert_kept();
}
