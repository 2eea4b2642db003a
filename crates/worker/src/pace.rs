//! The rate at which a worker starts jobs of a kind: core's rule, on the worker's own clock.

use std::time::Duration;
use tokio::time::Instant;
use windlass_core::Timestamp;
use windlass_core::model::{Rate, Rule};
use windlass_core::policy::{Ahead, Meter, Room};

/// A rate, and the starts so far.
pub(crate) struct Pace {
    rule: Rule,
    meter: Meter,
    since: Instant,
}

impl Pace {
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rule: Rule::rate(rate), meter: Meter::default(), since: Instant::now() }
    }

    fn now(&self) -> Timestamp {
        let ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        Timestamp::EPOCH.plus(ms)
    }

    /// Number of jobs that may start now.
    pub(crate) fn left(&self) -> u32 {
        let left = self.rule.tokens_left(&self.meter, self.now());
        left.map_or(u32::MAX, |left| u32::try_from(left).unwrap_or(u32::MAX))
    }

    /// Counts a start.
    pub(crate) fn take(&mut self) {
        let now = self.now();
        self.rule.take(&mut self.meter, 1, now);
    }

    /// When the next job may start; `None`: now.
    pub(crate) fn opens_at(&self) -> Option<Instant> {
        match self.rule.room(0, &self.meter, Ahead::default(), 1, self.now()) {
            Room::At(at) => Some(self.since + Duration::from_millis(at.since(Timestamp::EPOCH))),
            Room::Now | Room::Later => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn starts_are_allowed_at_the_rate_after_a_burst() {
        let mut pace = Pace::new(Rate::Bucket { amount: 10, per_ms: 1_000, burst: 2 });
        let begun = Instant::now();
        let mut starts = Vec::new();
        while starts.len() < 5 {
            match pace.opens_at() {
                Some(at) => {
                    assert_eq!(pace.left(), 0);
                    tokio::time::sleep_until(at).await;
                }
                None => {
                    assert!(pace.left() > 0);
                    pace.take();
                    starts.push(begun.elapsed().as_millis());
                }
            }
        }
        assert_eq!(starts, [0, 0, 100, 200, 300]);
    }
}
