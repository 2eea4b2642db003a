//! Delays after a failure or a lost lease.

use crate::error::{Error, Result, within_range};
use crate::limits;
use crate::random::Random;
use serde::{Deserialize, Serialize};

/// The delay after a reported failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Backoff {
    /// `min(base · 2^(failures − 1), cap)` plus jitter.
    Exponential {
        /// The delay after the first failure.
        base_ms: u64,
        /// The longest delay before jitter.
        cap_ms: u64,
        /// Jitter is drawn from zero up to this.
        jitter_ms: u64,
    },
    /// Always the same, plus jitter.
    Fixed {
        /// The delay.
        delay_ms: u64,
        /// Jitter is drawn from zero up to this.
        jitter_ms: u64,
    },
}

impl Default for Backoff {
    fn default() -> Self {
        Self::Exponential {
            base_ms: limits::BACKOFF_BASE_DEFAULT_MS,
            cap_ms: limits::BACKOFF_CAP_DEFAULT_MS,
            jitter_ms: limits::BACKOFF_JITTER_DEFAULT_MS,
        }
    }
}

impl Backoff {
    /// Always exactly `delay_ms`, without jitter.
    pub const fn exactly(delay_ms: u64) -> Self {
        Self::Fixed { delay_ms, jitter_ms: 0 }
    }

    /// The delay after the `failures`-th failure (from 1).
    ///
    /// ```
    /// use windlass_core::{policy::Backoff, random::Seeded};
    ///
    /// // "min(30 · 2^n, 600) seconds"
    /// let backoff = Backoff::Exponential { base_ms: 30_000, cap_ms: 600_000, jitter_ms: 0 };
    /// let delays = [1, 2, 6, u32::MAX].map(|n| backoff.delay_ms(n, &Seeded::new(0)));
    /// assert_eq!(delays, [30_000, 60_000, 600_000, 600_000]);
    /// ```
    pub fn delay_ms(self, failures: u32, random: &dyn Random) -> u64 {
        let (delay_ms, jitter_ms) = match self {
            Self::Exponential { base_ms, cap_ms, jitter_ms } => {
                (doubled(base_ms, failures).min(cap_ms), jitter_ms)
            }
            Self::Fixed { delay_ms, jitter_ms } => (delay_ms, jitter_ms),
        };
        delay_ms.saturating_add(jitter(jitter_ms, random)).min(limits::BACKOFF_MAX_MS)
    }

    /// The longest possible delay after the `failures`-th failure.
    pub fn delay_max_ms(self, failures: u32) -> u64 {
        let (Self::Exponential { jitter_ms, .. } | Self::Fixed { jitter_ms, .. }) = self;
        let without = self.without_jitter().delay_ms(failures, &NoRandom);
        without.saturating_add(jitter_ms).min(limits::BACKOFF_MAX_MS)
    }

    /// The same backoff without jitter.
    #[must_use]
    pub const fn without_jitter(self) -> Self {
        match self {
            Self::Exponential { base_ms, cap_ms, .. } => {
                Self::Exponential { base_ms, cap_ms, jitter_ms: 0 }
            }
            Self::Fixed { delay_ms, .. } => Self::Fixed { delay_ms, jitter_ms: 0 },
        }
    }

    /// Checks that every value is within its limits.
    pub fn check(self) -> Result<()> {
        let max = 0..=limits::BACKOFF_MAX_MS;
        match self {
            Self::Exponential { base_ms, cap_ms, jitter_ms } => {
                within_range("backoff.base_ms", base_ms, max.clone())?;
                within_range("backoff.cap_ms", cap_ms, max.clone())?;
                within_range("backoff.jitter_ms", jitter_ms, max)?;
                if cap_ms < base_ms {
                    return Err(Error::invalid(
                        "backoff.cap_ms",
                        cap_ms,
                        format!("it must not be below backoff.base_ms ({base_ms})"),
                    ));
                }
                Ok(())
            }
            Self::Fixed { delay_ms, jitter_ms } => {
                within_range("backoff.delay_ms", delay_ms, max.clone())?;
                within_range("backoff.jitter_ms", jitter_ms, max)
            }
        }
    }
}

/// The delay after a lost lease: short, doubling with each crash, with jitter so that the jobs of a dead
/// worker do not all return at once.
pub fn crash_delay_ms(crashes: u32, random: &dyn Random) -> u64 {
    doubled(limits::CRASH_BACKOFF_BASE_MS, crashes).min(limits::CRASH_BACKOFF_CAP_MS)
        + jitter(limits::CRASH_BACKOFF_JITTER_MS, random)
}

/// `base · 2^(count − 1)`, saturating.
fn doubled(base_ms: u64, count: u32) -> u64 {
    let factor = 1_u64.checked_shl(count.saturating_sub(1)).unwrap_or(u64::MAX);
    base_ms.saturating_mul(factor)
}

/// A random number from zero to `max_ms`, both included.
fn jitter(max_ms: u64, random: &dyn Random) -> u64 {
    random.below(max_ms.saturating_add(1))
}

/// A source of zeros, for delays without jitter.
struct NoRandom;

impl Random for NoRandom {
    fn next_u64(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seeded;
    use proptest::prelude::*;

    #[test]
    fn the_default_starts_at_thirty_seconds_and_ends_at_an_hour() {
        let plain = Backoff::default().without_jitter();
        let delays = [1, 2, 3, 7, 8, 64, 65].map(|n| plain.delay_ms(n, &Seeded::new(1)));
        let hour = 3_600_000;
        assert_eq!(delays, [30_000, 60_000, 120_000, 1_920_000, hour, hour, hour]);
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let backoff = Backoff::Exponential { base_ms: 10, cap_ms: 5, jitter_ms: 0 };
        assert_eq!(backoff.check().unwrap_err().field(), Some("backoff.cap_ms"));
        let long = Backoff::exactly(limits::BACKOFF_MAX_MS + 1);
        assert_eq!(long.check().unwrap_err().field(), Some("backoff.delay_ms"));
    }

    #[test]
    fn a_crash_waits_a_second_or_two_then_longer_but_never_long() {
        let random = Seeded::new(3);
        assert!((1_000..=2_000).contains(&crash_delay_ms(1, &random)));
        assert!((30_000..=31_000).contains(&crash_delay_ms(40, &random)));
    }

    proptest! {
        #[test]
        fn a_delay_is_within_its_bounds(
            base in 0..10_000_u64, more in 0..100_000_u64, jitter in 0..5_000_u64,
            failures in 1..100_u32, seed: u64,
        ) {
            let backoff = Backoff::Exponential { base_ms: base, cap_ms: base + more, jitter_ms: jitter };
            backoff.check().unwrap();
            let delay = backoff.delay_ms(failures, &Seeded::new(seed));
            let least = backoff.without_jitter().delay_ms(failures, &Seeded::new(seed));
            prop_assert!(least <= delay && delay <= backoff.delay_max_ms(failures));
            prop_assert!(delay <= base + more + jitter);
        }
    }
}
