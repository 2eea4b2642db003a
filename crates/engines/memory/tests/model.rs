//! The memory engine against random stories.

use std::sync::Arc;
use windlass_core::random::Seeded;
use windlass_core::time::ManualClock;
use windlass_kit::{START, Subject};
use windlass_memory::MemoryEngine;

/// Stories told in an ordinary test run.
const CASES: u32 = 1_500;

async fn fresh() -> Subject {
    let clock = Arc::new(ManualClock::at(START));
    let engine = MemoryEngine::with(clock.clone(), Arc::new(Seeded::new(7)));
    Subject::new(Arc::new(engine), clock)
}

windlass_kit::model!(CASES, fresh);
