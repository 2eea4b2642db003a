//! A partition is created while an insert of its range is in flight to the default partition: the server refuses that
//! insert (23514), and the engine repeats it.

use crate::common::application;
use crate::rig::{BEGIN_AFTER_MS, KEPT_MS, LONG_MS, Rig};
use std::time::Duration;
use tokio_postgres::Client;
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::{Due, NewJob};
use windlass_core::time::Clock as _;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How many wait for where jobs without a partition go.
const WAITING: &str = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted
    AND relation IN ('{s}.job_default'::regclass, '{s}.finished_default'::regclass)";

/// A partition for jobs enqueued from now on, in a transaction that stays open: others do not see it yet.
async fn half_added(rig: &Rig) -> Client {
    let now = rig.clock.now();
    let [first, end] = [now, now.plus(KEPT_MS)].map(|at| JobId::first_at(at).as_uuid());
    rig.meanwhile(&format!(
        "SELECT {{s}}.add_partitions(ARRAY['{first}']::uuid[], ARRAY['{end}']::uuid[])"
    ))
    .await
}

/// Waits until this many transactions wait for the lock.
async fn until_waiting(rig: &Rig, number: i64) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while rig.count(WAITING).await < number {
        assert!(tokio::time::Instant::now() < deadline, "no session waits for it");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[tokio::test]
async fn in_flight_jobs_and_reports_get_into_the_new_partition() {
    let mut rig = Rig::new().await;
    rig.pass(LONG_MS);
    // Enqueued before its partition, it is moved into it; its end is what is on the way.
    rig.enqueue(1).await;
    let claimed = rig.claim(1).await;
    let partition = half_added(&rig).await;
    let engine = rig.engine.clone();
    let plain = tokio::spawn(async move {
        engine.enqueue(Enqueue::each([NewJob::new("k"), NewJob::new("k")])).await
    });
    let engine = rig.engine.clone();
    let later = NewJob::new("k").due(Due::After(1_000));
    let later = tokio::spawn(async move { engine.enqueue(Enqueue::each([later])).await });
    let engine = rig.engine.clone();
    let done = claimed.into_iter();
    let done = done.map(|job| SettleItem::new(job.header.id, job.lease, Outcome::DONE));
    let done = Settle::new(done);
    let done = tokio::spawn(async move { engine.settle(done).await });
    until_waiting(&rig, 3).await;
    partition.batch_execute("COMMIT").await.expect("ends");

    for enqueued in [plain, later] {
        let items = enqueued.await.expect("no panic").expect("enqueues").value;
        assert!(items.iter().all(Item::is_ok), "{items:?}");
    }
    let settled = done.await.expect("no panic").expect("settles").value.items;
    assert!(settled.iter().all(Item::is_ok), "{settled:?}");
    assert_eq!(rig.in_default().await, 0, "all of it is in the partition");
    assert_eq!(rig.count("SELECT count(*) FROM {s}.job").await, 5);
    assert_eq!(rig.count("SELECT count(*) FROM {s}.finished").await, 2);
    rig.is_sound().await;
}

#[tokio::test]
async fn a_job_in_an_application_s_transaction_gets_there_too() {
    let rig = Rig::new().await;
    rig.pass(LONG_MS);
    let partition = half_added(&rig).await;
    let engine = rig.engine.clone();
    let theirs = tokio::spawn(async move {
        let mut client = application().await;
        let transaction = client.transaction().await.expect("begins");
        let stored = engine.enqueue_in(&transaction, Enqueue::each([NewJob::new("k")])).await;
        transaction.commit().await.expect("commits");
        stored
    });
    until_waiting(&rig, 1).await;
    partition.batch_execute("COMMIT").await.expect("ends");
    let stored = theirs.await.expect("no panic").expect("enqueues").value;
    assert!(stored.iter().all(Item::is_ok), "{stored:?}");
    assert_eq!(rig.in_default().await, 0);
    rig.is_sound().await;
}

#[tokio::test]
async fn the_first_partition_begins_after_in_flight_inserts() {
    let rig = Rig::new().await;
    let before = rig.partitions().await;
    rig.pass(LONG_MS);
    rig.upkeep(Work::Compact).await;
    assert!(rig.partitions().await > before);
    rig.enqueue(1).await;
    assert_eq!(rig.in_default().await, 1, "an enqueue in this moment is stored");
    rig.pass(BEGIN_AFTER_MS);
    rig.enqueue(1).await;
    assert_eq!(rig.in_default().await, 1, "the next ones have a partition");
    rig.is_sound().await;
}
