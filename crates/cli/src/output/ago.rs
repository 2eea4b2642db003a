//! Formats durations and relative times for people.

use windlass_core::Timestamp;
use windlass_core::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS};

/// A larger unit is used from two of it on, so that 119 s is not shown as "1 min".
const TWO: u64 = 2;

/// A duration in its largest unit: `340 ms`, `12 s`, `3 min`, `5 h`, `9 d`.
pub(crate) fn span(ms: u64) -> String {
    match ms {
        ms if ms < SECOND_MS => format!("{ms} ms"),
        ms if ms < TWO * MINUTE_MS => format!("{} s", ms / SECOND_MS),
        ms if ms < TWO * HOUR_MS => format!("{} min", ms / MINUTE_MS),
        ms if ms < TWO * DAY_MS => format!("{} h", ms / HOUR_MS),
        ms => format!("{} d", ms / DAY_MS),
    }
}

/// A time relative to `now`: `3 min ago`, `in 2 h`, `now`.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    match (at.since(now), now.since(at)) {
        (ahead, _) if ahead >= SECOND_MS => format!("in {}", span(ahead)),
        (_, behind) if behind >= SECOND_MS => format!("{} ago", span(behind)),
        _ => "now".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_their_largest_unit() {
        assert_eq!(span(340), "340 ms");
        assert_eq!(span(119_000), "119 s");
        assert_eq!(span(3 * MINUTE_MS), "3 min");
        assert_eq!(span(47 * HOUR_MS), "47 h");
        assert_eq!(span(9 * DAY_MS), "9 d");
    }

    #[test]
    fn the_past_is_ago_and_the_future_in() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        assert_eq!(ago(now.minus(3 * MINUTE_MS), now), "3 min ago");
        assert_eq!(ago(now.plus(2 * HOUR_MS), now), "in 2 h");
        assert_eq!(ago(now.plus(20), now), "now");
    }
}
