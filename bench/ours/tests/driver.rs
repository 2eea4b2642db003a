//! Tests that Windlass's own driver executes every order of the peer benchmark.

use serde_json::{Value, json};
use std::process::{Command, Output};

fn ordered(workload: &str, url: &str) -> Output {
    let order = json!({
        "workload": workload, "url": url, "jobs": 10, "others": 50, "seconds": 0.3, "fill_seconds": 5.0,
    });
    let mut driver = Command::new(env!("CARGO_BIN_EXE_bench-ours"));
    driver.arg(order.to_string()).output().expect("our own driver starts")
}

#[test]
fn every_workload_is_answered_by_one_line() {
    for workload in ["W1seq", "W1c64", "W2", "W3", "W4", "W5", "W6"] {
        let output = ordered(workload, "memory:");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{workload}: {said}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(answer["jobs"].as_u64().unwrap() > 0, "{workload}: {answer}");
        assert!(answer["seconds"].as_f64().unwrap() > 0.0, "{workload}: {answer}");
        assert_eq!(answer["version"], env!("CARGO_PKG_VERSION"));
    }
}

#[test]
fn an_order_that_cannot_be_carried_out_is_refused_with_the_reason() {
    let output = ordered("W3", "floppy:a");
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("floppy"), "{output:?}");
}
