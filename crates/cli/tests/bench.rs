//! The errors of `windlass bench`.

use std::process::{Command, Output};

fn windlass(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windlass")).args(arguments).output().expect("windlass starts")
}

/// The error of a call that must fail.
fn refused(arguments: &[&str]) -> String {
    let output = windlass(arguments);
    assert!(!output.status.success(), "{arguments:?} succeeded");
    assert!(output.stdout.is_empty(), "{arguments:?} printed figures");
    String::from_utf8(output.stderr).expect("UTF-8")
}

#[test]
#[cfg(debug_assertions)]
fn debug_builds_refuse_to_measure_and_name_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file:{}", dir.path().display());
    let error = refused(&["bench", &url]);
    assert!(error.contains("debug build"), "{error}");
    assert!(error.contains(&format!("cargo run --release -- bench {url}")), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn an_unknown_workload_names_the_known_ones() {
    let error = refused(&["bench", "memory:", "--only", "W3,W9"]);
    for name in ["W9", "W1seq", "W1c64", "W2", "W3", "W4", "W5same", "W6", "P256"] {
        assert!(error.contains(name), "{name} in {error}");
    }
}

#[test]
fn an_unknown_scheme_names_the_known_ones() {
    let error = refused(&["bench", "redis+cluster://localhost"]);
    for part in ["redis", "memory:", "file:DIR"] {
        assert!(error.contains(part), "{part} in {error}");
    }
}

#[test]
fn help_names_the_profiles() {
    let output = windlass(&["bench", "--help"]);
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && help.contains("quick") && help.contains("full"), "{help}");
    assert!(!help.contains("bench-run"), "{help}");
}

#[test]
#[cfg(not(debug_assertions))]
fn figures_come_as_json_and_nothing_is_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file:{}/new", dir.path().display());
    let output = windlass(&["bench", &url, "--only", "W2,W4", "--json", "--repeats", "2"]);
    assert!(output.status.success(), "{output:?}");
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<_> = rows.as_array().unwrap().iter().map(|row| &row["name"]).collect();
    assert_eq!(names, ["W2", "W2@log", "W2@slim", "W4"]);
    assert!(rows[0]["ratio_to_slim"].as_f64().unwrap() > 0.0, "{rows}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
