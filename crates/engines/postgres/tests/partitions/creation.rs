//! Partitions are created ahead of time, by upkeep alone: enqueues and claims never wait for one.

use crate::common::{OwnSchema, application, open};
use crate::rig::{BEGIN_AFTER_MS, KEPT_MS, LONG_MS, Rig};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use windlass_core::engine::*;
use windlass_core::model::NewJob;
use windlass_core::time::{Clock as _, SystemClock};
use windlass_core::{JobId, Timestamp};
use windlass_services::Services;

/// How far ahead they are there at least.
const AHEAD_MS: u64 = 600_000;
/// A reader of everything, who lets no partition be added.
const READ: &str = "SELECT count(*) FROM {s}.jobs";
/// Ranges of ids.
const PARTITIONS: &str = "SELECT from_id, upto_id FROM {s}.partition ORDER BY from_id";
/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Until when there are partitions, if there is one for every time from `now` on.
fn covered(partitions: &[(Uuid, Uuid)], now: Timestamp) -> Option<Timestamp> {
    let no_gap = partitions.windows(2).all(|pair| pair[0].1 == pair[1].0);
    let ((first, _), (_, last)) = (partitions.first()?, partitions.last()?);
    assert!(
        no_gap && partitions.iter().all(|partition| partition.0 < partition.1),
        "{partitions:?}"
    );
    let [from, upto] = [first, last].map(|id| JobId::from_uuid(*id).time());
    (from <= now).then_some(upto)
}

async fn partitions(client: &tokio_postgres::Client, sql: &str) -> Vec<(Uuid, Uuid)> {
    let rows = client.query(sql, &[]).await.expect("answers");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Asserts that there are partitions for all of the next ten minutes.
async fn is_ahead(rig: &Rig) {
    let now = rig.clock.now();
    let partitions = partitions(&rig.client, &rig.sql(PARTITIONS)).await;
    let upto = covered(&partitions, now);
    assert!(upto >= Some(now.plus(AHEAD_MS)), "{upto:?} at {now:?}: {partitions:?}");
}

#[tokio::test]
async fn partitions_exist_ten_minutes_in_advance_for_any_retention() {
    for kept_ms in [1_000, KEPT_MS, 30 * 24 * KEPT_MS] {
        let mut rig = Rig::keeping(kept_ms).await;
        is_ahead(&rig).await;
        rig.pass(AHEAD_MS / 2);
        rig.upkeep(Work::Compact).await;
        is_ahead(&rig).await;
        // For so long none need be added, and work goes on as ever.
        let reader = rig.meanwhile(READ).await;
        rig.pass(AHEAD_MS - 1_000);
        rig.upkeep(Work::Compact).await;
        let ids = rig.enqueue(10).await;
        rig.complete(&ids).await;
        assert_eq!(rig.in_default().await, 0, "kept for {kept_ms} ms");
        reader.batch_execute("COMMIT").await.expect("ends");
        rig.is_sound().await;
    }
}

#[tokio::test]
async fn work_creates_no_partitions_and_needs_none() {
    let mut rig = Rig::new().await;
    let before = rig.partitions().await;
    rig.pass(LONG_MS);
    let ids = rig.enqueue(10).await;
    rig.complete(&ids).await;
    assert_eq!(rig.partitions().await, before, "work alone creates no partition");
    assert_eq!(rig.in_default().await, 20, "each job and its end");
    rig.is_sound().await;
    // And when there are some again, they are used.
    rig.upkeep(Work::Compact).await;
    rig.pass(BEGIN_AFTER_MS);
    let ids = rig.enqueue(10).await;
    rig.complete(&ids).await;
    assert_eq!(rig.in_default().await, 20);
    rig.is_sound().await;
}

#[tokio::test]
async fn a_refused_lock_blocks_no_caller_and_leaves_no_partial_partition() {
    let mut rig = Rig::new().await;
    rig.pass(LONG_MS);
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = trim('{s}', '\"')";
    let (partitions, before) = (rig.partitions().await, rig.count(tables).await);
    let reader = rig.meanwhile(READ).await;
    rig.upkeep(Work::Compact).await;
    assert_eq!((rig.partitions().await, rig.count(tables).await), (partitions, before));
    let ids = rig.enqueue(10).await;
    rig.complete(&ids).await;
    reader.batch_execute("COMMIT").await.expect("ends");
    rig.pass(10_000);
    rig.upkeep(Work::Compact).await;
    assert!(rig.partitions().await > partitions);
    rig.is_sound().await;
}

#[tokio::test]
async fn the_services_of_a_process_see_to_it() {
    let schema = OwnSchema::new();
    let (engine, client) = (open(&schema).await, application().await);
    engine.enqueue(Enqueue::each([NewJob::new("k")])).await.expect("enqueues");
    let running = Services::builder(Arc::new(engine)).start().expect("good options");
    let sql = PARTITIONS.replace("{s}", &format!("\"{}\"", schema.name));
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let (partitions, now) = (partitions(&client, &sql).await, SystemClock.now());
        if covered(&partitions, now) >= Some(now.plus(AHEAD_MS)) {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{partitions:?} at {now:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    running.stop().await;
}

#[tokio::test]
async fn partitions_of_a_new_store_are_narrow_and_widen_with_its_age() {
    let mut rig = Rig::keeping(30 * 24 * KEPT_MS).await;
    let widest = async |rig: &Rig| {
        let partitions = partitions(&rig.client, &rig.sql(PARTITIONS)).await;
        let width = |(from, upto): &(Uuid, Uuid)| {
            let [from, upto] = [from, upto].map(|id| JobId::from_uuid(*id).time());
            upto.since(from)
        };
        partitions.iter().map(width).max()
    };
    // A retention of minutes that is configured now finds no partitions of days.
    assert_eq!(widest(&rig).await, Some(AHEAD_MS / 2));
    rig.pass(24 * KEPT_MS);
    rig.upkeep(Work::Compact).await;
    let ids = rig.enqueue(1).await;
    rig.complete(&ids).await;
    assert!(widest(&rig).await > Some(12 * KEPT_MS), "as wide as the store is old");
    rig.is_sound().await;
}
