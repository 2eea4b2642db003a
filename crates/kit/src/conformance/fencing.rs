//! Fencing: of two workers with the same job, only the one with the current lease is accepted.

use crate::rig::{QUEUE, Rig, assert_code};
use std::collections::HashSet;
use windlass_core::engine::{
    Change, ClaimedJob, Outcome, SessionId, Settle, SettleItem, Update, UpdateItem,
};
use windlass_core::model::{Finish, Part, PartEdit, PartName, PartSet, State};

/// A job whose first lease was lost and that a second worker holds now: the stale claim and the valid one.
async fn reclaimed(rig: &Rig) -> (ClaimedJob, ClaimedJob) {
    rig.enqueue(Rig::job().json("{}").max_crashes(5)).await;
    let first = rig.session().await;
    let stale = rig.take_one(&first).await;
    rig.crash(&first).await;
    let second = rig.session().await;
    let valid = rig.take_one(&second).await;
    assert_eq!(stale.header.id, valid.header.id);
    (stale, valid)
}

/// One report of each type.
fn reports() -> [Outcome; 7] {
    [
        Outcome::DONE,
        Outcome::retry("late", "too late"),
        Outcome::Snooze { delay_ms: 1_000 },
        Outcome::fail("late", "too late"),
        Outcome::Release,
        Outcome::WAIT,
        Outcome::Cancel,
    ]
}

fn report(job: &ClaimedJob, outcome: Outcome) -> SettleItem {
    SettleItem::new(job.header.id, job.lease.clone(), outcome)
}

pub(super) async fn a_stale_lease_cannot_settle_a_job_in_any_way(rig: Rig) {
    let (stale, valid) = reclaimed(&rig).await;
    let before = rig.get(stale.header.id).await;
    for outcome in reports() {
        let item = report(&stale, outcome.clone())
            .checkpoint(PartEdit::Set(Part::new("stale")))
            .priority(-9)
            .follow_up(Rig::job().queue("elsewhere"));
        assert_code(rig.try_settle(item).await, "lease_lost");
        assert_eq!(rig.get(stale.header.id).await, before, "{outcome:?} changed something");
    }
    assert_eq!(
        rig.lane("elsewhere", "k").await.available,
        0,
        "a stale report creates no follow-up"
    );
    let settled = rig.settle(&valid, Outcome::DONE).await;
    assert_eq!(settled.state, State::Completed);
    rig.assert_sound().await;
}

pub(super) async fn a_stale_lease_can_neither_read_nor_write_parts(rig: Rig) {
    let (stale, valid) = reclaimed(&rig).await;
    let id = stale.header.id;
    let write = UpdateItem::new(id, stale.lease.clone())
        .checkpoint(PartEdit::Set(Part::new("stale")))
        .progress(9, None, "stale")
        .log("stale");
    let read = UpdateItem::new(id, stale.lease.clone()).fetch(PartSet::ALL);
    assert_code(rig.update(write).await, "lease_lost");
    assert_code(rig.update(read).await, "lease_lost");
    let read = UpdateItem::new(id, valid.lease.clone()).fetch(PartSet::ALL);
    let parts = rig.update(read).await.expect("the holder reads").parts;
    assert_eq!(parts.get(PartName::Checkpoint), None);
    let job = rig.get(id).await;
    assert_eq!((job.progress, job.log), (None, vec![]));
}

pub(super) async fn a_lease_is_stale_from_the_moment_it_is_reclaimed(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let stale = rig.take_one(&session).await;
    rig.crash(&session).await;
    rig.assert_state(id, State::Available).await;
    assert_code(rig.try_settle(report(&stale, Outcome::DONE)).await, "lease_lost");
    assert_eq!(rig.drain(5).await, [id], "it runs again exactly once");
}

pub(super) async fn a_job_that_died_with_its_worker_cannot_be_completed_afterwards(rig: Rig) {
    let id = rig.enqueue(Rig::job().max_crashes(0)).await;
    let session = rig.session().await;
    let stale = rig.take_one(&session).await;
    rig.crash(&session).await;
    assert_code(rig.try_settle(report(&stale, Outcome::DONE)).await, "lease_lost");
    let job = rig.get(id).await;
    assert_eq!((job.state, job.finish), (State::Dead, Some(Finish::CrashesSpent)));
}

pub(super) async fn a_cancelled_job_whose_worker_was_lost_stays_cancelled(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let stale = rig.take_one(&session).await;
    rig.change(id, Change::Cancel).await;
    rig.crash(&session).await;
    rig.assert_state(id, State::Cancelled).await;
    assert_code(rig.try_settle(report(&stale, Outcome::DONE)).await, "lease_lost");
    rig.assert_state(id, State::Cancelled).await;
}

pub(super) async fn a_forged_lease_is_worth_nothing(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let mut forged = rig.take_one(&session).await;
    let valid = std::mem::replace(&mut forged.lease, Rig::forged_lease());
    for outcome in reports() {
        assert_code(rig.try_settle(report(&forged, outcome)).await, "lease_lost");
    }
    let read = UpdateItem::new(id, forged.lease.clone()).fetch(PartSet::ALL);
    assert_code(rig.update(read).await, "lease_lost");
    rig.assert_state(id, State::Running).await;
    forged.lease = valid;
    rig.settle(&forged, Outcome::DONE).await;
}

pub(super) async fn a_job_that_waits_has_no_lease_to_guess(rig: Rig) {
    let id = rig.enqueue_one().await;
    let item = SettleItem::new(id, Rig::forged_lease(), Outcome::DONE);
    assert_code(rig.try_settle(item).await, "lease_lost");
    rig.assert_state(id, State::Available).await;
}

pub(super) async fn the_lease_of_one_job_is_nothing_to_another(rig: Rig) {
    rig.enqueue_all([Rig::job(), Rig::job()]).await;
    let session = rig.session().await;
    let jobs = rig.take(&session, 2).await;
    let swapped = SettleItem::new(jobs[0].header.id, jobs[1].lease.clone(), Outcome::DONE);
    assert_code(rig.try_settle(swapped).await, "lease_lost");
    for job in &jobs {
        rig.assert_state(job.header.id, State::Running).await;
        rig.settle(job, Outcome::DONE).await;
    }
}

pub(super) async fn a_report_on_a_job_that_never_existed_says_so(rig: Rig) {
    let id = Rig::fresh_id();
    let item = SettleItem::new(id, Rig::forged_lease(), Outcome::DONE);
    assert_code(rig.try_settle(item).await, "not_found");
    assert_code(rig.update(UpdateItem::new(id, Rig::forged_lease())).await, "not_found");
}

pub(super) async fn a_settled_lease_can_no_longer_update(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    rig.settle(&job, Outcome::Release).await;
    let item = UpdateItem::new(id, job.lease.clone()).checkpoint(PartEdit::Set(Part::new("late")));
    assert_code(rig.update(item).await, "lease_lost");
    assert_eq!(rig.get(id).await.parts.checkpoint, None);
}

pub(super) async fn stale_reports_fail_alone_among_valid_ones(rig: Rig) {
    let (stale, valid) = reclaimed(&rig).await;
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let neighbour = rig.take_one(&session).await;
    let items = [
        report(&stale, Outcome::fail("late", "too late")),
        report(&neighbour, Outcome::DONE),
        SettleItem::new(Rig::fresh_id(), Rig::forged_lease(), Outcome::DONE),
        report(&valid, Outcome::DONE),
    ];
    let reply = rig.engine().settle(Settle::new(items)).await.expect("settle").value;
    let codes: Vec<_> =
        reply.items.iter().map(|item| item.as_ref().map_or_else(|e| e.code(), |_| "ok")).collect();
    assert_eq!(codes, ["lease_lost", "ok", "not_found", "ok"]);
    rig.assert_state(id, State::Completed).await;
    rig.assert_state(valid.header.id, State::Completed).await;
}

pub(super) async fn stale_updates_fail_alone_among_valid_ones(rig: Rig) {
    let (stale, valid) = reclaimed(&rig).await;
    let items = [&stale, &valid].map(|job| {
        UpdateItem::new(job.header.id, job.lease.clone())
            .metadata(PartEdit::Set(Part::new(job.lease.as_str().to_owned())))
    });
    let reply = rig.engine().update(Update::new(items)).await.expect("update").value;
    let [first, second] = <[_; 2]>::try_from(reply).expect("one result per item");
    assert_code(first, "lease_lost");
    second.expect("the holder's report is accepted");
    let metadata = rig.get(valid.header.id).await.parts.metadata.expect("it was set");
    assert_eq!(metadata.bytes, valid.lease.as_str());
}

pub(super) async fn every_attempt_has_a_lease_of_its_own(rig: Rig) {
    rig.enqueue_all(vec![Rig::job(); 50]).await;
    let session: SessionId = rig.session().await;
    let mut seen = HashSet::new();
    for _ in 0..3 {
        for job in rig.take(&session, 50).await {
            assert!(seen.insert(job.lease.clone()), "lease {:?} was issued twice", job.lease);
            rig.settle(&job, Outcome::Release).await;
        }
    }
    assert_eq!(seen.len(), 150);
    assert_eq!(rig.lane(QUEUE, "k").await.available, 50);
}
