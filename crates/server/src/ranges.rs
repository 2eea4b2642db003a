//! The range of every number that a server is told, by name: for whoever checks settings before there is a
//! server.

use std::ops::RangeInclusive;
use windlass_core::time::{HOUR_MS, MINUTE_MS};

/// Bytes of one request: enough for the smallest job, and not more than a process can hold.
pub const BODY_BYTES: RangeInclusive<u64> = 512..=(1 << 30);
/// Bytes of all requests held at a time.
pub const BODIES_BYTES: RangeInclusive<u64> = 512..=(64 << 30);
/// Connections at a time.
pub const CONNECTIONS: RangeInclusive<u64> = 1..=1_000_000;
/// How long a request may take to arrive.
pub const READ_TIMEOUT_MS: RangeInclusive<u64> = 10..=10 * MINUTE_MS;
/// How long the engine may take to answer.
pub const CALL_TIMEOUT_MS: RangeInclusive<u64> = 10..=10 * MINUTE_MS;
/// How long a stop may wait.
pub const GRACE_MS: RangeInclusive<u64> = 0..=HOUR_MS;
/// Jobs that may wait in a queue, as far as a file can write them.
pub const DEPTH: RangeInclusive<u64> = 1..=i64::MAX as u64;
/// Jobs per second from one principal.
pub const JOBS_PER_SECOND: RangeInclusive<u64> = 1..=1_000_000;
