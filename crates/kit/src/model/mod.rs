//! The model-based test: random stories of every verb, with time travel, on an engine and on a small
//! interpreter of core's transition table, side by side. They must agree after every step.
//!
//! A story is made by proptest's state machine strategy and shrinks to the few steps that matter; it
//! is printed as it goes, so that a failure reads as a story.
//!
//! - `op`: what can happen in a story, and how stories are made;
//! - `interpreter`, `claiming`: what must come of it, from the transition table and nothing else;
//! - `lockstep`, `upkeep`, `compare`: both, side by side.

mod claiming;
mod compare;
mod interpreter;
mod lockstep;
mod op;
mod translate;
mod upkeep;

use crate::subject::Subject;
use lockstep::Lockstep;
use op::{Op, OperatorStory, Story};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use proptest_state_machine::ReferenceStateMachine as _;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Steps in a story, at least and at most.
const STEPS: std::ops::Range<usize> = 50..90;

/// The variable that overrides how many stories are told.
const CASES_VARIABLE: &str = "WINDLASS_MODEL_CASES";

/// The variable that chooses other stories: a number, or `random`.
const SEED_VARIABLE: &str = "WINDLASS_MODEL_SEED";

/// The stories of an ordinary run: always the same ones, so that what passed once passes again.
const SEED: u64 = 1;

/// Tells `cases` random stories to fresh engines; panics with the shortest one that an engine gets
/// wrong. The environment variable `WINDLASS_MODEL_CASES` overrides `cases`, and
/// `WINDLASS_MODEL_SEED` (a number, or `random`) tells other stories than the usual ones.
pub fn run<F: Future<Output = Subject>>(cases: u32, fresh: impl Fn() -> F) {
    tell(Story::sequential_strategy(STEPS), cases, fresh);
}

/// The same with stories of operators who cancel, edit, replay and discard jobs that are removed soon after
/// their end.
pub fn run_operators<F: Future<Output = Subject>>(cases: u32, fresh: impl Fn() -> F) {
    tell(OperatorStory::sequential_strategy(STEPS), cases, fresh);
}

/// A story as proptest makes it: no state, its steps, and how many of them were told.
type Told = ((), Vec<Op>, Option<Arc<AtomicUsize>>);

fn tell<F: Future<Output = Subject>>(
    stories: impl Strategy<Value = Told>,
    cases: u32,
    fresh: impl Fn() -> F,
) {
    let asked = std::env::var(CASES_VARIABLE).ok().map(|text| match text.parse() {
        Ok(cases) => cases,
        Err(_) => panic!("{CASES_VARIABLE} is {text:?}: it must be a number of stories"),
    });
    let config = Config {
        cases: asked.unwrap_or(cases),
        max_shrink_iters: 4_000,
        failure_persistence: None,
        rng_seed: seed(),
        ..Config::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let told = TestRunner::new(config).run(&stories, |(_, ops, seen)| {
        runtime.block_on(async {
            let mut lockstep = Lockstep::new(fresh().await);
            for (number, op) in ops.into_iter().enumerate() {
                if let Some(seen) = &seen {
                    seen.fetch_add(1, Ordering::SeqCst);
                }
                lockstep.step(&op).await.map_err(|difference| {
                    TestCaseError::fail(format!(
                        "step {number}, {op:?}: {difference}\nthe story so far:\n{}",
                        lockstep.story()
                    ))
                })?;
            }
            lockstep.end().await.map_err(TestCaseError::fail)
        })
    });
    match told {
        Ok(()) => {}
        // The reason tells the shortest story already; the input would only tell it again.
        Err(TestError::Fail(reason, _)) => panic!("{reason}"),
        Err(TestError::Abort(reason)) => panic!("no stories could be made: {reason}"),
    }
}

/// Which stories to tell.
fn seed() -> RngSeed {
    match std::env::var(SEED_VARIABLE).as_deref() {
        Err(_) => RngSeed::Fixed(SEED),
        Ok("random") => RngSeed::Random,
        Ok(text) => match text.parse() {
            Ok(seed) => RngSeed::Fixed(seed),
            Err(_) => panic!("{SEED_VARIABLE} is {text:?}: it must be a number, or `random`"),
        },
    }
}

/// Makes a `#[test]` that tells random stories to engines made by a function `async fn() -> Subject`.
#[macro_export]
macro_rules! model {
    ($cases:expr, $factory:path) => {
        #[test]
        fn random_stories_end_as_the_transition_table_says() {
            $crate::model::run($cases, $factory);
        }

        #[test]
        fn random_stories_of_operators_beside_short_retention_end_as_the_transition_table_says() {
            $crate::model::run_operators(u32::div_ceil($cases, 2), $factory);
        }
    };
}
