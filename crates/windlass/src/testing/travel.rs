//! Time travel: moves the clock from one due time to the next.

use super::at_once;
use windlass_core::Timestamp;
use windlass_core::engine::{Maintain as _, MaintainRequest, Work};
use windlass_core::limits::MAINTAIN_BUDGET_MAX;
use windlass_core::time::{Clock as _, ManualClock};
use windlass_memory::MemoryEngine;

/// Maximum number of stops. After that, the rest of the time passes in one step.
const STOPS_MAX: usize = 100_000;
/// Maintenance to run at each stop. Not `Reclaim`: skipped time must not expire the sessions of workers.
const WORKS: [Work; 4] = [Work::Promote, Work::Expire, Work::Retain, Work::Compact];

/// Moves the clock by `ms`, stopping at every due time on the way.
pub(super) fn advance(engine: &MemoryEngine, clock: &ManualClock, ms: u64) {
    let end = clock.now().plus(ms);
    for _ in 0..STOPS_MAX {
        match stop_over(engine, clock.now()) {
            Some(next) if next < end => clock.set(next),
            _ => break,
        }
    }
    clock.set(end);
    stop_over(engine, end);
}

/// Runs due maintenance and schedules; returns the next due time.
fn stop_over(engine: &MemoryEngine, now: Timestamp) -> Option<Timestamp> {
    let fire = fire(engine).filter(|next| *next > now);
    [maintain(engine, now), fire].into_iter().flatten().min()
}

#[cfg(feature = "services")]
fn fire(engine: &MemoryEngine) -> Option<Timestamp> {
    use futures_util::FutureExt as _;
    let schedules = windlass_services::Schedules::new(std::sync::Arc::new(engine.clone()));
    match schedules.fire_due().now_or_never() {
        Some(Ok(next)) => next,
        Some(Err(error)) => panic!("the test queue cannot fire its schedules: {error}"),
        None => panic!("the memory engine did not answer at once, which is a bug in windlass"),
    }
}

/// Without the services there are no schedules.
#[cfg(not(feature = "services"))]
const fn fire(_: &MemoryEngine) -> Option<Timestamp> {
    None
}

/// Runs all due maintenance; returns the next due time.
fn maintain(engine: &MemoryEngine, now: Timestamp) -> Option<Timestamp> {
    let next = WORKS.into_iter().filter_map(|work| finish(engine, work));
    // Work that is due but not done waits for something other than time.
    next.filter(|next| *next > now).min()
}

fn finish(engine: &MemoryEngine, work: Work) -> Option<Timestamp> {
    loop {
        let step = at_once(engine.maintain(MaintainRequest::new(work, MAINTAIN_BUDGET_MAX)));
        if !step.more {
            return step.next_at;
        }
    }
}
