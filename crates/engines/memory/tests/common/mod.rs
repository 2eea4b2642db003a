//! Shared by the tests of this engine.

use std::sync::Arc;
use windlass_core::engine::Atomicity;
use windlass_core::random::Seeded;
use windlass_core::time::ManualClock;
use windlass_kit::{START, Subject};
use windlass_memory::MemoryEngine;

/// A fresh engine whose largest atomic step is a queue.
#[allow(dead_code, reason = "not all tests use it")]
pub(crate) async fn by_queue() -> Subject {
    let clock = Arc::new(ManualClock::at(START));
    let random = Arc::new(Seeded::new(7));
    let engine = MemoryEngine::with_atomicity(Atomicity::Queue, clock.clone(), random);
    Subject::new(Arc::new(engine), clock)
}

/// The same with deliveries that are cut off.
#[allow(dead_code, reason = "not all tests use it")]
pub(crate) async fn cut_off() -> Subject {
    cut_by(11).await
}

/// The same with other deliveries.
#[allow(dead_code, reason = "not all tests use it")]
pub(crate) async fn cut_by(seed: u64) -> Subject {
    let clock = Arc::new(ManualClock::at(START));
    let random = Arc::new(Seeded::new(7));
    let engine = MemoryEngine::with_atomicity(Atomicity::Queue, clock.clone(), random);
    engine.cut_deliveries(seed);
    Subject::new(Arc::new(engine), clock)
}

/// A fresh engine on a clock of its own.
#[allow(dead_code, reason = "not all tests use it")]
pub(crate) async fn fresh() -> Subject {
    let clock = Arc::new(ManualClock::at(START));
    let engine = MemoryEngine::with(clock.clone(), Arc::new(Seeded::new(7)));
    Subject::new(Arc::new(engine), clock)
}
