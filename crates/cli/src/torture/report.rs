//! The report of a run, as text and as JSON. It counts the findings of the history checker; it decides nothing
//! itself.

use serde_json::{Map, Value, json};
use std::fmt;
use windlass_kit::history::{Kind, Pace, Verdict};

/// Number of findings that are printed; all are in report.json.
const SHOWN_MAX: usize = 6;
/// Violations whose counts are always printed; others are printed only if they occurred.
const ALWAYS: [Kind; 4] = [Kind::Lost, Kind::StaleLease, Kind::Stuck, Kind::KeyOrder];

/// The result of a run.
pub(super) struct Report {
    pub(super) target: String,
    pub(super) seed: u64,
    pub(super) seconds: u64,
    pub(super) faults: u64,
    /// Whether all jobs ended in time after the faults.
    pub(super) drained: bool,
    pub(super) verdict: Verdict,
    /// How the rates of limits were used.
    pub(super) paces: Vec<Pace>,
    /// Results that the contract does not allow, and processes that ended by themselves.
    pub(super) unexpected: Vec<String>,
    /// Findings of the store's consistency check.
    pub(super) findings: Vec<String>,
    /// Directory of the evidence, if it is kept.
    pub(super) evidence: Option<String>,
}

impl Report {
    /// Whether all guarantees were kept.
    pub(super) fn is_clean(&self) -> bool {
        let quiet = self.unexpected.is_empty() && self.findings.is_empty();
        self.drained && quiet && self.verdict.is_clean()
    }

    /// The counts that are always printed, in the order of the last line.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        let seen = &self.verdict.counts;
        let mut counts = vec![
            ("acknowledged", seen.acknowledged),
            ("completed", seen.completed),
            ("dead", seen.dead),
            ("cancelled", seen.cancelled),
            ("removed", seen.removed),
            ("duplicates", seen.duplicates),
        ];
        counts.extend(ALWAYS.map(|kind| (kind.as_str(), self.verdict.count(kind))));
        counts
    }

    /// Counts of other violations, if there are any.
    fn others(&self) -> Vec<(&'static str, u64)> {
        let others = Kind::ALL.into_iter().filter(|kind| !ALWAYS.contains(kind));
        others
            .map(|kind| (kind.as_str(), self.verdict.count(kind)))
            .chain([
                ("unexpected answers", self.unexpected.len() as u64),
                ("findings of the store's check", self.findings.len() as u64),
                ("not drained in time", u64::from(!self.drained)),
            ])
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// The report as JSON.
    pub(super) fn json(&self) -> Value {
        let map = |counts: Vec<(&'static str, u64)>| -> Map<String, Value> {
            counts.into_iter().map(|(name, count)| (key(name), count.into())).collect()
        };
        json!({
            "ok": self.is_clean(),
            "target": self.target,
            "seed": self.seed,
            "seconds": self.seconds,
            "faults": self.faults,
            "operations": self.verdict.counts.operations,
            "unanswered": self.verdict.counts.unanswered,
            "starts": self.verdict.counts.starts,
            "counts": map(self.counts()),
            "others": map(self.others()),
            "limits": self.paces.iter().map(pace).collect::<Vec<_>>(),
            "violations": self.verdict.violations,
            "unexpected": self.unexpected,
            "findings": self.findings,
            "evidence": self.evidence,
        })
    }
}

/// The use of a rate, as JSON.
fn pace(pace: &Pace) -> Value {
    json!({
        "name": pace.name,
        "started": pace.started,
        "allowed": pace.allowed,
        "used_percent": pace.per_mille() as f64 / 10.0,
        "late_ms": {
            "p50": pace.late_percentile(50),
            "p99": pace.late_percentile(99),
            "max": pace.late_percentile(100),
        },
    })
}

/// Converts a name to a JSON key.
fn key(name: &str) -> String {
    name.replace([' ', '-'], "_").replace('\'', "")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reported = self.verdict.violations.iter().map(ToString::to_string);
        let reported =
            reported.chain(self.unexpected.iter().cloned()).chain(self.findings.iter().cloned());
        let reported: Vec<String> = reported.collect();
        reported.iter().take(SHOWN_MAX).try_for_each(|finding| writeln!(f, "{finding}"))?;
        if reported.len() > SHOWN_MAX {
            writeln!(f, "… and {} more in report.json", reported.len() - SHOWN_MAX)?;
        }
        if let Some(evidence) = &self.evidence {
            writeln!(f, "evidence: {evidence}")?;
        }
        let seen = &self.verdict.counts;
        writeln!(
            f,
            "{} faults; {} calls, {} of them never answered; {} starts",
            self.faults, seen.operations, seen.unanswered, seen.starts
        )?;
        for pace in &self.paces {
            writeln!(
                f,
                "limit {}: {} starts, {} % of the allowed rate; late by {} ms (p50), {} ms (p99), {} ms (max)",
                pace.name,
                pace.started,
                pace.per_mille() as f64 / 10.0,
                pace.late_percentile(50),
                pace.late_percentile(99),
                pace.late_percentile(100)
            )?;
        }
        let word = if self.is_clean() { "kept" } else { "BROKEN" };
        write!(f, "{word}, seed {}:", self.seed)?;
        for (at, (name, count)) in self.counts().into_iter().chain(self.others()).enumerate() {
            write!(f, "{} {count} {name}", if at == 0 { "" } else { "," })?;
        }
        writeln!(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(broken: Option<Kind>) -> Report {
        let mut verdict = Verdict::default();
        verdict.counts.acknowledged = 7;
        verdict.counts.broken.extend(broken.map(|kind| (kind, 3)));
        Report {
            target: "file:x".into(),
            seed: 9,
            seconds: 1,
            faults: 2,
            drained: true,
            verdict,
            paces: Vec::new(),
            unexpected: Vec::new(),
            findings: Vec::new(),
            evidence: None,
        }
    }

    fn last_line(report: &Report) -> String {
        report.to_string().lines().last().unwrap().to_owned()
    }

    #[test]
    fn the_last_line_is_the_verdict_with_its_counts() {
        assert_eq!(
            last_line(&report(None)),
            "kept, seed 9: 7 acknowledged, 0 completed, 0 dead, 0 cancelled, 0 removed, 0 duplicates, 0 lost, \
             0 stale leases accepted, 0 stuck, 0 key-order violations"
        );
    }

    #[test]
    fn every_violation_is_reported_and_fails_the_verdict() {
        for kind in Kind::ALL {
            let report = report(Some(kind));
            assert!(!report.is_clean(), "{kind}");
            let line = last_line(&report);
            assert!(line.starts_with("BROKEN") && line.contains(&format!("3 {kind}")), "{line}");
            assert_eq!(report.json()["ok"], false);
        }
        let mut surprised = report(None);
        surprised.unexpected.push("worker: what?".into());
        assert!(last_line(&surprised).ends_with("1 unexpected answers"));
        let mut stuck = report(None);
        stuck.drained = false;
        assert!(!stuck.is_clean());
    }

    #[test]
    fn machines_read_the_same_counts() {
        let json = report(Some(Kind::StaleLease)).json();
        assert_eq!(json["counts"]["stale_leases_accepted"], 3);
        assert_eq!(json["counts"]["key_order_violations"], 0);
    }
}
