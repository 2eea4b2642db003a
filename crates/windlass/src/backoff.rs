//! Backoffs by [`Duration`]: how long a job waits after a failure.
//!
//! ```
//! use std::time::Duration;
//! use windlass::backoff;
//!
//! let gentle = backoff::exponential(Duration::from_secs(30), Duration::from_secs(3_600));
//! assert_eq!(gentle, windlass::Backoff::default());
//! ```

use crate::millis::millis;
use std::time::Duration;
use windlass_core::limits::BACKOFF_JITTER_DEFAULT_MS;
use windlass_core::policy::Backoff;

/// Doubling from `first` up to `longest`, with up to half of `first` (at most 15 s) added at random.
pub fn exponential(first: Duration, longest: Duration) -> Backoff {
    let base_ms = millis(first);
    Backoff::Exponential { base_ms, cap_ms: millis(longest), jitter_ms: usual_jitter_ms(base_ms) }
}

/// Always `delay`, with up to half of it (at most 15 s) added at random.
pub fn fixed(delay: Duration) -> Backoff {
    let delay_ms = millis(delay);
    Backoff::Fixed { delay_ms, jitter_ms: usual_jitter_ms(delay_ms) }
}

/// The same rule as in `#[job(backoff = "…")]`.
fn usual_jitter_ms(delay_ms: u64) -> u64 {
    (delay_ms / 2).min(BACKOFF_JITTER_DEFAULT_MS)
}
