//! The history of removed jobs and limits on their number, beside partitions that are emptied as a whole.

use crate::rig::{KEPT_MS, Rig};
use windlass_core::engine::*;
use windlass_core::model::QueuePatch;
use windlass_core::policy::KeepMax;

/// Two pages of a survey, and a part of a third.
const MANY: u64 = 45_000;
/// When all of it is past its retention.
const LATER_MS: u64 = KEPT_MS * 5 / 4;

/// Jobs in the view, by tenant.
async fn removed(rig: &Rig, tenant: &str) -> i64 {
    let sql = format!(
        "SELECT coalesce(sum(jobs), 0)::bigint FROM {{s}}.removed_hourly
        WHERE tenant {tenant} AND queue = 'default' AND kind = 'k' AND outcome = 'completed'"
    );
    rig.count(&sql).await
}

#[tokio::test]
async fn jobs_that_go_with_their_partition_are_counted_by_tenant_and_a_discard_once() {
    let rig = Rig::new().await;
    let [first, last] = rig.fill(MANY).await;
    let tenant = format!(
        "UPDATE {{s}}.job SET spec = '{{\"tenant\":\"acme\"}}' WHERE id IN ('{first}', '{last}')"
    );
    rig.client.batch_execute(&rig.sql(&tenant)).await.expect("is changed");
    rig.pass(LATER_MS);
    // The first page is surveyed, and there is another.
    rig.step().await;
    rig.change(first, Change::Discard).await;
    assert_eq!(removed(&rig, "= 'acme'").await, 1, "by the operator");
    rig.upkeep(Work::Retain).await;
    assert_eq!(rig.count("SELECT count(*) FROM {s}.job").await, 0);
    assert_eq!(removed(&rig, "= 'acme'").await, 2);
    // Beside them, the first job of the store.
    assert_eq!(removed(&rig, "IS NULL").await, MANY as i64 - 2 + 1);
    rig.is_sound().await;
}

#[tokio::test]
async fn a_number_to_keep_removes_rows_of_a_large_partition() {
    let rig = Rig::new().await;
    let [_, last] = rig.fill(10_000).await;
    let keep_max = KeepMax::default().with_completed(100);
    let patch = Configure::queue("default", QueuePatch::keep_max(keep_max));
    rig.engine.configure(vec![patch]).await.expect("configures").value.remove(0).expect("is taken");
    let counted = rig.upkeep(Work::Retain).await;
    assert_eq!(rig.count("SELECT count(*) FROM {s}.finished").await, 100);
    assert_eq!((counted, removed(&rig, "IS NULL").await), (9_901, 9_901));
    assert!(rig.state(last).await.is_some(), "the newest stay");
    rig.is_sound().await;
    rig.pass(LATER_MS);
    rig.upkeep(Work::Retain).await;
    assert_eq!(rig.count("SELECT count(*) FROM {s}.finished").await, 0);
    assert_eq!(removed(&rig, "IS NULL").await, 10_001);
}
