//! Evaluates a time series: whether the rate is stable, and whether sizes stay bounded. Knows no workloads.

use super::super::table;
use super::{Point, Sizes, Timeline};
use serde::Serialize;

/// Fraction of the measured period that counts as warm-up.
const WARM_UP: f64 = 0.1;
/// Minimum number of points of a trend.
const POINTS_MIN: usize = 5;
/// A size that grows by less than this percentage from one third of a run to the next is flat.
const FLAT_PERCENT: f64 = 5.0;

/// The trend of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(in crate::bench) struct Trend {
    /// Ratio of the rate in the last fifth to that in the first fifth, after the warm-up.
    pub(in crate::bench) rate: Option<f64>,
    /// Total size of all hot tables.
    pub(in crate::bench) hot: Option<Course>,
    /// Size of all tables of the schema.
    pub(in crate::bench) schema: Option<Course>,
    /// Size of the whole database.
    pub(in crate::bench) database: Option<Course>,
}

/// The course of a size, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(in crate::bench) struct Course {
    pub(in crate::bench) start: u64,
    pub(in crate::bench) peak: u64,
    pub(in crate::bench) end: u64,
}

impl Course {
    fn of(sizes: impl Iterator<Item = u64>) -> Option<Self> {
        let fold = |course: Option<Self>, size: u64| match course {
            None => Some(Self { start: size, peak: size, end: size }),
            Some(course) => Some(Self { peak: course.peak.max(size), end: size, ..course }),
        };
        sizes.fold(None, fold)
    }

    fn said(&self, what: &str) -> String {
        let mb = |bytes: u64| table::fine(Some(bytes as f64 / 1e6));
        format!("{what} {} → {} MB, peak {}", mb(self.start), mb(self.end), mb(self.peak))
    }
}

/// The percentage by which the maximum size of the last third exceeds that of the middle third.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(in crate::bench) struct Growth {
    pub(in crate::bench) database_percent: f64,
    pub(in crate::bench) schema_percent: f64,
}

impl Growth {
    /// The verdict as text.
    pub(in crate::bench) fn said(&self) -> String {
        let verdict = if self.database_percent < FLAT_PERCENT { "flat" } else { "NOT flat" };
        format!(
            "size {verdict}: largest in the last third against the middle third {:+.1} % (database), {:+.1} % (schema)",
            self.database_percent, self.schema_percent
        )
    }
}

impl Timeline {
    /// The trend of the measured period; sizes cover the whole time series.
    pub(in crate::bench) fn trend(&self) -> Trend {
        let course =
            |size: fn(&Sizes) -> u64| Course::of(self.sizes().map(|(_, sizes)| size(sizes)));
        Trend {
            rate: self.rate_trend(),
            hot: course(Sizes::all_hot_bytes),
            schema: course(|it| it.schema_bytes),
            database: course(|it| it.database_bytes),
        }
    }

    fn rate_trend(&self) -> Option<f64> {
        let points = self.measured();
        let steady = &points[(points.len() as f64 * WARM_UP).ceil() as usize..];
        if steady.len() < POINTS_MIN {
            return None;
        }
        let fifth = steady.len() / 5;
        let mean = |points: &[Point]| {
            points.iter().map(|point| point.jobs_per_s).sum::<f64>() / points.len() as f64
        };
        let first = mean(&steady[..fifth]);
        (first > 0.0).then(|| mean(&steady[steady.len() - fifth..]) / first)
    }

    fn sizes(&self) -> impl Iterator<Item = (f64, &Sizes)> {
        self.points.iter().filter_map(|point| Some((point.at_s, point.sizes.as_ref()?)))
    }

    /// The growth of sizes at the end of the run; `None` if there are too few points.
    pub(in crate::bench) fn growth(&self) -> Option<Growth> {
        let end_s = self.points.last()?.at_s;
        let percent = |size: fn(&Sizes) -> u64| {
            let most = |from: f64, upto: f64| {
                let within = |at_s: f64| from * end_s < at_s && at_s <= upto * end_s;
                let sizes = self.sizes().filter(|(at_s, _)| within(*at_s));
                sizes.map(|(_, sizes)| size(sizes)).max().filter(|most| *most > 0)
            };
            let (middle, last) = (most(1.0 / 3.0, 2.0 / 3.0)?, most(2.0 / 3.0, 1.0)?);
            Some((last as f64 / middle as f64 - 1.0) * 100.0)
        };
        Some(Growth {
            database_percent: percent(|it| it.database_bytes)?,
            schema_percent: percent(|it| it.schema_bytes)?,
        })
    }
}

impl Trend {
    /// The trend as text, as far as it is known.
    pub(in crate::bench) fn said(&self) -> Vec<String> {
        let rate = self.rate.map(|rate| format!("last fifth {rate:.2} × the first fifth"));
        let sizes =
            [(&self.hot, "hot tables"), (&self.schema, "schema"), (&self.database, "database")];
        let sizes =
            sizes.into_iter().filter_map(|(course, what)| Some(course.as_ref()?.said(what)));
        rate.into_iter().chain(sizes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Event;
    use super::super::tests::timeline;
    use super::*;

    #[test]
    fn a_falling_rate_is_reported_and_samples_after_the_measurement_are_ignored() {
        // Ten points of warm-up, then from 1,000 down to 510, then nothing after the release.
        let falling =
            (0..100_u32).map(|at| if at < 10 { 5.0 } else { 1_000.0 - f64::from(at - 10) * 5.0 });
        let rates = falling.chain([0.0; 20]);
        let mut timeline = timeline(rates.map(|rate| (rate, 1_000)));
        timeline.events.push(Event { at_s: 100.0, what: "released".into() });
        let rate = timeline.trend().rate.unwrap();
        assert!((0.61..0.65).contains(&rate), "{rate}");
    }

    #[test]
    fn sizes_are_reported_at_the_start_at_their_peak_and_at_the_end() {
        let trend = timeline([2_000_000, 9_000_000, 4_000_000].map(|size| (10.0, size))).trend();
        assert_eq!(trend.rate, None, "three points are no trend");
        let database = Course { start: 2_000_000, peak: 9_000_000, end: 4_000_000 };
        assert_eq!(trend.database, Some(database));
        assert_eq!(trend.hot.unwrap().peak, 900_000);
        assert!(
            trend.said().contains(&"database 2.00 → 4.00 MB, peak 9.00".to_owned()),
            "{trend:?}"
        );
    }

    #[test]
    fn a_size_is_flat_if_the_last_third_is_no_larger_than_the_middle_one() {
        let flat = timeline((0..30).map(|at| (1.0, if at < 10 { at * 100 } else { 1_000 })));
        let growth = flat.growth().unwrap();
        assert_eq!(growth.database_percent, 0.0);
        assert!(growth.said().starts_with("size flat"), "{growth:?}");
        let growing = timeline((1..=30).map(|at| (1.0, at * 100))).growth().unwrap();
        assert!((growing.database_percent - 50.0).abs() < 0.1, "{growing:?}");
        assert!(growing.said().starts_with("size NOT flat"), "{growing:?}");
        assert_eq!(Timeline::default().growth(), None);
    }
}
