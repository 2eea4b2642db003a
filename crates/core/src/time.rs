//! Timestamps and clocks. Core never reads the wall clock: the time is injected with a [`Clock`].

pub(crate) mod as_millis;
mod convert;
mod format;

pub use format::InvalidTime;

use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

/// One second in milliseconds, the unit of all durations.
pub const SECOND_MS: u64 = 1_000;
/// One minute in milliseconds.
pub const MINUTE_MS: u64 = 60 * SECOND_MS;
/// One hour in milliseconds.
pub const HOUR_MS: u64 = 60 * MINUTE_MS;
/// One day in milliseconds.
pub const DAY_MS: u64 = 24 * HOUR_MS;

/// A duration in whole milliseconds, the unit of the contract. Rounded up, so that a short duration does not become zero; a
/// duration that does not fit becomes the maximum.
pub const fn millis(duration: Duration) -> u64 {
    let ms = duration.as_nanos().div_ceil(1_000_000);
    if ms > u64::MAX as u128 { u64::MAX } else { ms as u64 }
}

/// A duration in its largest unit, for people: `340 ms`, `12 s`, `3 min`, `5 h`, `9 d`. A larger unit is used from two of
/// it on, so that 119 s is not shown as "1 min".
pub fn rough_span(ms: u64) -> String {
    match ms {
        ms if ms < SECOND_MS => format!("{ms} ms"),
        ms if ms < 2 * MINUTE_MS => format!("{} s", ms / SECOND_MS),
        ms if ms < 2 * HOUR_MS => format!("{} min", ms / MINUTE_MS),
        ms if ms < 2 * DAY_MS => format!("{} h", ms / HOUR_MS),
        ms => format!("{} d", ms / DAY_MS),
    }
}

/// A time of the store's clock: milliseconds since the Unix epoch.
///
/// Arithmetic saturates, because a timestamp that wrapped around would make a job due in the past. As text and in JSON,
/// it is RFC 3339 in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);
    /// Later than every real time.
    pub const MAX: Self = Self(i64::MAX);

    /// The time `ms` milliseconds after the Unix epoch.
    pub const fn from_millis(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This time plus `ms` milliseconds.
    #[must_use]
    pub const fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add_unsigned(ms))
    }

    /// This time minus `ms` milliseconds.
    #[must_use]
    pub const fn minus(self, ms: u64) -> Self {
        Self(self.0.saturating_sub_unsigned(ms))
    }

    /// Milliseconds from `earlier` to this time; 0 if `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> u64 {
        if self.0 <= earlier.0 { 0 } else { self.0.abs_diff(earlier.0) }
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    /// This time plus a duration, in whole milliseconds.
    fn add(self, duration: Duration) -> Self {
        self.plus(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    /// This time minus a duration, in whole milliseconds.
    fn sub(self, duration: Duration) -> Self {
        self.minus(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Sub for Timestamp {
    type Output = Duration;

    /// The time since an earlier timestamp; zero if it is not earlier.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_millis(self.since(earlier))
    }
}

/// The source of time. Injected, so that tests can control it and one store has one clock.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// A clock that moves only when it is set or advanced, for tests.
///
/// ```
/// use windlass_core::time::{Clock, ManualClock, Timestamp};
///
/// let clock = ManualClock::at(Timestamp::from_millis(1_000));
/// clock.advance(500);
/// assert_eq!(clock.now(), Timestamp::from_millis(1_500));
/// ```
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock at `now`.
    pub const fn at(now: Timestamp) -> Self {
        Self(AtomicI64::new(now.0))
    }

    /// Moves it `ms` forward. Atomic: concurrent calls never set it back.
    pub fn advance(&self, ms: u64) {
        let later = |now| Some(Timestamp(now).plus(ms).0);
        // Cannot fail: the closure always returns a value.
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
    }

    /// Sets it, also backwards, as real clocks do.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// The machine's wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the wall clock is read")]
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn durations_become_milliseconds_rounded_up() {
        assert_eq!(millis(Duration::ZERO), 0);
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::from_millis(1_500)), 1_500);
        assert_eq!(millis(Duration::MAX), u64::MAX);
    }

    #[test]
    fn spans_are_shown_in_their_largest_unit() {
        let spans = [340, 119_000, 3 * MINUTE_MS, 47 * HOUR_MS, 9 * DAY_MS];
        assert_eq!(spans.map(rough_span), ["340 ms", "119 s", "3 min", "47 h", "9 d"]);
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Timestamp::MAX.plus(1), Timestamp::MAX);
        assert_eq!(Timestamp::from_millis(i64::MIN).minus(1).as_millis(), i64::MIN);
        assert_eq!(Timestamp::from_millis(5).since(Timestamp::from_millis(9)), 0);
        assert_eq!(Timestamp::MAX.since(Timestamp::from_millis(i64::MIN)), u64::MAX);
    }

    #[test]
    fn durations_are_added_and_subtracted() {
        let later = Timestamp::EPOCH + HOUR;
        assert_eq!((later - Timestamp::EPOCH, later - HOUR), (HOUR, Timestamp::EPOCH));
        assert_eq!(Timestamp::EPOCH - later, Duration::ZERO);
        assert_eq!(Timestamp::MAX + HOUR, Timestamp::MAX);
    }

    #[test]
    fn a_manual_clock_moved_by_two_at_once_moves_for_both() {
        let clock = ManualClock::at(Timestamp::EPOCH);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..10_000).for_each(|_| clock.advance(1)));
            }
        });
        assert_eq!(clock.now(), Timestamp::from_millis(20_000));
    }

    #[test]
    fn a_timestamp_is_written_as_rfc_3339() {
        assert_eq!(Timestamp::from_millis(1_500).to_string(), "1970-01-01T00:00:01.500Z");
        assert_eq!(Timestamp::MAX.to_string(), format!("{}ms", i64::MAX));
    }
}
