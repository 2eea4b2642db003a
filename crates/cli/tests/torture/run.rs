//! Runs of the real binary, and what their last line says.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// The output of a run.
pub(crate) struct Run {
    pub(crate) output: Output,
    pub(crate) report: Value,
}

/// `windlass torture` with these arguments, its verdict as JSON.
pub(crate) fn torture(arguments: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    let output = command.arg("torture").args(arguments).arg("--json").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let report = text.lines().last().and_then(|line| serde_json::from_str(line).ok());
    let report = report.unwrap_or_else(|| panic!("{arguments:?}: no verdict in {output:?}"));
    Run { output, report }
}

impl Run {
    /// Asserts that every promise was kept under real faults, and that nothing is left behind.
    #[track_caller]
    pub(crate) fn assert_kept(&self) {
        self.assert_promises_kept();
        assert_eq!(self.report["evidence"], Value::Null, "it is kept only if something is wrong");
    }

    /// Asserts that every promise was kept under real faults.
    #[track_caller]
    pub(crate) fn assert_promises_kept(&self) {
        let reported = String::from_utf8_lossy(&self.output.stderr);
        assert!(self.output.status.success(), "{reported}\n{:#}", self.report);
        assert_eq!(self.report["ok"], true);
        for (name, least) in [("/faults", 3), ("/starts", 50), ("/counts/acknowledged", 50)] {
            let count = self.report.pointer(name).and_then(Value::as_u64).unwrap();
            assert!(count >= least, "{name} is {count}: {reported}\n{}", self.report);
        }
        let ended: u64 = ["completed", "dead", "cancelled", "removed"]
            .map(|name| self.report["counts"][name].as_u64().unwrap())
            .iter()
            .sum();
        assert!(ended >= self.report["counts"]["acknowledged"].as_u64().unwrap());
    }

    /// How often something is counted, wherever it is counted.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let found = ["counts", "others"].map(|part| self.report[part][name].as_u64());
        found.into_iter().flatten().sum()
    }

    /// Whether nothing was found.
    pub(crate) fn is_clean(&self) -> bool {
        self.output.status.success()
    }

    /// Asserts that it is broken in one of these ways, that the exit code says so, and that the evidence is
    /// there; which is removed.
    #[track_caller]
    pub(crate) fn assert_broken(&self, names: &[&str]) {
        assert_eq!(self.output.status.code(), Some(1), "{:#}", self.report);
        let found = names.iter().any(|name| self.count(name) > 0);
        assert!(found, "none of {names:?} in {} {}", self.report["counts"], self.report["others"]);
        let evidence = Path::new(self.report["evidence"].as_str().unwrap());
        let kept = |name: &str| evidence.join(name).is_file();
        assert!(kept("schedule.json") && kept("report.json"), "{evidence:?}");
        let histories = std::fs::read_dir(evidence).unwrap().filter(|entry| {
            entry.as_ref().unwrap().path().extension().is_some_and(|it| it == "ndjson")
        });
        assert!(histories.count() >= 7, "{evidence:?}");
        std::fs::remove_dir_all(evidence).unwrap();
    }
}
