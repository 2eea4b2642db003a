//! Dead letters by bytes, on engines of this process.

use crate::dead_bytes::{BYTES, die, play};
use crate::rescued::ReplayedFirst;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::engine::{Admin as _, Configure, Get};
use windlass_core::model::{QueuePatch, State};
use windlass_local::LocalEngine;
use windlass_memory::MemoryEngine;
use windlass_services::{ServiceOptions, Services};

#[tokio::test]
async fn dead_letters_beyond_the_bytes_of_their_queue_go_the_oldest_first_in_memory() {
    play(Arc::new(MemoryEngine::new())).await;
}

#[tokio::test]
async fn dead_letters_beyond_the_bytes_of_their_queue_go_the_oldest_first_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LocalEngine::open(windlass_local::Options::new(dir.path())).unwrap();
    play(Arc::new(engine)).await;
}

#[tokio::test]
async fn a_dead_letter_that_is_replayed_and_completed_before_its_discard_keeps_its_record() {
    let engine = Arc::new(ReplayedFirst::default());
    let ids = die(&*engine, "full", 3).await;
    let patch = QueuePatch::dead_bytes_max(Some(BYTES as u64 + 10));
    engine.configure(vec![Configure::queue("full", patch)]).await.expect("set");
    let mut options = ServiceOptions::default();
    options.trim.interval = Duration::from_millis(20);
    let services = Services::builder(engine.clone()).options(options).start().expect("services");
    let states = async || {
        let jobs = engine.get(Get::new(ids.clone())).await.expect("jobs").value;
        jobs.into_iter().map(|job| job.map(|job| job.state)).collect::<Vec<_>>()
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while states().await[..2].contains(&Some(State::Dead)) {
        assert!(Instant::now() < deadline, "nothing was trimmed: {:?}", states().await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    services.stop().await;
    assert_eq!(states().await, [State::Completed, State::Completed, State::Dead].map(Some));
}
