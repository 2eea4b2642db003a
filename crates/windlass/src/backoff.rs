//! Constructors of [`Backoff`] from a [`Duration`]: the delay before a failed job runs again.
//!
//! ```
//! use std::time::Duration;
//! use windlass::backoff;
//!
//! let gentle = backoff::exponential(Duration::from_secs(30), Duration::from_secs(3_600));
//! assert_eq!(gentle, windlass::Backoff::default());
//! ```

use std::time::Duration;
use windlass_core::limits::BACKOFF_JITTER_DEFAULT_MS;
use windlass_core::policy::Backoff;
use windlass_core::time::millis;

/// Doubles from `first` up to `longest`, plus random jitter of up to half of `first` (at most 15 s).
pub fn exponential(first: Duration, longest: Duration) -> Backoff {
    let base_ms = millis(first);
    Backoff::Exponential { base_ms, cap_ms: millis(longest), jitter_ms: usual_jitter_ms(base_ms) }
}

/// Always `delay`, plus random jitter of up to half of it (at most 15 s).
pub fn fixed(delay: Duration) -> Backoff {
    let delay_ms = millis(delay);
    Backoff::Fixed { delay_ms, jitter_ms: usual_jitter_ms(delay_ms) }
}

/// The default jitter; the same rule as in `#[job(backoff = "…")]`.
fn usual_jitter_ms(delay_ms: u64) -> u64 {
    (delay_ms / 2).min(BACKOFF_JITTER_DEFAULT_MS)
}
