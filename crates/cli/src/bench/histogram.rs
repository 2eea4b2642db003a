//! A histogram of latencies: constant size for any number of values, and readable while others count. Knows no
//! clock.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of buckets per doubling, as a power of two: percentiles are accurate within 0.4 %.
const STEP_BITS: u32 = 7;
const STEPS: usize = 1 << STEP_BITS;
/// Number of doublings after the first buckets: up to slightly more than an hour. Longer latencies count as the
/// maximum.
const DOUBLINGS: usize = 25;
const BUCKETS: usize = (DOUBLINGS + 1) * STEPS;

/// A histogram that any number of tasks can count into concurrently.
#[derive(Debug)]
pub(super) struct Histogram {
    buckets: Box<[AtomicU64]>,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self { buckets: std::iter::repeat_with(AtomicU64::default).take(BUCKETS).collect() }
    }

    /// Counts one latency.
    pub(super) fn count(&self, micros: u64) {
        self.buckets[bucket(micros)].fetch_add(1, Ordering::Relaxed);
    }

    /// A snapshot of the counts so far.
    pub(super) fn read(&self) -> Latencies {
        Latencies(self.buckets.iter().map(|it| it.load(Ordering::Relaxed)).collect())
    }
}

/// A snapshot of a histogram.
#[derive(Clone, Debug)]
pub(super) struct Latencies(Vec<u64>);

impl Latencies {
    /// The counts since an earlier snapshot.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self(self.0.iter().zip(&earlier.0).map(|(now, then)| now.saturating_sub(*then)).collect())
    }

    /// The percentile in milliseconds; `None` without values.
    pub(super) fn percentile_ms(&self, percent: f64) -> Option<f64> {
        let total: u64 = self.0.iter().sum();
        let rank = ((total as f64 * percent / 100.0).ceil() as u64).max(1);
        let mut seen = 0;
        let at = self.0.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(middle(at) / 1e3)
    }
}

fn bucket(micros: u64) -> usize {
    let doublings = (u64::BITS - micros.leading_zeros()).saturating_sub(STEP_BITS + 1);
    let at = doublings as usize * STEPS + (micros >> doublings) as usize;
    at.min(BUCKETS - 1)
}

/// The middle of a bucket, in microseconds.
fn middle(at: usize) -> f64 {
    let doublings = (at / STEPS).saturating_sub(1) as u32;
    let least = (at - doublings as usize * STEPS) as u64;
    let width = (1_u64 << doublings) as f64;
    least as f64 * width + (width - 1.0) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_falls_into_a_bucket_whose_middle_is_near_it() {
        for micros in (0..2_000).chain([4_095, 4_096, 123_456, 59_999_999, 3_599_999_999]) {
            let near = middle(bucket(micros));
            assert!((near - micros as f64).abs() <= micros as f64 * 0.004, "{micros}: {near}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_those_of_what_came_since() {
        let histogram = Histogram::new();
        assert_eq!(histogram.read().percentile_ms(99.0), None);
        histogram.count(50_000_000);
        let earlier = histogram.read();
        (1..=100).for_each(|micros| histogram.count(micros));
        let since = histogram.read().since(&earlier);
        assert_eq!(since.percentile_ms(50.0), Some(0.05));
        assert_eq!(since.percentile_ms(99.0), Some(0.099));
        assert!(histogram.read().percentile_ms(100.0).unwrap() > 49_000.0);
    }
}
