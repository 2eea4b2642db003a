//! Allowed ranges of the numeric options, for validation before a server exists.

use std::ops::RangeInclusive;
use windlass_core::time::{HOUR_MS, MINUTE_MS};

/// Bytes of one request body: fits the smallest job, and a process's memory.
pub const BODY_BYTES: RangeInclusive<u64> = 512..=(1 << 30);
/// Bytes of all request bodies in memory.
pub const BODIES_BYTES: RangeInclusive<u64> = 512..=(64 << 30);
/// Number of connections.
pub const CONNECTIONS: RangeInclusive<u64> = 1..=1_000_000;
/// Time for a request to arrive.
pub const READ_TIMEOUT_MS: RangeInclusive<u64> = 10..=10 * MINUTE_MS;
/// Time for the engine to answer.
pub const CALL_TIMEOUT_MS: RangeInclusive<u64> = 10..=10 * MINUTE_MS;
/// Time that a shutdown waits for requests in progress.
pub const GRACE_MS: RangeInclusive<u64> = 0..=HOUR_MS;
/// Depth limits of queues. The maximum is the largest integer in a TOML file.
pub const DEPTH: RangeInclusive<u64> = 1..=i64::MAX as u64;
/// Jobs per second of one principal.
pub const JOBS_PER_SECOND: RangeInclusive<u64> = 1..=1_000_000;
