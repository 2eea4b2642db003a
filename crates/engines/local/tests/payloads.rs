//! The configured payload limit of a directory.

mod common;

use std::path::Path;
use std::sync::Arc;
use windlass_core::limits::PAYLOAD_BYTES_MAX;
use windlass_core::time::ManualClock;
use windlass_kit::payloads::{self, LARGE_BYTES};
use windlass_kit::{Rig, START, Subject};
use windlass_local::{LocalEngine, Options};

fn open(dir: &Path, bytes_max: Option<usize>) -> windlass_core::Result<Subject> {
    let clock = Arc::new(ManualClock::at(START));
    let mut options = Options::new(dir).clock(clock.clone());
    if let Some(bytes_max) = bytes_max {
        options = options.payload_bytes_max(bytes_max);
    }
    Ok(Subject::new(Arc::new(LocalEngine::open(options)?), clock))
}

#[tokio::test]
async fn a_payload_of_10_mib_is_stored_if_configured_and_refused_if_not() {
    let dir = tempfile::tempdir().unwrap();
    let large = open(dir.path(), Some(LARGE_BYTES)).unwrap();
    payloads::payloads_up_to_the_configured_limit(Rig::new(large)).await;
    payloads::large_payloads_are_refused_by_default(Rig::new(common::fresh().await)).await;
}

#[test]
fn the_directory_keeps_its_limit_until_another_one_is_configured() {
    let dir = tempfile::tempdir().unwrap();
    let limit = |given| open(dir.path(), given).unwrap().engine().capabilities().payload_bytes_max;
    let limits = [Some(LARGE_BYTES), None, Some(5), None].map(limit);
    assert_eq!(limits, [LARGE_BYTES, LARGE_BYTES, 5, 5]);
}

#[test]
fn a_limit_above_16_mib_is_refused_before_the_directory_is_created() {
    let dir = tempfile::tempdir().unwrap();
    let inside = dir.path().join("new");
    let error = open(&inside, Some(PAYLOAD_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(error.field(), Some("payload_bytes_max"));
    assert!(error.to_string().contains("16777216") && !inside.exists(), "{error}");
}
