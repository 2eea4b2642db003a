//! Figures and ratios: median, minimum and maximum of repeated measurements. Knows no layout.

use super::contender::Contender;
use super::results::{Answer, Entry, Outcome, Results};
use super::workload::Workload;

/// The kind of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Rate,
    P50,
    P99,
}

/// A figure of a workload that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Figure {
    pub(super) workload: Workload,
    number: Number,
}

impl Figure {
    const ALL: [Self; 10] = [
        Self { workload: Workload::W1seq, number: Number::Rate },
        Self { workload: Workload::W1c64, number: Number::Rate },
        Self { workload: Workload::W1c64, number: Number::P99 },
        Self { workload: Workload::W2, number: Number::Rate },
        Self { workload: Workload::W3, number: Number::Rate },
        Self { workload: Workload::W4, number: Number::P50 },
        Self { workload: Workload::W4, number: Number::P99 },
        Self { workload: Workload::W5, number: Number::Rate },
        Self { workload: Workload::W6, number: Number::Rate },
        Self { workload: Workload::W6, number: Number::P99 },
    ];

    /// The figures of the workloads of a run.
    pub(super) fn of(results: &Results) -> Vec<Self> {
        let workloads = results.workloads();
        Self::ALL.into_iter().filter(|it| workloads.contains(&it.workload)).collect()
    }

    /// Name in column headers and charts.
    pub(super) fn name(self) -> String {
        let number = match self.number {
            Number::Rate => "",
            Number::P50 => " p50",
            Number::P99 => " p99",
        };
        format!("{}{number}", self.workload.name())
    }

    /// Whether lower is better.
    pub(super) const fn is_latency(self) -> bool {
        matches!(self.number, Number::P50 | Number::P99)
    }

    pub(super) const fn unit(self) -> &'static str {
        if self.is_latency() { "ms" } else { "jobs/s" }
    }

    fn of_answer(self, answer: &Answer) -> Option<f64> {
        match self.number {
            Number::Rate => Some(answer.jobs_per_s()),
            Number::P50 => answer.p50_ms,
            Number::P99 => answer.p99_ms,
        }
    }

    /// The spread of one contender.
    pub(super) fn of_contender(self, results: &Results, contender: &Contender) -> Option<Spread> {
        let answers = results.answers(self.workload, contender);
        Spread::of(answers.into_iter().filter_map(|answer| self.of_answer(answer)))
    }

    /// How many times better Windlass is than this peer: each measurement of the peer is compared with those of
    /// Windlass directly before and after it.
    pub(super) fn ratio(self, results: &Results, peer: &Contender) -> Option<Spread> {
        let ratio = |(ours, theirs)| if self.is_latency() { theirs / ours } else { ours / theirs };
        Spread::of(self.pairs(results, peer).into_iter().map(ratio))
    }

    /// The spread of Windlass's measurements directly before and after this peer.
    pub(super) fn ours_beside(self, results: &Results, peer: &Contender) -> Option<Spread> {
        Spread::of(self.pairs(results, peer).into_iter().map(|(ours, _)| ours))
    }

    /// Pairs of consecutive measurements, Windlass's and the peer's.
    fn pairs(self, results: &Results, peer: &Contender) -> Vec<(f64, f64)> {
        let is_ours = |it: &Contender| it.is_ours() && it.family() == peer.family();
        let mut pairs = Vec::new();
        for (at, entry) in results.entries.iter().enumerate() {
            let Some(theirs) = self.of_entry(entry, |it| it.name == peer.name) else { continue };
            let before = at.checked_sub(1).and_then(|at| results.entries.get(at));
            let neighbours = [before, results.entries.get(at + 1)].into_iter().flatten();
            let ours = neighbours.filter_map(|neighbour| self.of_entry(neighbour, is_ours));
            pairs.extend(ours.map(|ours| (ours, theirs)));
        }
        pairs
    }

    fn of_entry(self, entry: &Entry, is_wanted: impl Fn(&Contender) -> bool) -> Option<f64> {
        let contender = Contender::named(entry.contender)?;
        let Outcome::Measured(answer) = &entry.outcome else { return None };
        let is_it = entry.workload == self.workload.name() && is_wanted(contender);
        if is_it { self.of_answer(answer) } else { None }
    }
}

/// The spread of repeated measurements of one figure, as in `windlass bench`. Repeated here, because xtask depends on no
/// crate of the product: it must run before any of them compiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) min: f64,
    pub(super) median: f64,
    pub(super) max: f64,
}

impl Spread {
    /// The spread of these values; `None` without any.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        };
        Some(Self { min, median, max })
    }
}
