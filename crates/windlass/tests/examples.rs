//! Every example does what it shows, and the README shows the first of them as it is.
//!
//! The examples are built with the tests of this package (`cargo test`, `cargo nextest run`). To run
//! this file alone, build them first: `cargo build -p windlass --examples`.
#![allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Number of checks before an example counts as hanging, and the time between two.
const LOOKS_MAX: u32 = 3_000;
const LOOK: Duration = Duration::from_millis(20);

/// Runs the example of this name to its end and answers what it printed.
fn output(name: &str) -> String {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples").join(name);
    let path = path.with_extension(std::env::consts::EXE_EXTENSION);
    assert!(path.exists(), "build the examples: cargo build -p windlass --examples");
    let mut command = Command::new(path);
    if let Ok(url) = std::env::var("WINDLASS_TEST_POSTGRES") {
        command.env("DATABASE_URL", url);
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ended = (0..LOOKS_MAX).any(|_| {
        sleep(LOOK);
        child.try_wait().unwrap().is_some()
    });
    if !ended {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(ended, "{name} does not end; it said:\n{said}\n{complained}");
    assert!(output.status.success(), "{name} failed:\n{said}\n{complained}");
    said
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lines(name: &str) -> Vec<String> {
    output(name).lines().map(str::to_owned).collect()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn source(name: &str) -> String {
    let path = format!("{}/examples/{name}.rs", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path).unwrap()
}

#[test]
fn hello_greets() {
    assert_eq!(lines("hello"), ["hello, Ada"]);
}

#[test]
fn the_hello_example_is_short_and_equal_to_the_readme() {
    let hello = source("hello");
    assert!(hello.lines().count() < 30);
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let code = hello.split_once("\n\n").unwrap().1;
    assert!(readme.contains(&format!("```rust\n{code}```")), "README.md shows another hello.rs");
}

#[test]
fn delayed_jobs_run_in_the_order_of_their_times() {
    assert_eq!(lines("delayed"), ["put the kettle on", "tea is ready", "wash the cups"]);
}

#[test]
fn cron_fires_as_often_as_it_says() {
    let lines = lines("cron");
    assert_eq!(lines.len(), 3);
    assert!(lines[..2].iter().all(|line| line.starts_with("report of second ")), "{lines:?}");
    assert_eq!(lines[2], "over: true");
}

#[test]
fn unique_jobs_run_once_per_key_at_a_time() {
    let mut lines = lines("unique");
    // The two users are welcomed side by side.
    lines[..2].sort();
    assert_eq!(lines, ["welcome, user 1", "welcome, user 2", "welcome, user 1"]);
}

#[test]
fn retry_tries_buries_and_revives() {
    let mut lines = lines("retry");
    assert_eq!(
        lines[..3],
        ["attempt 1 to reach moody", "attempt 2 to reach moody", "attempt 1 to reach "]
    );
    // The order of dead jobs is not specified.
    lines[3..].sort();
    assert_eq!(
        lines[3..],
        [
            "attempt 2 to reach ada",
            "attempt 3 to reach ada",
            "dead after 1 failures: no_address",
            "dead after 2 failures: smtp_451",
        ]
    );
}

#[test]
#[cfg(all(feature = "process", unix))]
fn process_runs_judges_and_ends_commands() {
    assert_eq!(lines("process"), ["4 words", "exit code 65: no address", "timeout"]);
}

#[test]
fn progress_is_seen_on_the_way_and_at_the_end() {
    let lines = lines("progress");
    assert!(lines.len() > 2, "nothing was seen on the way: {lines:?}");
    assert_eq!(lines[lines.len() - 2..], ["encoding 100 of 100", "all frames encoded"]);
}

#[test]
fn checkpoint_goes_on_where_it_was() {
    let reported = [
        "attempt 1 begins at row 0",
        "attempt 2 begins at row 400",
        "the last attempt imported 600 rows",
    ];
    assert_eq!(lines("checkpoint"), reported);
}

#[test]
fn follow_ups_make_a_chain() {
    let reported = [
        "order 7",
        "invoice for order 7",
        "mail: please pay for order 7",
        "mail <- invoice <- order",
    ];
    assert_eq!(lines("follow_ups"), reported);
}

#[test]
fn steps_run_once_and_wait_without_a_slot() {
    let reported = [
        "charging 990 cents",
        r#"approved: {"by":"eve"}"#,
        "packing a parcel",
        "packing a parcel",
        // What is not a step runs again.
        r#"approved: {"by":"eve"}"#,
        "ch-990, 2 parcels",
    ];
    assert_eq!(lines("steps"), reported);
}

#[test]
fn shutdown_loses_nothing() {
    let mut lines = lines("shutdown");
    // The two of them end side by side.
    lines[..2].sort();
    let reported = [
        "the long job is released",
        "the short job has finished",
        "drained, 0 results undelivered",
        "the long job goes on: half way",
        "0 failures",
    ];
    assert_eq!(lines, reported);
}

#[test]
fn web_answers_before_the_work_is_done() {
    let mut lines = lines("web");
    lines.sort();
    assert_eq!(lines, ["HTTP/1.1 202 Accepted", "welcome, ada"]);
}

#[test]
fn testing_needs_no_server_and_no_patience() {
    let reported = [r#"["error: engaged", "fatal: unknown user"]"#, "ada was reminded"];
    assert_eq!(lines("testing"), reported);
}

#[test]
#[cfg(feature = "postgres")]
fn transaction_writes_an_invoice_once_and_only_for_the_order_that_was_committed() {
    assert_eq!(lines("transaction"), ["sent: [42]"]);
}

#[test]
fn every_example_is_run_here() {
    let here = include_str!("examples.rs");
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(here.contains(&format!("lines({name:?})")), "{name} is run by no test");
    }
}
