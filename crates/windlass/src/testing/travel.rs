//! Time travel: from one thing that falls due to the next, as time would have it.

use super::at_once;
use windlass_core::Timestamp;
use windlass_core::engine::{Maintain as _, MaintainRequest, Work};
use windlass_core::limits::MAINTAIN_BUDGET_MAX;
use windlass_core::time::{Clock as _, ManualClock};
use windlass_memory::MemoryEngine;

/// Stops on the way. After so many, the rest of the time passes in one step.
const STOPS_MAX: usize = 100_000;
/// What happens by itself. Not `Reclaim`: no worker dies of skipped time.
const WORKS: [Work; 4] = [Work::Promote, Work::Expire, Work::Retain, Work::Compact];

/// Moves the clock by `ms`, stopping wherever something falls due.
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

/// Does what is due and fires what schedules owe; says when the next thing is.
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
        None => panic!("the memory engine kept somebody waiting, which is a bug in windlass"),
    }
}

/// Nobody can have made a schedule.
#[cfg(not(feature = "services"))]
const fn fire(_: &MemoryEngine) -> Option<Timestamp> {
    None
}

/// Does everything that is due; says when the next thing is.
fn maintain(engine: &MemoryEngine, now: Timestamp) -> Option<Timestamp> {
    let next = WORKS.into_iter().filter_map(|work| finish(engine, work));
    // What is due and still not done waits for something else than time.
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
