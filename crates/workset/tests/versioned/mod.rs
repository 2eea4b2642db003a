//! A store in memory with many writers, for the tests of this crate: every row has a version, and a transaction
//! fails to commit if a row that it read has changed since.

mod engine;
mod tables;
mod transaction;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use windlass_core::random::Seeded;
use windlass_core::time::ManualClock;
use windlass_kit::{START, Subject};

pub(crate) use engine::VersionedEngine;

/// How a store behaves towards its writers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behaviour {
    /// Seeds the schedule: where writers give way to each other, and which commits are refused.
    pub(crate) seed: u64,
    /// Of 100 commits, this many are refused although no row has changed.
    pub(crate) refused_percent: u64,
    /// Whether a commit compares versions. A store that does not is faulty.
    pub(crate) compares: bool,
}

/// Conflicts between writers, refused commits included.
#[derive(Debug, Default)]
pub(crate) struct Conflicts(AtomicU64);

impl Conflicts {
    fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A fresh engine on a clock of its own, and its conflicts.
pub(crate) fn fresh(behaviour: Behaviour) -> (Subject, Arc<Conflicts>) {
    let clock = Arc::new(ManualClock::at(START));
    let random = Arc::new(Seeded::new(behaviour.seed));
    let engine = VersionedEngine::new(clock.clone(), random, behaviour);
    let conflicts = engine.conflicts();
    (Subject::new(Arc::new(engine), clock), conflicts)
}
