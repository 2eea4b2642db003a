//! Options that `windlass torture` refuses.

use std::process::Command;

/// The error of a call that must fail.
fn refused(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    let output = command.arg("torture").args(arguments).output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_store_that_keeps_nothing_is_refused_with_the_way_out() {
    let error = refused(&["memory:"]);
    assert!(error.contains("loses everything") && error.contains("file:DIR"), "{error}");
}

#[test]
fn a_server_is_started_on_directories_only() {
    let error = refused(&["http://127.0.0.1:1", "--serve"]);
    assert!(error.contains("file:DIR --serve"), "{error}");
}

#[test]
fn a_store_that_is_not_there_is_named() {
    let error = refused(&["http://127.0.0.1:1", "--direct", "--seconds", "1"]);
    assert!(error.contains("http://127.0.0.1:1"), "{error}");
}

#[test]
fn a_database_of_its_own_takes_the_place_of_a_url() {
    let error = refused(&["file:x", "--start-postgres", "y"]);
    assert!(error.contains("cannot be used with"), "{error}");
    let error = refused(&[]);
    assert!(error.contains("required"), "{error}");
}

#[test]
fn a_database_needs_a_directory_that_can_be_made() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let error = refused(&["--start-postgres", &file.display().to_string()]);
    assert!(error.contains("cannot make a directory") && error.contains("file"), "{error}");
}

#[test]
fn values_of_operators_retention_and_settings_are_refused_with_the_way_out() {
    let error = refused(&["file:x", "--operators", "9"]);
    assert!(error.contains("9 is not in 0..=8"), "{error}");
    let error = refused(&["file:x", "--retention", "1ms"]);
    assert!(error.contains("1ms is too short: use 100ms or more"), "{error}");
    let error = refused(&["--start-postgres", "y", "--postgres-setting", "jit"]);
    assert!(error.contains("use NAME=VALUE"), "{error}");
    let error = refused(&["file:x", "--postgres-setting", "jit=off"]);
    assert!(error.contains("--start-postgres"), "{error}");
}

#[test]
fn evidence_is_not_mixed_with_other_files() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("precious"), "data").unwrap();
    let dir = home.path().display().to_string();
    let error = refused(&[&format!("file:{dir}/store"), "--evidence", &dir]);
    assert!(error.contains("is not empty") && error.contains("--evidence"), "{error}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
}

#[test]
fn the_help_lists_the_faults_and_the_verdicts() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    let output = command.args(["torture", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    for part in ["SIGKILL", "SIGSTOP", "proxy", "--seed", "exit code"] {
        assert!(help.contains(part), "{part} in {help}");
    }
    assert!(!help.contains("torture-client"), "{help}");
}
