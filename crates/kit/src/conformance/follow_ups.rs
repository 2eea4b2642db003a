//! Follow-up jobs, created in the same step as a report.

use crate::rig::{KIND, QUEUE, Rig, assert_code, assert_refused};
use windlass_core::JobId;
use windlass_core::engine::{
    Atomicity, Claim, ClaimedJob, Configure, Disposition, Outcome, Settle, SettleItem,
};
use windlass_core::limits::FOLLOW_UPS_MAX;
use windlass_core::model::{Due, JobError, NewJob, QueuePatch, State};
use windlass_core::policy::{OnConflict, Unique};
use windlass_core::time::{DAY_MS, HOUR_MS};

/// Enqueues and claims this job.
async fn running(rig: &Rig, job: NewJob) -> ClaimedJob {
    let id = rig.enqueue(job).await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    assert_eq!(claimed.header.id, id, "the claim returned another job");
    claimed
}

fn done(job: &ClaimedJob) -> SettleItem {
    SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE)
}

fn derived(parent: &ClaimedJob, index: usize) -> JobId {
    let attempt = parent.header.counters.attempt;
    JobId::follow_up(parent.header.id, attempt, index, parent.started_at)
}

pub(super) async fn follow_ups_are_there_when_the_report_is_answered(rig: Rig) {
    let mut parent = Rig::job();
    parent.trace = Some("00-trace-of-the-parent-01".into());
    let parent = running(&rig, parent).await;
    let item = done(&parent)
        .follow_up(Rig::job().json("1"))
        .follow_up(Rig::job().due(Due::After(HOUR_MS)));
    let settled = rig.try_settle(item).await.expect("settle");
    let got: Vec<_> =
        settled.follow_ups.iter().map(|child| (child.id, child.disposition, child.state)).collect();
    assert_eq!(
        got,
        [
            (derived(&parent, 0), Disposition::Created, Some(State::Available)),
            (derived(&parent, 1), Disposition::Created, Some(State::Scheduled)),
        ]
    );
    let session = rig.session().await;
    let child = rig.take_one(&session).await;
    assert_eq!((child.header.id, child.header.parent), (got[0].0, Some(parent.header.id)));
    assert_eq!(child.header.trace, parent.header.trace, "the trace is inherited");
    assert_eq!(child.parts.payload, Rig::job().json("1").parts.payload);
    rig.assert_nothing_to_claim().await;
    rig.assert_sound().await;
}

pub(super) async fn an_attempt_that_took_days_can_have_follow_ups(rig: Rig) {
    let parent = running(&rig, Rig::job()).await;
    rig.advance(3 * DAY_MS);
    let settled = rig.try_settle(done(&parent).follow_up(Rig::job())).await.expect("settle");
    let session = rig.session().await;
    assert_eq!(rig.take_one(&session).await.header.id, settled.follow_ups[0].id);
    rig.assert_sound().await;
}

pub(super) async fn a_follow_up_may_bring_its_own_id_and_trace(rig: Rig) {
    let mut parent = Rig::job();
    parent.trace = Some("parent".into());
    let parent = running(&rig, parent).await;
    let id = Rig::fresh_id();
    let mut child = Rig::job().id(id);
    child.trace = Some("child".into());
    rig.try_settle(done(&parent).follow_up(child)).await.expect("settle");
    let child = rig.get(id).await.header;
    assert_eq!((child.trace.as_deref(), child.parent), (Some("child"), Some(parent.header.id)));
}

/// Derived ids are predictable: with one, a worker could block fires of schedules and follow-ups of others.
pub(super) async fn a_follow_up_may_not_bring_a_derived_id(rig: Rig) {
    let parent = running(&rig, Rig::job()).await;
    let id = derived(&parent, 5);
    for child in [Rig::job().id(id), Rig::job().derived_id(id)] {
        let answer = rig.try_settle(done(&parent).follow_up(child)).await;
        assert_refused(answer, "invalid", "follow_ups[0].id");
    }
    assert!(rig.find(id).await.is_none());
    rig.try_settle(done(&parent)).await.expect("the lease stays valid");
}

pub(super) async fn a_follow_up_can_go_to_another_queue(rig: Rig) {
    let parent = running(&rig, Rig::job()).await;
    let child = NewJob::new("other").queue("elsewhere");
    rig.try_settle(done(&parent).follow_up(child)).await.expect("settle");
    if rig.engine().capabilities().atomicity < Atomicity::Store {
        // Through the outbox, which maintenance must process.
        rig.pass(0).await;
    }
    let session = rig.session().await;
    let claim = Claim::new(rig.claimant(&session), "elsewhere", 5);
    let jobs = rig.claim(claim).await;
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].header.parent, Some(parent.header.id));
}

pub(super) async fn every_outcome_can_have_follow_ups(rig: Rig) {
    let retry = Outcome::Retry { error: JobError::new("e", "m"), delay_ms: Some(HOUR_MS) };
    let outcomes = [
        retry,
        Outcome::Snooze { delay_ms: HOUR_MS },
        Outcome::fail("e", "m"),
        Outcome::WAIT,
        Outcome::Cancel,
    ];
    for outcome in outcomes {
        let parent = running(&rig, Rig::job()).await;
        let item = SettleItem::new(parent.header.id, parent.lease.clone(), outcome.clone());
        let settled = rig.try_settle(item.follow_up(Rig::job())).await.expect("settle");
        assert_eq!(settled.follow_ups.len(), 1, "{outcome:?}");
        assert_eq!(rig.drain(5).await, [derived(&parent, 0)], "{outcome:?}");
    }
}

pub(super) async fn each_attempt_has_follow_ups_of_its_own(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let claim = || rig.wants(&session, 1).kind(KIND, 1);
    let child = || NewJob::new("child").queue(QUEUE);
    for _ in 0..2 {
        let parent = rig.claim(claim()).await.remove(0);
        assert_eq!(parent.header.id, id);
        let item = SettleItem::new(id, parent.lease.clone(), Outcome::Release);
        rig.try_settle(item.follow_up(child())).await.expect("settle");
    }
    assert_eq!(rig.lane(QUEUE, "child").await.available, 2);
}

pub(super) async fn follow_ups_are_let_in_where_the_queue_is_full(rig: Rig) {
    rig.configure(Configure::queue(QUEUE, QueuePatch::max_depth(Some(1)))).await;
    let parent = running(&rig, Rig::job()).await;
    rig.enqueue_one().await;
    assert_code(rig.try_enqueue(Rig::job()).await, "queue_full");
    let item = done(&parent).follow_up(Rig::job()).follow_up(Rig::job());
    rig.try_settle(item).await.expect("running work is not refused by a full queue");
    assert_eq!(rig.drain(10).await.len(), 3);
}

pub(super) async fn an_invalid_follow_up_refuses_the_report_and_keeps_the_lease(rig: Rig) {
    let parent = running(&rig, Rig::job()).await;
    let item = done(&parent).follow_up(Rig::job()).follow_up(NewJob::new("").queue(QUEUE));
    assert_refused(rig.try_settle(item).await, "invalid", "follow_ups[1].kind");
    rig.assert_state(parent.header.id, State::Running).await;
    rig.assert_nothing_to_claim().await;
    let settled = rig.settle(&parent, Outcome::DONE).await;
    assert_eq!(settled.state, State::Completed, "the lease was still valid");
    rig.assert_sound().await;
}

pub(super) async fn a_follow_up_whose_key_is_held_can_refuse_the_report(rig: Rig) {
    let parent = running(&rig, Rig::job()).await;
    let unique = Unique::by("one").on_conflict(OnConflict::Reject);
    let holder = rig.enqueue(Rig::job().unique(unique.clone())).await;
    let item = done(&parent).follow_up(Rig::job()).follow_up(Rig::job().unique(unique));
    let error = assert_code(rig.try_settle(item).await, "duplicate");
    assert!(error.to_string().contains(&holder.to_string()), "{error} names {holder}");
    rig.assert_state(parent.header.id, State::Running).await;
    assert_eq!(rig.drain(10).await, [holder], "no other follow-up was created");
    rig.settle(&parent, Outcome::DONE).await;
}

pub(super) async fn a_follow_up_that_is_there_already_is_answered_so(rig: Rig) {
    let parent = running(&rig, Rig::job()).await;
    let holder = rig.enqueue(Rig::job().unique(Unique::by("one"))).await;
    let item = done(&parent).follow_up(Rig::job().unique(Unique::by("one")));
    let settled = rig.try_settle(item).await.expect("settle");
    let [child] = settled.follow_ups.as_slice() else { panic!("{settled:?}") };
    assert_eq!((child.id, child.disposition), (holder, Disposition::Existing));
    assert_eq!(rig.drain(10).await, [holder]);
}

pub(super) async fn a_follow_up_with_its_parents_id_is_the_parent_and_nothing_new(rig: Rig) {
    let parent = running(&rig, Rig::job()).await;
    let unique = Unique::by("one").on_conflict(OnConflict::Reject);
    rig.enqueue(Rig::job().unique(unique.clone())).await;
    let itself = Rig::job().id(parent.header.id).unique(unique);
    let settled = rig.try_settle(done(&parent).follow_up(itself)).await.expect("settle");
    let [child] = settled.follow_ups.as_slice() else { panic!("{settled:?}") };
    assert_eq!((child.id, child.disposition), (parent.header.id, Disposition::Existing));
    rig.assert_state(parent.header.id, State::Completed).await;
}

pub(super) async fn a_follow_up_may_take_the_unique_key_its_parent_frees(rig: Rig) {
    let unique = Unique::by("poll").on_conflict(OnConflict::Reject);
    let parent = running(&rig, Rig::job().unique(unique.clone())).await;
    let item = done(&parent).follow_up(Rig::job().unique(unique.clone()));
    let settled = rig.try_settle(item).await.expect("the key is released in the same step");
    assert_eq!(settled.follow_ups[0].disposition, Disposition::Created);
    assert_code(rig.try_enqueue(Rig::job().unique(unique)).await, "duplicate");
    rig.assert_sound().await;
}

pub(super) async fn a_follow_up_of_a_job_that_goes_on_cannot_take_its_unique_key(rig: Rig) {
    let unique = Unique::by("poll").on_conflict(OnConflict::Reject);
    let parent = running(&rig, Rig::job().unique(unique.clone())).await;
    let item = SettleItem::new(parent.header.id, parent.lease.clone(), Outcome::Release);
    assert_code(rig.try_settle(item.follow_up(Rig::job().unique(unique))).await, "duplicate");
    rig.settle(&parent, Outcome::DONE).await;
}

pub(super) async fn a_follow_up_of_the_same_ordering_key_is_last_in_line(rig: Rig) {
    let parent = running(&rig, Rig::job().key("acct")).await;
    let in_line = rig.enqueue(Rig::job().key("acct")).await;
    let settled =
        rig.try_settle(done(&parent).follow_up(Rig::job().key("acct"))).await.expect("settle");
    assert_eq!(rig.drain(10).await, [in_line, settled.follow_ups[0].id]);
    rig.assert_sound().await;
}

pub(super) async fn too_many_follow_ups_are_refused_and_the_limit_is_not(rig: Rig) {
    let parent = running(&rig, Rig::job()).await;
    let mut item = done(&parent);
    item.follow_ups = vec![Rig::job(); FOLLOW_UPS_MAX + 1];
    assert_refused(rig.try_settle(item.clone()).await, "too_large", "follow_ups");
    item.follow_ups.pop();
    let settled = rig.try_settle(item).await.expect("settle");
    assert_eq!(settled.follow_ups.len(), FOLLOW_UPS_MAX);
    assert_eq!(rig.lane(QUEUE, KIND).await.available, FOLLOW_UPS_MAX as u64);
}

pub(super) async fn a_refused_follow_up_does_not_touch_the_neighbours(rig: Rig) {
    rig.enqueue_all([Rig::job(), Rig::job()]).await;
    let session = rig.session().await;
    let jobs = rig.take(&session, 2).await;
    let items = [
        done(&jobs[0]).follow_up(NewJob::new("")),
        done(&jobs[1]).follow_up(Rig::job().key("next")),
    ];
    let reply = rig.engine().settle(Settle::new(items)).await.expect("settle").value;
    let [bad, good] = <[_; 2]>::try_from(reply.items).expect("one result per item");
    assert_refused(bad, "invalid", "follow_ups[0].kind");
    assert_eq!(good.expect("settled").state, State::Completed);
    rig.assert_state(jobs[0].header.id, State::Running).await;
    assert_eq!(rig.drain(10).await, [derived(&jobs[1], 0)]);
}
