//! The state that a process keeps between steps of retention is void in another epoch, after a refused lock, and after
//! the clock has gone backwards.

use crate::rig::{ASK_AGAIN_MS, KEPT_MS, Rig};
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::State;
use windlass_core::time::Clock as _;

/// Two pages of a survey, and a part of a third.
const MANY: u64 = 45_000;
/// When all of it is past its retention.
const LATER_MS: u64 = KEPT_MS * 5 / 4;

/// A store whose jobs are past their retention and surveyed in part, and a surveyed job.
async fn surveyed() -> (Rig, JobId) {
    let rig = Rig::new().await;
    let [surveyed, _] = rig.fill(MANY).await;
    rig.pass(LATER_MS);
    rig.step().await;
    (rig, surveyed)
}

/// Asserts that retention has kept this job, which is ready again, and removed all others.
async fn assert_only_kept(rig: &mut Rig, kept: JobId) {
    rig.upkeep(Work::Retain).await;
    assert_eq!(rig.state(kept).await, Some(State::Available));
    assert_eq!(rig.count("SELECT count(*) FROM {s}.job").await, 1, "all others are gone");
    rig.complete(&[kept]).await;
    rig.is_sound().await;
}

#[tokio::test]
async fn a_survey_from_before_a_promotion_is_not_used() {
    let (mut rig, surveyed) = surveyed().await;
    rig.promote_replica().await;
    rig.uncomplete(surveyed).await;
    assert_only_kept(&mut rig, surveyed).await;
}

#[tokio::test]
async fn a_survey_from_before_a_refused_lock_is_not_used() {
    let (mut rig, surveyed) = surveyed().await;
    let reader = rig.meanwhile("SELECT count(*) FROM {s}.job").await;
    rig.upkeep(Work::Retain).await;
    assert!(rig.count("SELECT count(*) FROM {s}.job").await >= MANY as i64, "the lock is refused");
    rig.uncomplete(surveyed).await;
    reader.batch_execute("COMMIT").await.expect("ends");
    rig.pass(ASK_AGAIN_MS);
    assert_only_kept(&mut rig, surveyed).await;
}

#[tokio::test]
async fn a_survey_is_not_used_once_the_clock_has_gone_backwards() {
    let mut rig = Rig::new().await;
    let begun = rig.clock.now();
    let late = rig.enqueue(1).await[0];
    rig.pass(1);
    rig.fill(MANY).await;
    rig.pass(KEPT_MS / 2);
    rig.complete(&[late]).await;
    rig.pass(LATER_MS);
    // By now the job that ended late is past its retention, too; an earlier clock says that it is not.
    rig.step().await;
    rig.clock.set(begun.plus(LATER_MS));
    rig.upkeep(Work::Retain).await;
    assert_eq!(rig.state(late).await, Some(State::Completed));
    assert_eq!(rig.count("SELECT count(*) FROM {s}.job").await, 1, "all others are gone");
    rig.is_sound().await;
    rig.pass(KEPT_MS / 2);
    assert_eq!(rig.upkeep(Work::Retain).await, 1);
}

#[tokio::test]
async fn a_refused_lock_is_retried_soon_although_the_clock_goes_backwards() {
    let rig = Rig::new().await;
    rig.fill(MANY).await;
    rig.pass(2 * LATER_MS);
    let reader = rig.meanwhile("SELECT count(*) FROM {s}.job").await;
    rig.upkeep(Work::Retain).await;
    reader.batch_execute("COMMIT").await.expect("ends");
    rig.clock.set(rig.clock.now().minus(LATER_MS / 2));
    rig.upkeep(Work::Retain).await;
    assert_eq!(rig.count("SELECT count(*) FROM {s}.job").await, 0);
    rig.is_sound().await;
}

#[tokio::test]
async fn a_job_stored_in_a_partition_that_ended_a_minute_ago_voids_its_survey() {
    const OLD_MS: u64 = 60_000;
    let rig = Rig::new().await;
    let [id, _] = rig.fill(1).await;
    let first = rig.sql("SELECT upto_id FROM {s}.partition ORDER BY from_id LIMIT 1");
    let ends = rig.client.query_one(&first, &[]).await.expect("answers").get(0);
    let ends = JobId::from_uuid(ends).time();
    for (at, touched) in [(ends.plus(OLD_MS - 1), 0), (ends.plus(OLD_MS), 1)] {
        let at = at.as_millis();
        let touch = format!("SELECT {{s}}.void_surveys('{{{id}}}', '{{{at}}}', '{{{OLD_MS}}}')");
        rig.client.batch_execute(&rig.sql(&touch)).await.expect("is called");
        let times = rig.count("SELECT sum(late_jobs)::bigint FROM {s}.partition").await;
        assert_eq!(times, touched, "at {at}");
    }
}
