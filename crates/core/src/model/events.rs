//! How many events a queue keeps, and for how long.

use crate::error::{Result, within_range};
use crate::growing::growing;
use crate::limits::{
    EVENTS_AGE_DEFAULT_MS, EVENTS_AGE_MAX_MS, EVENTS_AGE_MIN_MS, EVENTS_KEPT_DEFAULT,
    EVENTS_KEPT_MAX,
};
use serde::{Deserialize, Serialize};

growing! {
    /// The bounds of a queue's stream of events. Older events are dropped, and readers that have not seen them learn of the
    /// gap.
    ///
    /// ```
    /// use windlass_core::model::{EventBounds, QueuePatch};
    ///
    /// let patch = QueuePatch::events(Some(EventBounds::default().with_max(1_000)));
    /// assert!(patch.check().is_ok());
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct EventBounds as EventBoundsFields {
        /// How many events are kept, the latest ones. Exact after every call.
        pub max: u64,
        /// How long an event is kept at most; maintenance drops older ones.
        pub max_age_ms: u64,
    }
}

impl Default for EventBounds {
    fn default() -> Self {
        Self { max: EVENTS_KEPT_DEFAULT, max_age_ms: EVENTS_AGE_DEFAULT_MS }
    }
}

impl EventBounds {
    /// Sets how many events are kept.
    #[must_use]
    pub const fn with_max(mut self, max: u64) -> Self {
        self.max = max;
        self
    }

    /// Sets how long an event is kept at most, in milliseconds.
    #[must_use]
    pub const fn with_max_age_ms(mut self, ms: u64) -> Self {
        self.max_age_ms = ms;
        self
    }

    /// Checks that both bounds are within their limits.
    pub fn check(self) -> Result<()> {
        within_range("events.max", self.max, 1..=EVENTS_KEPT_MAX)?;
        within_range("events.max_age_ms", self.max_age_ms, EVENTS_AGE_MIN_MS..=EVENTS_AGE_MAX_MS)
    }
}
