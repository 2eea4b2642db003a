//! Jobs that are replayed while retention empties their partition stay, and can be claimed.

use crate::rig::{ASK_AGAIN_MS, KEPT_MS, Rig};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use windlass_core::engine::*;
use windlass_core::model::{JobError, State};
use windlass_core::policy::Retention;
use windlass_core::{Error, JobId};

/// A retention for which partitions are as narrow as they can be, and longer than it takes until one is due.
const BRIEF_MS: u64 = 5_000;
const DUE_MS: u64 = 200_000;
/// Enough completed jobs that their partition is emptied as a whole.
const MANY: u64 = 7_000;
/// Jobs of one page of a survey.
const PAGE: u64 = 20_000;

fn failed() -> Outcome {
    Outcome::Fail { error: JobError::new("bad", "no use") }
}

/// Holds the row lock of a job until it is rolled back.
async fn hold(rig: &Rig, id: JobId) -> tokio_postgres::Client {
    rig.meanwhile(&format!("SELECT FROM {{s}}.job WHERE id = '{id}' FOR UPDATE")).await
}

/// The job is available, the only one that is left, and can be completed.
async fn is_all_that_is_left(mut rig: Rig, id: JobId) {
    assert_eq!(rig.state(id).await, Some(State::Available));
    assert_eq!(rig.count("SELECT count(*) FROM {s}.job").await, 1);
    rig.complete(&[id]).await;
    assert_eq!(rig.state(id).await, Some(State::Completed));
    rig.is_sound().await;
}

#[tokio::test]
async fn a_job_that_was_locked_during_the_survey_and_then_replayed_is_not_lost() {
    let mut rig = Rig::keeping(BRIEF_MS).await;
    rig.fill(MANY).await;
    let dead = rig.enqueue(200).await;
    rig.end(&dead, failed()).await;
    rig.pass(DUE_MS);
    let holder = hold(&rig, dead[100]).await;
    rig.upkeep(Work::Retain).await;
    holder.batch_execute("ROLLBACK").await.expect("ends");
    rig.change(dead[100], Change::replay()).await;
    rig.pass(ASK_AGAIN_MS);
    rig.upkeep(Work::Retain).await;
    is_all_that_is_left(rig, dead[100]).await;
}

#[tokio::test]
async fn a_job_that_was_locked_on_one_page_of_a_survey_and_replayed_before_the_next_is_not_lost() {
    let mut rig = Rig::new().await;
    rig.fill(PAGE).await;
    let dead = rig.enqueue(3).await;
    rig.end(&dead, failed()).await;
    rig.pass(1);
    rig.fill(PAGE).await;
    rig.pass(KEPT_MS * 5 / 4);
    rig.step().await;
    let holder = hold(&rig, dead[1]).await;
    rig.step().await;
    holder.batch_execute("ROLLBACK").await.expect("ends");
    rig.change(dead[1], Change::replay()).await;
    rig.upkeep(Work::Retain).await;
    is_all_that_is_left(rig, dead[1]).await;
}

/// Replays ended jobs in one engine while another removes them, partition after partition; nothing that was replayed
/// is lost.
async fn replays_beside_retention(retention: Retention, end: Option<Outcome>) {
    const PARTITIONS: usize = 2;
    const BATCHES: usize = 3;
    const BATCH: usize = 1_000;
    let mut rig = Rig::with(retention).await;
    let (mut replayed, mut claimed) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..PARTITIONS {
        rig.fill(MANY).await;
        let mut ids = Vec::new();
        for _ in 0..BATCHES {
            let batch = rig.enqueue(BATCH).await;
            match &end {
                Some(outcome) => rig.end(&batch, outcome.clone()).await,
                None => cancel(&rig, &batch).await,
            }
            ids.extend(batch);
        }
        rig.pass(DUE_MS);
        replayed.extend(race(&rig, &ids).await);
        rig.pass(DUE_MS);
        rig.upkeep(Work::Retain).await;
        claimed.extend(claim_all(&mut rig).await);
    }
    println!("{} of {} were replayed", replayed.len(), PARTITIONS * BATCHES * BATCH);
    assert!(!replayed.is_empty(), "retention was never slower than a replay");
    let lost = replayed.difference(&claimed).count();
    assert_eq!((lost, claimed.len()), (0, replayed.len()), "lost, and claimed");
    rig.pass(DUE_MS);
    rig.upkeep(Work::Retain).await;
    rig.is_sound().await;
}

async fn cancel(rig: &Rig, ids: &[JobId]) {
    let items = ids.iter().map(|id| ChangeItem::new(*id, Change::Cancel)).collect();
    let items = rig.engine.change(items).await.expect("cancels").value;
    assert!(items.iter().all(Item::is_ok));
}

/// Replays jobs while another engine removes them; which were acknowledged as replayed.
async fn race(rig: &Rig, ids: &[JobId]) -> Vec<JobId> {
    const AT_ONCE: usize = 25;
    let (over, other) = (Arc::new(AtomicBool::new(false)), rig.another_engine().await);
    let (ends, clock) = (Arc::clone(&over), Arc::clone(&rig.clock));
    let retention = tokio::spawn(async move {
        while !ends.load(Ordering::SeqCst) {
            let step = other.maintain(MaintainRequest::new(Work::Retain, 1_000)).await;
            step.expect("maintains");
            clock.advance(1_000);
        }
    });
    let mut replayed = Vec::new();
    for batch in ids.chunks(AT_ONCE) {
        let items = batch.iter().map(|id| ChangeItem::new(*id, Change::replay())).collect();
        let items = rig.engine.change(items).await.expect("replays").value;
        for (id, item) in batch.iter().zip(items) {
            match item {
                Ok(changed) => {
                    assert_eq!(changed.state, Some(State::Available));
                    replayed.push(*id);
                }
                Err(Error::NotFound { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    over.store(true, Ordering::SeqCst);
    retention.await.expect("no panic");
    replayed
}

/// Claims whatever is available.
async fn claim_all(rig: &mut Rig) -> BTreeSet<JobId> {
    let mut all = BTreeSet::new();
    loop {
        let claimed = rig.claim(1_000).await;
        if claimed.is_empty() {
            return all;
        }
        all.extend(claimed.into_iter().map(|job| job.header.id));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_replay_of_a_dead_job_is_lost_beside_retention() {
    replays_beside_retention(Retention::uniform_ms(BRIEF_MS), Some(failed())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_replay_of_a_cancelled_job_is_lost_beside_a_short_retention_of_finished_jobs() {
    let finished_only = Retention::default().with_finished(Duration::from_millis(BRIEF_MS));
    replays_beside_retention(finished_only, None).await;
}
