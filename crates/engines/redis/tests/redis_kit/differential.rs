//! Fast paths against the executor: the same stories must leave the same store.

use crate::common::{OwnStore, url};
use std::sync::Arc;
use windlass_core::engine::FastPaths;
use windlass_core::time::ManualClock;
use windlass_kit::{START, SteadyRandom, Subject};
use windlass_redis::{Options, RedisEngine};

/// Number of stories in an ordinary test run, and in a long one.
const CASES: u32 = 10;
const CASES_LONG: u32 = 600;

/// A fresh engine in a store of its own, with a switch.
async fn fresh() -> Subject {
    let store = OwnStore::new();
    let (clock, switch) = (Arc::new(ManualClock::at(START)), FastPaths::default());
    let options = Options::new(url()).name(&store.name).test_clock(clock.clone());
    let options = options.random(Arc::new(SteadyRandom::default()));
    let engine = RedisEngine::connect(options.test_fast_paths(switch.clone())).await;
    Subject::new(Arc::new(engine.expect("connects")), clock).switched_by(switch).guarded(store)
}

windlass_kit::differential!(CASES, CASES_LONG, fresh);
