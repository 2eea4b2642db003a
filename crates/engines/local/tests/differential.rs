//! Compares the local engine with and without its rows in memory (the fast paths).

use std::sync::Arc;
use windlass_core::engine::FastPaths;
use windlass_core::time::ManualClock;
use windlass_kit::{START, SteadyRandom, Subject};
use windlass_local::{LocalEngine, Options};

/// Random sequences of calls in a default test run.
const CASES: u32 = 5;
/// Random sequences of calls in a long test run.
const CASES_LONG: u32 = 2_000;

/// A new engine in its own directory, with the switch of its fast paths.
async fn fresh() -> Subject {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (clock, switch) = (Arc::new(ManualClock::at(START)), FastPaths::default());
    let options = Options::new(dir.path()).clock(clock.clone()).test_fast_paths(switch.clone());
    let engine = LocalEngine::open(options.random(Arc::new(SteadyRandom::default())));
    Subject::new(Arc::new(engine.expect("opens")), clock).switched_by(switch).guarded(dir)
}

windlass_kit::differential!(CASES, CASES_LONG, fresh);
