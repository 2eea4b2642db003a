//! Time series of a long run: a bounded number of points, each with the rate of its interval and, on
//! PostgreSQL, table sizes. The evaluation is in [`trend`]; the output is in [`csv`] and [`chart`].

mod chart;
mod csv;
mod database;
mod trend;
mod watch;

pub(super) use database::{Database, Sizes};
pub(super) use trend::Trend;
pub(super) use watch::{Counter, Watch};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Maximum number of points of a time series. When it is reached, each two points are merged into one.
const POINTS_MAX: usize = 4_000;

/// The time series of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Timeline {
    /// Points in the order of time.
    points: Vec<Point>,
    /// Events in the order of time.
    events: Vec<Event>,
}

/// One point of a time series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Point {
    /// Seconds since the start.
    at_s: f64,
    /// Jobs completed per second since the previous point.
    jobs_per_s: f64,
    /// The 99th percentile of the latency.
    p99_ms: Option<f64>,
    /// Sizes in the database; `None` if there is none, or if it did not answer in time.
    sizes: Option<Sizes>,
}

/// An event to be marked in the chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Event {
    at_s: f64,
    what: String,
}

impl Timeline {
    /// Adds a point; there are never more than [`POINTS_MAX`]. Returns whether points were merged, so that the
    /// caller should halve the sampling rate.
    fn push(&mut self, point: Point) -> bool {
        let is_full = self.points.len() >= POINTS_MAX;
        if is_full {
            self.points = self.points.chunks(2).map(Point::joined).collect();
        }
        self.points.push(point);
        is_full
    }

    /// The points of the measured period, which ends at the first event.
    fn measured(&self) -> &[Point] {
        let end = self.events.first().map_or(f64::INFINITY, |event| event.at_s);
        let count = self.points.iter().take_while(|point| point.at_s <= end).count();
        &self.points[..count]
    }

    /// Writes `NAME.csv` and `NAME.svg` to a directory.
    pub(super) fn write(&self, dir: &Path, name: &str, title: &str) -> Result<()> {
        for (end, text) in [("csv", self.csv()), ("svg", self.svg(title))] {
            let path = dir.join(format!("{name}.{end}"));
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

impl Point {
    /// Merges two neighbouring points: the rate of both, the worse latency, the sizes at the end.
    fn joined(both: &[Self]) -> Self {
        let last = &both[both.len() - 1];
        let sum: f64 = both.iter().map(|point| point.jobs_per_s).sum();
        let p99_ms = both.iter().filter_map(|point| point.p99_ms).reduce(f64::max);
        Self { jobs_per_s: sum / both.len() as f64, p99_ms, ..last.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time series of one point per second, with these rates and database sizes.
    pub(super) fn timeline(points: impl IntoIterator<Item = (f64, u64)>) -> Timeline {
        let point = |(second, (jobs_per_s, bytes)): (usize, (f64, u64))| Point {
            at_s: second as f64 + 1.0,
            jobs_per_s,
            p99_ms: Some(2.5),
            sizes: Some(Sizes {
                hot_bytes: [bytes / 10, 0, 0, 0, 0],
                schema_bytes: bytes / 2,
                database_bytes: bytes,
                ..Sizes::default()
            }),
        };
        Timeline { points: points.into_iter().enumerate().map(point).collect(), events: Vec::new() }
    }

    #[test]
    fn a_run_of_any_length_keeps_a_bounded_number_of_points_and_its_rate() {
        let mut timeline = Timeline::default();
        for second in 0..3 * POINTS_MAX {
            let jobs_per_s = if second % 2 == 0 { 100.0 } else { 300.0 };
            timeline.push(Point { at_s: second as f64, jobs_per_s, p99_ms: None, sizes: None });
            assert!(timeline.points.len() <= POINTS_MAX);
        }
        assert!(timeline.points[..100].iter().all(|point| point.jobs_per_s == 200.0));
        assert!(timeline.points.is_sorted_by(|one, other| one.at_s < other.at_s));
    }

    #[test]
    fn both_files_are_written_and_a_directory_that_cannot_be_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let timeline = timeline([(100.0, 1_000), (200.0, 2_000)]);
        timeline.write(dir.path(), "W6-1", "W6").unwrap();
        let csv = std::fs::read_to_string(dir.path().join("W6-1.csv")).unwrap();
        assert_eq!(csv.lines().count(), 3, "{csv}");
        assert!(std::fs::read_to_string(dir.path().join("W6-1.svg")).unwrap().starts_with("<svg"));
        let error = timeline.write(&dir.path().join("missing"), "W6-1", "W6").unwrap_err();
        assert!(error.to_string().contains("missing"), "{error}");
    }
}
