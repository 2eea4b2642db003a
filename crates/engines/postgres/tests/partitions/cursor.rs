//! Row-by-row retention resumes at its cursor: it does not skip removed rows again, and finds locked jobs later.

use crate::common::application;
use crate::rig::{KEPT_MS, Rig};
use std::sync::mpsc;
use std::time::Duration;
use windlass_core::JobId;
use windlass_core::engine::*;

/// Jobs that go, how many of them ended at the same time, and how many are removed in a step.
const JOBS: usize = 2_000;
const TOGETHER: usize = 50;
const STEP: u32 = 100;
/// How far apart those times are: all of it is within a partition.
const APART_MS: u64 = 1_000;
/// Longer than the interval at which the cursor starts again.
const ANEW: Duration = Duration::from_secs(6);
/// How long servers keep their counts to themselves, and how long anything may take.
const COUNTED_AFTER: Duration = Duration::from_millis(1_200);
const PATIENCE: Duration = Duration::from_secs(30);
/// Entries scanned so far in the index by which retention finds jobs.
const ENTRIES: &str = "SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_all_indexes
    WHERE schemaname = trim('{s}', '\"') AND indexrelname LIKE 'finished%lane_state_at_idx'";

/// Jobs that end in the order of their ids, a few at a time, and are past their retention now.
async fn ended(rig: &mut Rig) -> Vec<JobId> {
    let mut all = Vec::new();
    for _ in 0..JOBS / TOGETHER {
        let ids = rig.enqueue(TOGETHER).await;
        rig.complete(&ids).await;
        all.extend(ids);
        rig.pass(APART_MS);
    }
    rig.pass(KEPT_MS);
    all
}

/// The entries so far, when the server has counted everything.
async fn entries(rig: &Rig) -> i64 {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut last = -1;
    loop {
        // Idle backends report at the end of their next transaction.
        tokio::time::sleep(COUNTED_AFTER).await;
        rig.engine.health().await.expect("answers");
        let now = rig.count(ENTRIES).await;
        if now == last {
            return now;
        }
        assert!(tokio::time::Instant::now() < deadline, "the counts do not come to rest");
        last = now;
    }
}

/// While this is held, time passes for this process only where a test says so, however long things take.
struct Still(#[expect(dead_code, reason = "its end is what matters")] mpsc::Sender<()>);

impl Still {
    fn begin() -> Self {
        tokio::time::pause();
        // While such a task goes on, the clock does not jump to whatever is waited for.
        let (held, ends) = mpsc::channel();
        tokio::task::spawn_blocking(move || ends.recv());
        Self(held)
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

#[tokio::test]
async fn removed_rows_are_not_skipped_again_beside_an_old_snapshot() {
    let mut rig = Rig::new().await;
    ended(&mut rig).await;
    // Nothing that was removed may be cleared away, not even in the index.
    let old = application().await;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current()";
    old.batch_execute(begin).await.expect("begins");
    let before = entries(&rig).await;
    let still = Still::begin();
    let removed = rig.upkeep_by(Work::Retain, STEP).await;
    drop(still);
    assert_eq!(removed, JOBS as u64 + 1);
    let passed = entries(&rig).await - before;
    println!("{passed} entries for {JOBS} jobs in steps of {STEP}");
    let jobs = JOBS as i64;
    // Those that ended at the same time as the last one are read once more.
    assert!((jobs..2 * jobs).contains(&passed), "{passed} entries for {JOBS} jobs");
    rig.is_sound().await;
}

#[tokio::test]
async fn jobs_skipped_because_they_were_locked_are_found_by_the_next_full_scan() {
    let mut rig = Rig::new().await;
    let held = ended(&mut rig).await[0];
    let holder =
        rig.meanwhile(&format!("SELECT FROM {{s}}.job WHERE id = '{held}' FOR UPDATE")).await;
    let still = Still::begin();
    assert_eq!(rig.upkeep_by(Work::Retain, STEP).await, JOBS as u64, "all others");
    holder.batch_execute("COMMIT").await.expect("ends");
    assert_eq!(rig.upkeep_by(Work::Retain, STEP).await, 0, "it is behind where retention is");
    assert!(rig.state(held).await.is_some());
    tokio::time::advance(ANEW).await;
    assert_eq!(rig.upkeep_by(Work::Retain, STEP).await, 1);
    assert_eq!(rig.state(held).await, None);
    drop(still);
    rig.is_sound().await;
}
