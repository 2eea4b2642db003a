//! The local engine with and without what it keeps in memory.

use std::sync::Arc;
use windlass_core::engine::FastPaths;
use windlass_core::time::ManualClock;
use windlass_kit::{START, SteadyRandom, Subject};
use windlass_local::{LocalEngine, Options};

/// Stories told in an ordinary test run, and in a long one.
const CASES: u32 = 5;
const CASES_LONG: u32 = 2_000;

/// A fresh engine in a directory of its own, with a switch.
async fn fresh() -> Subject {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (clock, switch) = (Arc::new(ManualClock::at(START)), FastPaths::default());
    let options = Options::new(dir.path()).clock(clock.clone()).test_fast_paths(switch.clone());
    let engine = LocalEngine::open(options.random(Arc::new(SteadyRandom::default())));
    Subject::new(Arc::new(engine.expect("opens")), clock).switched_by(switch).guarded(dir)
}

windlass_kit::differential!(CASES, CASES_LONG, fresh);
