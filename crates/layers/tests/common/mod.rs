//! Shared by the tests of the layers.

use std::sync::Arc;
use windlass_core::random::Seeded;
use windlass_core::time::ManualClock;
use windlass_kit::{START, Subject};
use windlass_layers::Coalesce;
use windlass_memory::MemoryEngine;

/// A fresh memory engine under the layer.
pub(crate) async fn fresh() -> Subject {
    let clock = Arc::new(ManualClock::at(START));
    let engine = MemoryEngine::with(clock.clone(), Arc::new(Seeded::new(7)));
    Subject::new(Arc::new(engine), clock).wrapped(|engine| Arc::new(Coalesce::new(engine)))
}
