//! The differential test: the same stories on engines whose fast paths are on, off, and flipped at random. Replies
//! and snapshots must be equal: a fast path may be faster than the executor, and nothing else.

use super::op::{Op, Story};
use super::snapshot::{Snapshot, difference};
use super::story_runner::StoryRunner;
use super::{STEPS, run_stories, run_stories_until};
use crate::subject::Subject;
use futures_util::future::join3;
use proptest_state_machine::ReferenceStateMachine as _;
use std::fmt::Write as _;
use std::future::Future;
use windlass_core::random::{Random, Seeded};

/// Steps between two full snapshots; after every step, jobs and counts are compared.
const FULL_EVERY: usize = 10;

/// How an engine carries out the requests of a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speed {
    /// Through the executor, all of them.
    Off,
    /// By fast paths, where there are any.
    On,
    /// By one or the other, from step to step.
    Mixed,
}

/// Runs `cases` random stories on three engines each, and panics with the shortest one that ends differently. The
/// engines need a switch ([`Subject::switched_by`]) and randomness that does not depend on how much of it is used
/// ([`SteadyRandom`](crate::SteadyRandom)). The variables of [`run`](super::run) apply.
pub fn run_differential<F: Future<Output = Subject>>(cases: u32, fresh: impl Fn() -> F) {
    let stories = Story::sequential_strategy(STEPS);
    run_stories(stories, cases, async |ops, seen| compare(&fresh, ops, seen).await);
}

/// The first difference in as many stories, as it is found; `None` if there is none. For tests of the test.
pub fn difference_in<F: Future<Output = Subject>>(
    cases: u32,
    fresh: impl Fn() -> F,
) -> Option<String> {
    let stories = Story::sequential_strategy(STEPS);
    // Steps are counted for shrinking only.
    run_stories_until(stories, cases, 0, async |ops, _| compare(&fresh, ops, &|| {}).await).err()
}

/// Runs a story on three engines; `Err` names the step at which they differ.
async fn compare<F: Future<Output = Subject>>(
    fresh: &impl Fn() -> F,
    ops: Vec<Op>,
    seen: &dyn Fn(),
) -> Result<(), String> {
    let mut trio = Trio::new(fresh().await, fresh().await, fresh().await);
    for (number, op) in ops.into_iter().enumerate() {
        seen();
        trio.step(number, &op).await.map_err(|difference| {
            let story = &trio.story;
            format!("step {number}, {op:?}: {difference}\nthe story so far:\n{story}")
        })?;
    }
    trio.end().await.map_err(|difference| format!("{difference}\nthe story:\n{}", trio.story))
}

struct Trio {
    runners: [(Speed, StoryRunner); 3],
    /// Decides which requests of the mixed story may be fast.
    coin: Seeded,
    story: String,
}

impl Trio {
    fn new(off: Subject, on: Subject, mixed: Subject) -> Self {
        let runner = |speed, subject| (speed, StoryRunner::new(subject));
        let runners = [runner(Speed::Off, off), runner(Speed::On, on), runner(Speed::Mixed, mixed)];
        Self { runners, coin: Seeded::new(1), story: String::new() }
    }

    fn flip(&self) {
        let heads = self.coin.below(2) == 0;
        for (speed, runner) in &self.runners {
            runner.fast_paths(match speed {
                Speed::Off => false,
                Speed::On => true,
                Speed::Mixed => heads,
            });
        }
    }

    async fn step(&mut self, number: usize, op: &Op) -> Result<(), String> {
        let _ = writeln!(self.story, "  {op:?}");
        self.flip();
        let full = number % FULL_EVERY == FULL_EVERY - 1;
        self.all(async |runner| {
            let reply = runner.step(op).await;
            let mut snapshot = match full {
                true => runner.full_snapshot().await,
                false => runner.snapshot().await,
            };
            snapshot.insert(" the reply".into(), reply);
            snapshot
        })
        .await
    }

    async fn end(&mut self) -> Result<(), String> {
        self.all(async |runner| runner.full_snapshot().await).await?;
        self.flip();
        self.all(async |runner| runner.probe().await).await?;
        self.all(async |runner| runner.full_snapshot().await).await
    }

    /// Does the same with all of them at a time, and compares what came of it.
    async fn all(&mut self, act: impl AsyncFn(&mut StoryRunner) -> Snapshot) -> Result<(), String> {
        let [(_, off), (on_speed, on), (mixed_speed, mixed)] = &mut self.runners;
        let (expected, on, mixed) = join3(act(off), act(on), act(mixed)).await;
        for (speed, got) in [(on_speed, on), (mixed_speed, mixed)] {
            if let Some(difference) = difference(&expected, &got) {
                return Err(format!("fast paths Off and {speed:?} differ:\n{difference}"));
            }
        }
        Ok(())
    }
}

/// Makes a `#[test]` that compares engines with and without fast paths, made by a function `async fn() -> Subject`, and
/// a longer one for the long profile.
#[macro_export]
macro_rules! differential {
    ($cases:expr, $long_cases:expr, $factory:path) => {
        #[test]
        fn stories_end_alike_with_fast_paths_on_off_and_mixed() {
            $crate::model::run_differential($cases, $factory);
        }

        #[test]
        #[ignore = "long: many more stories"]
        fn many_stories_end_alike_with_fast_paths_on_off_and_mixed() {
            $crate::model::run_differential($long_cases, $factory);
        }
    };
}
