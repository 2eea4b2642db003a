//! The stopwatch of the benchmarks: the only place here that reads a clock.

use std::time::{Duration, Instant};

/// The present instant.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Milliseconds since `start`. Half the bytes of an `f64`, because millions of them are kept, and
/// still exact to a microsecond over several seconds.
pub(super) fn ms_since(start: Instant) -> f32 {
    (start.elapsed().as_secs_f64() * 1e3) as f32
}

/// The CPU time of this process so far, all threads together.
pub(super) fn cpu() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(spent.tv_sec).unwrap_or(0),
        u32::try_from(spent.tv_nsec).unwrap_or(0),
    )
}
