//! The configured payload limit of the memory engine.

mod common;

use std::sync::Arc;
use windlass_core::limits::PAYLOAD_BYTES_MAX;
use windlass_core::random::Seeded;
use windlass_core::time::ManualClock;
use windlass_kit::payloads::{self, LARGE_BYTES};
use windlass_kit::{Rig, START, Subject};
use windlass_memory::MemoryEngine;

fn open(bytes_max: usize) -> windlass_core::Result<Subject> {
    let clock = Arc::new(ManualClock::at(START));
    let random = Arc::new(Seeded::new(7));
    let engine = MemoryEngine::with_payload_bytes_max(bytes_max, clock.clone(), random)?;
    Ok(Subject::new(Arc::new(engine), clock))
}

#[tokio::test]
async fn a_payload_of_10_mib_is_stored_if_configured_and_refused_if_not() {
    payloads::payloads_up_to_the_configured_limit(Rig::new(open(LARGE_BYTES).unwrap())).await;
    payloads::large_payloads_are_refused_by_default(Rig::new(common::fresh().await)).await;
}

#[test]
fn a_limit_above_16_mib_is_refused_with_the_limit() {
    let error = open(PAYLOAD_BYTES_MAX + 1).unwrap_err();
    assert_eq!(error.field(), Some("payload_bytes_max"));
    assert!(error.to_string().contains("16777216"), "{error}");
}
