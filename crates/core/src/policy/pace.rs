//! Spreads many jobs over time, so that a given number falls due in each second. It must not know where
//! the jobs come from or go.

use crate::error::{Result, within_range};
use crate::limits::PACE_PER_SECOND_MAX;
use crate::model::Due;
use crate::time::{SECOND_MS, Timestamp};

/// A maximum number of jobs per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    per_second: u64,
}

impl Pace {
    /// At most `jobs` per second.
    pub fn per_second(jobs: u64) -> Result<Self> {
        within_range("per_second", jobs, 1..=PACE_PER_SECOND_MAX)?;
        Ok(Self { per_second: jobs })
    }
}

/// Gives one job after the other its time: each falls due as much later than it would by itself as
/// those before it take at this pace.
///
/// Jobs that would be due at the same time, as those of one batch mostly are, so fall due at most so
/// many per second. Jobs with different times of their own keep their distance from each other and may
/// meet.
///
/// ```
/// use windlass_core::model::Due;
/// use windlass_core::policy::{Pace, Pacer};
/// use windlass_core::time::Timestamp;
///
/// let now = Timestamp::from_millis(1_800_000_000_000);
/// let mut pacer = Pacer::new(Pace::per_second(2)?, now);
/// let due: Vec<Due> = (0..3).map(|_| pacer.due(Due::Now)).collect();
/// assert_eq!(due, [Due::Now, Due::At(now.plus(500)), Due::At(now.plus(1_000))]);
/// # Ok::<(), windlass_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    pace: Pace,
    /// The store's time, as far as is known.
    now: Timestamp,
    /// Since when jobs follow each other at this pace.
    since: Timestamp,
    /// How many did.
    count: u64,
}

impl Pacer {
    /// From `now` on, by the store's clock.
    pub const fn new(pace: Pace, now: Timestamp) -> Self {
        Self { pace, now, since: now, count: 0 }
    }

    /// Goes on when it is `now` by the store's clock: at the same pace after the latest job, or at
    /// once, if jobs come slower than that.
    pub fn go_on(&mut self, now: Timestamp) {
        self.now = now;
        if self.slot() <= now {
            (self.since, self.count) = (now, 0);
        }
    }

    /// When the next job is due that would be due then by itself.
    pub fn due(&mut self, due: Due) -> Due {
        let later_ms = self.slot().since(self.now);
        self.count = self.count.saturating_add(1);
        match (later_ms, due) {
            (0, due) => due,
            // In the past is now: a pace that was counted from there would hold nothing back.
            (ms, due) => Due::At(due.at(self.now).plus(ms)),
        }
    }

    /// The first instant at which the next job may be due.
    fn slot(&self) -> Timestamp {
        let ms = self.count.saturating_mul(SECOND_MS) / self.pace.per_second;
        self.since.plus(ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn pacer(per_second: u64) -> Pacer {
        Pacer::new(Pace::per_second(per_second).unwrap(), NOW)
    }

    fn times(pacer: &mut Pacer, due: Due, count: usize) -> Vec<u64> {
        let now = pacer.now;
        (0..count).map(|_| pacer.due(due).at(now).since(NOW)).collect()
    }

    #[test]
    fn no_second_has_more_jobs_than_the_pace_allows_and_none_fewer_than_it_could() {
        for per_second in [1, 3, 7, 60, 999, 1_000, 1_001, 4_000] {
            let times = times(&mut pacer(per_second), Due::Now, 9_000);
            let n = usize::try_from(per_second).unwrap();
            assert!(times.iter().zip(&times[n..]).all(|(one, nth)| nth - one >= 1_000));
            let last = 8_999 * 1_000 / per_second;
            assert_eq!((times[0], times[8_999]), (0, last), "{per_second} per second");
        }
    }

    #[test]
    fn jobs_with_a_time_of_their_own_are_paced_from_there() {
        assert_eq!(times(&mut pacer(2), Due::After(100), 3), [100, 600, 1_100]);
        assert_eq!(times(&mut pacer(2), Due::At(NOW.plus(9)), 3), [9, 509, 1_009]);
        assert_eq!(times(&mut pacer(2), Due::At(NOW.minus(9_999)), 3), [0, 500, 1_000]);
    }

    #[test]
    fn calls_that_follow_each_other_keep_the_pace_and_slow_ones_owe_nothing() {
        let mut pacer = pacer(10);
        assert_eq!(times(&mut pacer, Due::Now, 3), [0, 100, 200]);
        pacer.go_on(NOW.plus(50));
        assert_eq!(times(&mut pacer, Due::Now, 2), [300, 400], "after the earlier ones");
        pacer.go_on(NOW.plus(60_000));
        assert_eq!(times(&mut pacer, Due::Now, 2), [60_000, 60_100], "the pause is over");
        pacer.go_on(NOW.plus(60_100));
        assert_eq!(times(&mut pacer, Due::Now, 1), [60_200], "not at the time of the last one");
    }

    #[test]
    fn a_pace_that_makes_no_sense_is_refused_by_name() {
        for jobs in [0, PACE_PER_SECOND_MAX + 1, u64::MAX] {
            let error = Pace::per_second(jobs).unwrap_err();
            assert_eq!((error.code(), error.field()), ("invalid", Some("per_second")), "{jobs}");
        }
    }

    #[test]
    fn the_end_of_time_is_not_crossed() {
        let mut pacer = pacer(1);
        pacer.count = u64::MAX;
        assert_eq!(pacer.due(Due::After(u64::MAX)), Due::At(Timestamp::MAX));
        assert!(pacer.due(Due::Now).at(NOW) > NOW);
    }
}
