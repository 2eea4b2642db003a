//! Retention as the services do it, and for queues that keep their jobs for different times.

use crate::rig::{KEPT_MS, Rig};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::engine::*;
use windlass_core::model::{NewJob, QueuePatch};
use windlass_core::policy::Retention;
use windlass_services::{ServiceOptions, Services};

/// Enough that a partition is too large for rows, and more than two pages of looking through.
const MANY: usize = 45_000;
const BATCH: usize = 1_000;
/// Long after a partition and what it holds has had its time.
const LATER_MS: u64 = 2 * KEPT_MS;
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn services_drop_a_partition_without_pausing_between_its_pages() {
    let mut rig = Rig::new().await;
    for _ in 0..MANY / BATCH {
        let ids = rig.enqueue(BATCH).await;
        rig.complete(&ids).await;
    }
    rig.pass(LATER_MS);
    let mut options = ServiceOptions::default();
    // Long: whatever happens within this test happened without waiting for the next time.
    options.retain.interval = Duration::from_millis(3_600_000);
    let engine = Arc::new(rig.engine.clone());
    let services = Services::builder(engine).options(options).start().expect("good options");
    let deadline = Instant::now() + PATIENCE;
    while rig.count("SELECT count(*) FROM {s}.job").await > 0 {
        assert!(Instant::now() < deadline, "its jobs are still there");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    services.stop().await;
    rig.is_sound().await;
}

#[tokio::test]
async fn jobs_with_a_retention_shorter_than_a_partition_are_removed_by_rows() {
    const QUEUE: &str = "brief";
    const BRIEF_MS: u64 = 60_000;
    let mut rig = Rig::new().await;
    let patch = QueuePatch::retention(Retention::uniform_ms(BRIEF_MS));
    let taken = rig.engine.configure(vec![Configure::queue(QUEUE, patch)]).await;
    taken.expect("configures").value.remove(0).expect("is taken");
    let kept = rig.enqueue(BATCH).await;
    rig.complete(&kept).await;
    for _ in 0..MANY / BATCH {
        let jobs = (0..BATCH).map(|_| NewJob::new("k").queue(QUEUE).json("{}"));
        rig.engine.enqueue(Enqueue::each(jobs)).await.expect("enqueues");
        let claimed = rig.claim_from(QUEUE, BATCH as u32).await;
        rig.settle(&claimed, Outcome::DONE).await;
    }
    rig.pass(2 * BRIEF_MS);
    assert_eq!(rig.upkeep(Work::Retain).await, MANY as u64, "all of these, and no others");
    rig.is_sound().await;
}
