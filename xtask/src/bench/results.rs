//! The results of a run: every measurement and every failure, as written to results.json.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::cell::Cell;
use super::contender::Contender;
use super::workload::Workload;

/// The output of a driver.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) jobs: u64,
    pub(super) seconds: f64,
    /// Actual number of other waiting jobs (W5).
    pub(super) others: u64,
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
    pub(super) cpu_s: f64,
    pub(super) rss_mb: f64,
    pub(super) version: String,
    pub(super) settings: String,
}

impl Answer {
    pub(super) fn jobs_per_s(&self) -> f64 {
        self.jobs as f64 / self.seconds
    }

    /// Rejects results with zero jobs or zero time.
    pub(super) fn check(&self) -> Result<()> {
        ensure!(self.jobs > 0 && self.seconds > 0.0, "{} jobs in {} s", self.jobs, self.seconds);
        Ok(())
    }
}

/// How a cell ended.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Measured(Answer),
    Failed(String),
}

/// A cell that was run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Entry {
    pub(super) workload: &'static str,
    pub(super) contender: &'static str,
    pub(super) outcome: Outcome,
}

/// A contender that could not be installed, with the reason.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Missing {
    pub(super) contender: &'static str,
    pub(super) why: String,
}

/// The results of a whole run.
#[derive(Debug, Serialize)]
pub(super) struct Results {
    /// The machine, the servers and their settings, one line per fact.
    pub(super) machine: Vec<String>,
    pub(super) command: String,
    pub(super) missing: Vec<Missing>,
    /// Cells in the order in which they ran: neighbours were measured consecutively.
    pub(super) entries: Vec<Entry>,
    /// Number of cells skipped because the time was up.
    pub(super) left_out: usize,
}

impl Results {
    pub(super) fn new(machine: Vec<String>, command: String, missing: Vec<Missing>) -> Self {
        Self { machine, command, missing, entries: Vec::new(), left_out: 0 }
    }

    pub(super) fn add(&mut self, cell: &Cell, outcome: Outcome) {
        let (workload, contender) = (cell.workload.name(), cell.contender.name);
        self.entries.push(Entry { workload, contender, outcome });
    }

    /// Whether this peer has failed at this workload. (Windlass is measured again even after a failure, because
    /// peers are compared with it.)
    pub(super) fn has_failed(&self, cell: &Cell) -> bool {
        let (workload, contender) = (cell.workload.name(), cell.contender.name);
        !cell.contender.is_ours()
            && self.failures().any(|(it, _)| it.workload == workload && it.contender == contender)
    }

    /// All contenders measured at least once, in the order of the table of contenders.
    pub(super) fn contenders(&self) -> Vec<&'static Contender> {
        let mut found: Vec<&'static Contender> = Vec::new();
        for entry in &self.entries {
            if found.iter().all(|it| it.name != entry.contender) {
                found.extend(Contender::named(entry.contender));
            }
        }
        found
    }

    /// The workloads of this run.
    pub(super) fn workloads(&self) -> Vec<Workload> {
        let ran = |it: &Workload| self.entries.iter().any(|entry| entry.workload == it.name());
        Workload::ALL.into_iter().filter(ran).collect()
    }

    /// All results of one contender in one workload.
    pub(super) fn answers(&self, workload: Workload, contender: &Contender) -> Vec<&Answer> {
        let of_it =
            |entry: &&Entry| entry.workload == workload.name() && entry.contender == contender.name;
        self.entries
            .iter()
            .filter(of_it)
            .filter_map(|entry| match &entry.outcome {
                Outcome::Measured(answer) => Some(answer),
                Outcome::Failed(_) => None,
            })
            .collect()
    }

    /// Failed cells with their errors.
    pub(super) fn failures(&self) -> impl Iterator<Item = (&Entry, &str)> {
        self.entries.iter().filter_map(|entry| match &entry.outcome {
            Outcome::Failed(why) => Some((entry, why.as_str())),
            Outcome::Measured(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_peer_is_not_run_again_for_that_workload_and_ours_is() {
        let mut results = Results::new(Vec::new(), String::new(), Vec::new());
        let cell = |workload, name| Cell { workload, contender: *Contender::named(name).unwrap() };
        for name in ["awa", "windlass-postgres"] {
            results.add(&cell(Workload::W3, name), Outcome::Failed("it hung".into()));
        }
        assert!(results.has_failed(&cell(Workload::W3, "awa")));
        assert!(!results.has_failed(&cell(Workload::W5, "awa")));
        assert!(!results.has_failed(&cell(Workload::W3, "windlass-postgres")));
    }
}
