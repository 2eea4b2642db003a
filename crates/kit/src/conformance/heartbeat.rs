//! Heartbeats, and the reconciliation of leases.

use crate::rig::{Rig, assert_code};
use windlass_core::engine::{
    Change, Claim, Claimant, ClaimedJob, Heartbeat, HeartbeatReply, Held, Outcome, SessionId,
    SettleItem, Work,
};
use windlass_core::limits::SESSION_TTL_DEFAULT_MS;
use windlass_core::model::{AttemptEnd, State};
use windlass_core::time::MINUTE_MS;

/// Sends exactly this heartbeat.
async fn beat(rig: &Rig, beat: Heartbeat) -> HeartbeatReply {
    rig.engine().heartbeat(beat).await.expect("heartbeat").value
}

/// Claims one job under the given claim number.
async fn take_as(rig: &Rig, session: &SessionId, claim_no: u64) -> ClaimedJob {
    let by = Claimant::Session { session: session.clone(), claim_no };
    let mut jobs = rig.claim(Claim::new(by, crate::rig::QUEUE, 1)).await;
    jobs.pop().expect("a job to claim")
}

pub(super) async fn a_heartbeaten_session_outlives_its_length_many_times_over(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    for _ in 0..20 {
        rig.pass(SESSION_TTL_DEFAULT_MS * 2 / 3).await;
        let before = rig.now().await;
        let reply = rig.heartbeat(&session, &[&job]).await.expect("heartbeat");
        assert!(reply.expires_at >= before.plus(SESSION_TTL_DEFAULT_MS), "{reply:?}");
        assert_eq!((reply.lost, reply.cancel, reply.released), (vec![], vec![], 0));
    }
    rig.assert_state(id, State::Running).await;
    rig.settle(&job, Outcome::DONE).await;
    let counters = rig.get(id).await.header.counters;
    assert_eq!((counters.attempt, counters.crashes), (1, 0));
}

pub(super) async fn a_claim_whose_reply_was_lost_is_released_without_a_crash(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    rig.take_one(&session).await;
    let reply = rig.heartbeat(&session, &[]).await.expect("heartbeat");
    assert_eq!(reply.released, 1);
    let other = rig.session().await;
    let again = rig.take_one(&other).await;
    assert_eq!((again.header.id, again.header.counters.attempt), (id, 2));
    assert_eq!((again.header.counters.crashes, again.header.counters.failures), (0, 0));
    assert_eq!(rig.get(id).await.history[0].end, AttemptEnd::Release);
    rig.assert_sound().await;
}

pub(super) async fn declared_leases_stay_while_others_of_the_claim_go(rig: Rig) {
    rig.enqueue_all(vec![Rig::job(); 4]).await;
    let session = rig.session().await;
    let jobs = rig.take(&session, 4).await;
    let reply = rig.heartbeat(&session, &[&jobs[1], &jobs[2]]).await.expect("heartbeat");
    assert_eq!((reply.released, reply.lost), (2, vec![]));
    for (job, expected) in
        jobs.iter().zip([State::Available, State::Running, State::Running, State::Available])
    {
        rig.assert_state(job.header.id, expected).await;
    }
    rig.settle(&jobs[1], Outcome::DONE).await;
    rig.settle(&jobs[2], Outcome::DONE).await;
}

pub(super) async fn a_released_lease_changes_nothing_any_more(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let lost = rig.take_one(&session).await;
    rig.heartbeat(&session, &[]).await.expect("heartbeat");
    let other = rig.session().await;
    let valid = rig.take_one(&other).await;
    let before = rig.get(id).await;
    let late = SettleItem::new(id, lost.lease.clone(), Outcome::fail("late", "too late"));
    // Whether it counts as lost or as settled by the release, the attempt has ended.
    if let Ok(settled) = rig.try_settle(late).await {
        assert_eq!((settled.already, settled.end), (true, AttemptEnd::Release));
    }
    assert_eq!(rig.get(id).await, before);
    rig.settle(&valid, Outcome::DONE).await;
}

pub(super) async fn an_unanswered_claim_is_left_alone(rig: Rig) {
    rig.enqueue_all(vec![Rig::job(); 3]).await;
    let session = rig.session().await;
    let jobs = [
        take_as(&rig, &session, 1).await,
        take_as(&rig, &session, 2).await,
        take_as(&rig, &session, 3).await,
    ];
    let reply = beat(&rig, Heartbeat::new(session, 3, vec![]).unanswered([2])).await;
    assert_eq!(reply.released, 2);
    rig.assert_state(jobs[0].header.id, State::Available).await;
    rig.assert_state(jobs[1].header.id, State::Running).await;
    rig.assert_state(jobs[2].header.id, State::Available).await;
    rig.settle(&jobs[1], Outcome::DONE).await;
}

pub(super) async fn a_claim_that_overtook_the_heartbeat_is_left_alone(rig: Rig) {
    rig.enqueue_all([Rig::job(), Rig::job()]).await;
    let session = rig.session().await;
    let known = take_as(&rig, &session, 7).await;
    let later = take_as(&rig, &session, 8).await;
    let held = vec![Held { id: known.header.id, lease: known.lease.clone() }];
    let reply = beat(&rig, Heartbeat::new(session, 7, held)).await;
    assert_eq!((reply.released, reply.lost), (0, vec![]));
    rig.settle(&later, Outcome::DONE).await;
    rig.settle(&known, Outcome::DONE).await;
}

pub(super) async fn a_heartbeat_concerns_its_own_session_only(rig: Rig) {
    rig.enqueue_all([Rig::job(), Rig::job()]).await;
    let [mine, theirs] = [rig.session().await, rig.session().await];
    let held = take_as(&rig, &theirs, 1).await;
    let alone = rig.claim(Rig::wants_alone(10 * MINUTE_MS, 1)).await;
    let reply = beat(&rig, Heartbeat::new(mine, 99, vec![])).await;
    assert_eq!(reply.released, 0);
    rig.settle(&held, Outcome::DONE).await;
    rig.settle(&alone[0], Outcome::DONE).await;
}

pub(super) async fn declared_leases_that_are_not_valid_are_reported_lost(rig: Rig) {
    rig.enqueue_all(vec![Rig::job(); 4]).await;
    let session = rig.session().await;
    let mut jobs = rig.take(&session, 3).await;
    let other = rig.session().await;
    let mut theirs = rig.take_one(&other).await;
    let unknown = Held { id: Rig::fresh_id(), lease: Rig::forged_lease() };
    // One lease is valid, one was settled, one is forged, one belongs to another worker, and one job never
    // existed.
    rig.settle(&jobs[1], Outcome::Snooze { delay_ms: MINUTE_MS }).await;
    jobs[2].lease = Rig::forged_lease();
    theirs.lease = Rig::forged_lease();
    let declared = jobs.iter().chain([&theirs]);
    let mut held: Vec<_> =
        declared.map(|job| Held { id: job.header.id, lease: job.lease.clone() }).collect();
    held.push(unknown.clone());
    let reply = beat(&rig, Heartbeat::new(session, u64::MAX, held)).await;
    let mut expected =
        [jobs[1].header.id, jobs[2].header.id, theirs.header.id, unknown.id].to_vec();
    let mut lost = reply.lost;
    lost.sort();
    expected.sort();
    assert_eq!(lost, expected);
    rig.assert_state(theirs.header.id, State::Running).await;
    rig.settle(&jobs[0], Outcome::DONE).await;
}

pub(super) async fn an_old_lease_declared_beside_the_current_one_is_lost_alone(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let old = rig.take_one(&session).await;
    rig.settle(&old, Outcome::Release).await;
    let current = rig.take_one(&session).await;
    // The reply to the report was lost, so the worker declares both leases, in either order.
    for held in [[&old, &current], [&current, &old]] {
        let reply = rig.heartbeat(&session, &held).await.expect("heartbeat");
        assert_eq!((reply.lost, reply.released), (vec![id], 0));
    }
    rig.settle(&current, Outcome::DONE).await;
}

pub(super) async fn a_forged_declaration_does_not_hold_a_lease(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let mut forged = rig.take_one(&session).await;
    forged.lease = Rig::forged_lease();
    let reply = rig.heartbeat(&session, &[&forged]).await.expect("heartbeat");
    assert_eq!((reply.lost, reply.released), (vec![id], 1), "the valid lease was not declared");
    rig.assert_state(id, State::Available).await;
}

pub(super) async fn a_cancellation_is_delivered_to_the_worker_until_it_reports(rig: Rig) {
    let ids = rig.enqueue_all([Rig::job(), Rig::job()]).await;
    let session = rig.session().await;
    let jobs = rig.take(&session, 2).await;
    rig.change(ids[1], Change::Cancel).await;
    let held: Vec<_> = jobs.iter().collect();
    for _ in 0..2 {
        let reply = rig.heartbeat(&session, &held).await.expect("heartbeat");
        assert_eq!((reply.cancel, reply.lost), (vec![ids[1]], vec![]));
    }
    let reported = jobs.iter().find(|job| job.header.id == ids[1]).expect("it was claimed");
    rig.settle(reported, Outcome::retry("stopped", "as requested")).await;
    rig.assert_state(ids[1], State::Cancelled).await;
    let rest = jobs.iter().find(|job| job.header.id == ids[0]).expect("it was claimed");
    let reply = rig.heartbeat(&session, &[rest]).await.expect("heartbeat");
    assert!(reply.cancel.is_empty(), "{reply:?}");
}

pub(super) async fn a_cancellation_is_not_reported_to_other_workers(rig: Rig) {
    rig.enqueue_all([Rig::job(), Rig::job()]).await;
    let [mine, theirs] = [rig.session().await, rig.session().await];
    let my_job = rig.take_one(&mine).await;
    let their_job = rig.take_one(&theirs).await;
    rig.change(their_job.header.id, Change::Cancel).await;
    let reply = rig.heartbeat(&mine, &[&my_job]).await.expect("heartbeat");
    assert!(reply.cancel.is_empty(), "{reply:?}");
}

pub(super) async fn a_lost_claim_of_a_cancelled_job_ends_cancelled(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    rig.take_one(&session).await;
    rig.change(id, Change::Cancel).await;
    let reply = rig.heartbeat(&session, &[]).await.expect("heartbeat");
    assert_eq!(reply.released, 1);
    rig.assert_state(id, State::Cancelled).await;
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn a_heartbeat_of_an_unknown_session_changes_nothing(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    let held = vec![Held { id, lease: job.lease.clone() }];
    let stranger = Heartbeat::new(SessionId::new("stranger"), u64::MAX, held);
    assert_code(rig.engine().heartbeat(stranger).await, "session_lost");
    rig.maintain(Work::Reclaim).await;
    rig.settle(&job, Outcome::DONE).await;
}
