//! Proves the working set without a server: a store whose rows have versions, many writers, forced conflicts.

mod versioned;

use versioned::{Behaviour, fresh};
use windlass_kit::Subject;
use windlass_kit::history::{Load, Verdict, check, drive};

/// Stories of the model-based test in an ordinary run.
const CASES: u32 = 150;
/// Seeds of histories in an ordinary run.
const SEEDS: u64 = 6;

const SOUND: Behaviour = Behaviour { seed: 7, refused_percent: 25, compares: true };

async fn one_writer() -> Subject {
    fresh(SOUND).0
}

windlass_kit::model!(CASES, one_writer);

/// Many clients on one thread, whose calls are interleaved by a seeded schedule; the verdict on what they saw, and
/// the number of conflicts.
fn judge(load: Load, behaviour: Behaviour) -> (Verdict, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (subject, conflicts) = fresh(behaviour);
    let driven = runtime.block_on(drive(subject, load));
    (check(&driven.history, &driven.end, &load.options()), conflicts.total())
}

#[test]
fn histories_of_many_writers_can_be_explained() {
    for seed in 0..SEEDS {
        let load = Load::new(seed).batches(20);
        for load in [load, load.retention_ms(30_000)] {
            let (verdict, conflicts) = judge(load, Behaviour { seed, ..SOUND });
            assert!(verdict.is_clean(), "{load:?}: {verdict}");
            assert!(conflicts > 100, "{load:?}: {conflicts} conflicts are too few to prove much");
        }
    }
}

/// Real threads, whose interleaving no seed decides.
#[test]
fn histories_of_writers_on_two_threads_can_be_explained() {
    windlass_kit::history::run(0..2, || async { fresh(SOUND).0 });
}

#[test]
fn a_store_that_ignores_conflicts_is_detected() {
    let faulty = |seed| Behaviour { seed, refused_percent: 0, compares: false };
    let detected = |seed| {
        let judged =
            std::panic::catch_unwind(|| judge(Load::new(seed).batches(20), faulty(seed)).0);
        // The store itself panics if two jobs come to hold one key.
        judged.map_or(true, |verdict| !verdict.is_clean())
    };
    assert!((0..3).any(detected), "lost updates went unnoticed");
}
