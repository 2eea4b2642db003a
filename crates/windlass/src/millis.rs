//! Durations as the contract counts them: whole milliseconds.

use std::time::Duration;

/// The milliseconds, rounded up, so that a short time does not become none; the longest that can be
/// said if it is longer, which the contract then refuses by name.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times_round_up_and_endless_ones_saturate() {
        assert_eq!(millis(Duration::ZERO), 0);
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::from_millis(1_500)), 1_500);
        assert_eq!(millis(Duration::MAX), u64::MAX);
    }
}
