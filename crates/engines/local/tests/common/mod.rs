//! Shared by the tests of this engine.

use std::sync::Arc;
use windlass_core::random::Seeded;
use windlass_core::time::ManualClock;
use windlass_kit::{START, Subject};
use windlass_local::{LocalEngine, Options};

/// A new engine in its own directory.
pub(crate) async fn fresh() -> Subject {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let clock = Arc::new(ManualClock::at(START));
    let options = Options::new(dir.path()).clock(clock.clone()).random(Arc::new(Seeded::new(7)));
    let engine = LocalEngine::open(options).expect("open");
    Subject::new(Arc::new(engine), clock).guarded(dir)
}
