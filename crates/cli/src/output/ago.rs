//! Formats relative times for people.

use windlass_core::Timestamp;
use windlass_core::time::{SECOND_MS, rough_span};

/// A time relative to `now`: `3 min ago`, `in 2 h`, `now`.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    match (at.since(now), now.since(at)) {
        (ahead, _) if ahead >= SECOND_MS => format!("in {}", rough_span(ahead)),
        (_, behind) if behind >= SECOND_MS => format!("{} ago", rough_span(behind)),
        _ => "now".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::time::{HOUR_MS, MINUTE_MS};

    #[test]
    fn the_past_is_ago_and_the_future_in() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        assert_eq!(ago(now.minus(3 * MINUTE_MS), now), "3 min ago");
        assert_eq!(ago(now.plus(2 * HOUR_MS), now), "in 2 h");
        assert_eq!(ago(now.plus(20), now), "now");
    }
}
