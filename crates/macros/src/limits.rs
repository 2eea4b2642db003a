//! The limits of `windlass-core` that an attribute can exceed, so that exceeding one is a compile error.
//! Duplicated here, because a macro crate should not depend on the crates it serves; tests of `windlass`
//! compare both.

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

pub(crate) const NAME_BYTES_MAX: usize = 128;
pub(crate) const MAX_ATTEMPTS_MAX: u32 = 1_000_000;
pub(crate) const MAX_CRASHES_MAX: u32 = 1_000_000;
pub(crate) const TIMEOUT_MAX_MS: u64 = 7 * DAY_MS;
pub(crate) const AGE_MAX_MS: u64 = 3_653 * DAY_MS;
pub(crate) const BACKOFF_MAX_MS: u64 = 365 * DAY_MS;
pub(crate) const BACKOFF_JITTER_DEFAULT_MS: u64 = 15_000;
