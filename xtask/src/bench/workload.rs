//! The workloads, their sizes, and how a result is shown. Knows no peer.

use anyhow::{Result, bail};

use super::contender::Family;
use super::results::Answer;
use super::tables::{number, with_ms};

/// A workload of `bench/harness`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    W1seq,
    W1c64,
    W2,
    W3,
    W4,
    W5,
    W6,
}

/// Sizes and durations. Filling, measuring and starting a worker take less than 20 s in total.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) jobs: u64,
    pub(super) others: u64,
    pub(super) seconds: f64,
    pub(super) fill_seconds: f64,
}

impl Workload {
    pub(super) const ALL: [Self; 7] =
        [Self::W1seq, Self::W1c64, Self::W2, Self::W3, Self::W4, Self::W5, Self::W6];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::W1seq => "W1seq",
            Self::W1c64 => "W1c64",
            Self::W2 => "W2",
            Self::W3 => "W3",
            Self::W4 => "W4",
            Self::W5 => "W5",
            Self::W6 => "W6",
        }
    }

    /// Description in the report.
    pub(super) const fn about(self) -> &'static str {
        match self {
            Self::W1seq => "single enqueues, one caller",
            Self::W1c64 => "single enqueues, 64 callers of one process",
            Self::W2 => "100,000 jobs by the fastest bulk path",
            Self::W3 => {
                "drain waiting jobs with one worker process, until every completion is durable"
            }
            Self::W4 => "idle queue, one job each 20 ms: enqueue call to handler start",
            Self::W5 => "W3 with 200,000 others waiting behind",
            Self::W6 => "enqueue, run and complete together, at most 1,000 jobs in flight",
        }
    }

    /// The sizes. Windlass drains more jobs, so that its figure is that of a steady state, too.
    pub(super) const fn sizes(self, ours_in: Option<Family>) -> Sizes {
        let (jobs, others, seconds, fill_seconds) = match (self, ours_in) {
            (Self::W1seq | Self::W1c64, _) => (0, 0, 2.0, 0.0),
            (Self::W2, _) => (100_000, 0, 6.0, 0.0),
            (Self::W3, Some(Family::Postgres)) => (700_000, 0, 12.0, 5.0),
            (Self::W3, Some(Family::Own)) => (800_000, 0, 10.0, 6.0),
            (Self::W3, Some(Family::RedisAlways | Family::RedisEverysec)) => {
                (400_000, 0, 10.0, 7.0)
            }
            (Self::W3, None) => (50_000, 0, 8.0, 6.0),
            (Self::W4, _) => (500, 0, 12.0, 0.0),
            (Self::W5, _) => (50_000, 200_000, 7.0, 10.0),
            (Self::W6, _) => (0, 0, 5.0, 0.0),
        };
        Sizes { jobs, others, seconds, fill_seconds }
    }

    /// Formats a result.
    pub(super) fn shown(self, answer: &Answer) -> String {
        let p99 = answer.p99_ms.map(|ms| format!(", p99 {}", with_ms(ms))).unwrap_or_default();
        match (self, answer.p50_ms) {
            (Self::W4, Some(p50)) => format!("p50 {}{p99}", with_ms(p50)),
            _ => format!("{}/s{p99}", number(answer.jobs_per_s())),
        }
    }

    /// The workloads whose names start with one of `names`; all if it is empty.
    pub(super) fn select(names: &[String]) -> Result<Vec<Self>> {
        let begins = |it: &Self, name: &str| {
            !name.is_empty() && it.name().to_lowercase().starts_with(&name.to_lowercase())
        };
        for name in names {
            if !Self::ALL.iter().any(|it| begins(it, name)) {
                let known = Self::ALL.map(Self::name).join(", ");
                bail!("unknown workload {name:?}; the known ones: {known}");
            }
        }
        let is_named = |it: &Self| names.is_empty() || names.iter().any(|name| begins(it, name));
        Ok(Self::ALL.into_iter().filter(is_named).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_select_by_their_beginning() {
        let selected = Workload::select(&["w1".to_owned(), "W3".to_owned()]).unwrap();
        assert_eq!(selected, [Workload::W1seq, Workload::W1c64, Workload::W3]);
        assert!(Workload::select(&["W9".to_owned()]).unwrap_err().to_string().contains("W1seq"));
        assert_eq!(Workload::select(&[]).unwrap(), Workload::ALL);
    }

    #[test]
    fn no_cell_takes_more_than_20_seconds() {
        for workload in Workload::ALL {
            for ours in Family::ALL.map(Some).into_iter().chain([None]) {
                let sizes = workload.sizes(ours);
                assert!(sizes.seconds + sizes.fill_seconds <= 17.0, "{workload:?} {sizes:?}");
            }
        }
    }
}
