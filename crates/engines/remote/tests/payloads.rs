//! The payload limit of a store behind a server.

mod common;

use common::server::serve;
use std::sync::Arc;
use windlass_core::random::Seeded;
use windlass_core::time::ManualClock;
use windlass_kit::payloads::{self, LARGE_BYTES};
use windlass_kit::{Rig, START, Subject};
use windlass_memory::MemoryEngine;

#[tokio::test]
async fn a_payload_of_10_mib_is_stored_if_the_server_allows_it_and_refused_if_not() {
    let (clock, random) = (Arc::new(ManualClock::at(START)), Arc::new(Seeded::new(7)));
    let engine = MemoryEngine::with_payload_bytes_max(LARGE_BYTES, clock.clone(), random).unwrap();
    let (remote, handle) = serve(Arc::new(engine)).await;
    let large = Subject::new(Arc::new(remote), clock).guarded(handle);
    payloads::payloads_up_to_the_configured_limit(Rig::new(large)).await;
    payloads::large_payloads_are_refused_by_default(Rig::new(common::fresh().await)).await;
}
