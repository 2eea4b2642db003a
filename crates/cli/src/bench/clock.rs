//! The clock of the benchmarks: the only module here that reads one.

use std::time::{Duration, Instant};

/// The current time.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Milliseconds since `start`. An `f32`, because millions of them are stored; it is exact to a microsecond over
/// several seconds.
pub(super) fn ms_since(start: Instant) -> f32 {
    (start.elapsed().as_secs_f64() * 1e3) as f32
}

/// The CPU time of all threads of this process so far.
pub(super) fn cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(used.tv_sec).unwrap_or(0), u32::try_from(used.tv_nsec).unwrap_or(0))
}
