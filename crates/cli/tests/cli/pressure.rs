//! `windlass bench` on PostgreSQL under pressure: what is watched over time, what is held, what is deep. Small
//! versions; their figures say nothing.

use crate::database::server;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

fn bench(arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    let command = command.args(["bench", &server(), "--profile", "tiny", "--json"]).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn row<'a>(rows: &'a Value, name: &str) -> &'a Value {
    let rows = rows.as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name} in {rows:?}"))
}

fn files(dir: &Path) -> BTreeSet<String> {
    let files = std::fs::read_dir(dir).unwrap();
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

/// The figures of one column, as far as they are known.
fn column(dir: &Path, file: &str, name: &str) -> Vec<f64> {
    let text = std::fs::read_to_string(dir.join(file)).unwrap();
    let mut lines = text.lines();
    let at = lines.next().unwrap().split(',').position(|it| it == name).unwrap();
    lines.filter_map(|line| line.split(',').nth(at).unwrap().parse().ok()).collect()
}

#[test]
fn interference_is_measured_beside_a_clean_run_released_and_shown_over_time() {
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("new/charts");
    let runs = ["--only", "W7snapshot,W7reader", "--seconds", "2"];
    let rows = bench(&[&runs[..], &["--csv", csv.to_str().unwrap()]].concat());
    assert_eq!(row(&rows, "W6")["repeats"], 2, "one beside each");
    for name in ["W7snapshot", "W7reader"] {
        let row = row(&rows, name);
        assert!(row["ratio_to_reference"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["figures"]["reclaimed_after_s"].as_f64().unwrap() < 60.0, "{row}");
        assert!(row["figures"]["hot_growth_bytes_per_job"].is_f64(), "{row}");
        assert!(row["over_time"][0]["hot"]["peak"].as_u64().unwrap() > 0, "{row}");
    }
    let expected = ["W6-1", "W6-2", "W7reader-1", "W7snapshot-1"];
    let expected = expected.iter().flat_map(|it| [format!("{it}.csv"), format!("{it}.svg")]);
    assert_eq!(files(&csv), expected.collect());
    let rates = column(&csv, "W7reader-1.csv", "jobs_per_s");
    assert!(rates.len() >= 3 && rates.iter().any(|rate| *rate > 0.0), "{rates:?}");
    let wal = column(&csv, "W7reader-1.csv", "wal_bytes");
    assert!(wal.is_sorted() && wal.last() > Some(&0.0), "{wal:?}");
    let chart = std::fs::read_to_string(csv.join("W7reader-1.svg")).unwrap();
    for part in ["jobs per second", "hot tables, MB", "whole database", "released"] {
        assert!(chart.contains(part), "{part} in {chart}");
    }
}

#[test]
fn a_dump_holds_its_locks_while_jobs_go_through() {
    let rows = bench(&["--only", "W7dump,W7writer", "--seconds", "2"]);
    assert!(row(&rows, "W7writer")["ratio_to_reference"].as_f64().unwrap() > 0.0, "{rows}");
    let dump = row(&rows, "W7dump");
    assert_eq!(dump["skipped"], Value::Null, "where a server is there is a pg_dump: {dump}");
    assert!(dump["figures"]["dump_held_percent"].as_f64().unwrap() > 10.0, "{dump}");
    assert!(dump["figures"]["reclaimed_after_s"].is_f64(), "{dump}");
}

#[test]
fn a_soak_keeps_its_pace_and_says_whether_sizes_stay_flat() {
    let dir = tempfile::tempdir().unwrap();
    let soak = ["--workload", "soak", "--seconds", "3", "--rate", "200", "--retention", "1s"];
    let rows = bench(&[&soak[..], &["--csv", dir.path().to_str().unwrap()]].concat());
    let soak = row(&rows, "soak");
    let rate = soak["jobs_per_s"].as_f64().unwrap();
    assert!((100.0..=240.0).contains(&rate), "{soak}");
    for figure in ["database_growth_percent", "schema_growth_percent"] {
        assert!(soak["figures"][figure].is_f64(), "{soak}");
    }
    assert_eq!(files(dir.path()).len(), 2);
}

#[test]
fn depth_is_measured_with_others_waiting_and_scheduled() {
    let rows = bench(&["--only", "W5deep", "--ready", "3000", "--scheduled", "2000"]);
    for name in ["W5deep0", "W5deep"] {
        let row = row(&rows, name);
        assert_eq!(row["jobs"], 250.0, "{row}");
        for figure in ["promoted_jobs_per_s", "due_drained_jobs_per_s", "stats_ms", "overview_ms"] {
            assert!(row["figures"][figure].as_f64().unwrap() > 0.0, "{figure} in {row}");
        }
    }
    assert!(row(&rows, "W5deep")["ratio_to_reference"].as_f64().unwrap() > 0.0, "{rows}");
}
