//! The subject of the kit's tests on this engine.

pub(crate) mod server;

use server::serve;
use std::sync::Arc;
use windlass_core::random::Seeded;
use windlass_core::time::ManualClock;
use windlass_kit::{START, Subject};
use windlass_memory::MemoryEngine;

/// A fresh memory engine behind a server.
pub(crate) async fn fresh() -> Subject {
    let clock = Arc::new(ManualClock::at(START));
    let engine = MemoryEngine::with(clock.clone(), Arc::new(Seeded::new(7)));
    let (remote, handle) = serve(Arc::new(engine)).await;
    Subject::new(Arc::new(remote), clock).guarded(handle)
}
