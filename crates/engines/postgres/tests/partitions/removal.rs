//! Ended jobs are removed at once with their partition, and no job is removed that must stay.

use crate::rig::{KEPT_MS, Rig};
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::{JobError, NewJob, State};
use windlass_core::time::Clock as _;

/// Enough that a partition is too large to be removed row by row.
const MANY: usize = 45_000;
const BATCH: usize = 1_000;

async fn complete_many(rig: &mut Rig) {
    for _ in 0..MANY / BATCH {
        let ids = rig.enqueue(BATCH).await;
        rig.complete(&ids).await;
    }
}

#[tokio::test]
async fn many_ended_jobs_go_with_their_partition_and_others_stay() {
    let mut rig = Rig::new().await;
    let waiting = rig.enqueue(1).await[0];
    rig.change(waiting, Change::Pause).await;
    complete_many(&mut rig).await;
    let late = rig.enqueue(1).await[0];
    let later = rig.enqueue(1).await[0];
    rig.pass(KEPT_MS / 2);
    rig.complete(&[late]).await;
    let before = rig.partitions().await;
    // Past the retention of all but the one that ended late.
    rig.pass(KEPT_MS * 3 / 4);
    let removed = rig.upkeep(Work::Retain).await;
    assert_eq!(removed, MANY as u64 + 1, "each is counted once");
    assert!(rig.partitions().await < before, "the partition is gone");
    assert_eq!(rig.count("SELECT count(*) FROM {s}.job").await, 3);
    assert_eq!(rig.state(waiting).await, Some(State::Paused));
    assert_eq!(rig.state(late).await, Some(State::Completed));
    assert_eq!(rig.state(later).await, Some(State::Available));
    rig.is_sound().await;
    // They go on from where they are now.
    rig.change(waiting, Change::Resume).await;
    rig.complete(&[waiting, later]).await;
    rig.pass(KEPT_MS * 2);
    assert_eq!(rig.upkeep(Work::Retain).await, 3);
    assert_eq!(rig.count("SELECT count(*) FROM {s}.job").await, 0);
    rig.is_sound().await;
}

#[tokio::test]
async fn a_job_replayed_during_the_survey_is_not_lost() {
    let mut rig = Rig::new().await;
    complete_many(&mut rig).await;
    let dead = rig.enqueue(2).await;
    rig.end(&dead, Outcome::Fail { error: JobError::new("bad", "no use") }).await;
    rig.pass(KEPT_MS * 5 / 4);
    // The first page is surveyed, and there is another.
    rig.step().await;
    assert!(rig.count("SELECT count(*) FROM {s}.job").await >= MANY as i64, "it goes as a whole");
    rig.change(dead[0], Change::Replay(Box::default())).await;
    let removed = rig.upkeep(Work::Retain).await;
    assert_eq!(removed, MANY as u64 + 1, "each of the others is counted once");
    assert_eq!(rig.count("SELECT count(*) FROM {s}.job").await, 1, "they are gone");
    assert_eq!(rig.state(dead[0]).await, Some(State::Available));
    assert_eq!(rig.state(dead[1]).await, None);
    rig.is_sound().await;
}

#[tokio::test]
async fn a_job_enqueued_late_into_an_old_partition_is_not_lost() {
    let mut rig = Rig::new().await;
    complete_many(&mut rig).await;
    let old = rig.clock.now();
    rig.pass(KEPT_MS * 5 / 4);
    rig.step().await;
    // Before everything that was surveyed.
    let mut job = NewJob::new("k").json("{}");
    let random = windlass_core::random::SystemRandom;
    let id = *job.id.insert(JobId::new(old.minus(1_000), &random));
    let items = rig.engine.enqueue(Enqueue::each([job])).await.expect("enqueues").value;
    assert!(items[0].is_ok());
    rig.upkeep(Work::Retain).await;
    assert_eq!(rig.state(id).await, Some(State::Available));
    rig.is_sound().await;
}

#[tokio::test]
async fn an_open_transaction_delays_a_partition_and_blocks_no_caller() {
    let mut rig = Rig::new().await;
    complete_many(&mut rig).await;
    rig.pass(KEPT_MS * 5 / 4);
    rig.client.batch_execute("BEGIN").await.expect("begins");
    let waiting = rig.count("SELECT count(*) FROM {s}.jobs").await;
    rig.upkeep(Work::Retain).await;
    let still = rig.count("SELECT count(*) FROM {s}.jobs").await;
    let ids = rig.enqueue(10).await;
    rig.complete(&ids).await;
    rig.client.batch_execute("COMMIT").await.expect("ends");
    rig.pass(10_000);
    assert!(still >= MANY as i64 && still >= waiting - 1, "{still} of {waiting}");
    rig.upkeep(Work::Retain).await;
    assert_eq!(rig.count("SELECT count(*) FROM {s}.job").await, 10);
    rig.is_sound().await;
}
