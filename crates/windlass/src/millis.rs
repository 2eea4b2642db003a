//! Conversion of durations to the contract's unit: whole milliseconds.

use std::time::Duration;

/// Milliseconds, rounded up so that a short duration does not become zero. A duration that does not fit
/// becomes `u64::MAX`, which the contract then refuses with an error that names the field.
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
