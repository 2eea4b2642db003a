//! Lanes: how many a queue may have, and when idle ones are removed.

use crate::rig::{QUEUE, Rig, assert_refused};
use windlass_core::engine::{Change, ChangeItem, Enqueue, Outcome, SettleItem};
use windlass_core::limits::{LANE_IDLE_MS, LANES_PER_QUEUE_MAX};
use windlass_core::model::NewJob;
use windlass_core::policy::Retention;
use windlass_core::time::{DAY_MS, HOUR_MS};

fn of_kind(kind: impl Into<String>) -> NewJob {
    NewJob::new(kind.into()).queue(QUEUE)
}

/// One check for both promises, because it takes many lanes to see that idle ones are removed.
pub(super) async fn kinds_of_a_queue_are_limited_and_forgotten_when_idle(rig: Rig) {
    let kinds = (0..LANES_PER_QUEUE_MAX).map(|n| {
        let mut job = of_kind(format!("kind-{n}"));
        // Some keep their lane by their own retention, the others by their queue's.
        job.policy.retention = (n % 2 == 0).then(|| Retention::uniform_ms(HOUR_MS));
        job
    });
    let ids = rig.enqueue_all(kinds).await;

    let refused = rig.try_enqueue(of_kind("one-more")).await;
    let reported = refused.as_ref().expect_err("too many").to_string();
    let limit = LANES_PER_QUEUE_MAX.to_string();
    assert!([QUEUE, &limit, "another queue"].iter().all(|part| reported.contains(part)), "{reported}");
    assert_refused(refused, "invalid", "kind");
    let both = Enqueue::all_or_nothing([of_kind("kind-1"), of_kind("one-more")]);
    let answers = rig.engine().enqueue(both).await.expect("enqueue").value;
    assert_refused(answers[1].clone(), "invalid", "kind");
    rig.enqueue(of_kind("kind-0")).await;
    rig.enqueue(of_kind("one-more").queue("another")).await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let report = |outcome| SettleItem::new(claimed.header.id, claimed.lease.clone(), outcome);
    let more = report(Outcome::DONE).follow_up(of_kind("one-more"));
    assert_refused(rig.try_settle(more).await, "invalid", "follow_ups[0].kind");
    rig.try_settle(report(Outcome::DONE)).await.expect("settle");

    let cancel = ids[1..].iter().map(|id| ChangeItem::new(*id, Change::Cancel)).collect();
    let cancelled = rig.engine().change(cancel).await.expect("change").value;
    assert!(cancelled.iter().all(Result::is_ok));
    rig.pass(HOUR_MS + 1).await;
    // After this the ended jobs of the others have been removed as well.
    for _ in 0..2 {
        rig.pass(4 * DAY_MS).await;
    }
    rig.assert_sound().await;
    rig.pass(LANE_IDLE_MS + 1).await;
    rig.pass(HOUR_MS).await;
    rig.assert_sound().await;

    // The idle lanes were removed: there is room for as many others, and kinds that still have jobs are
    // unchanged.
    let others = (0..LANES_PER_QUEUE_MAX - 2).map(|n| of_kind(format!("other-{n}")));
    rig.enqueue_all(others).await;
    let last = rig.enqueue(of_kind("kind-0")).await;
    assert_eq!(&*rig.get(last).await.header.kind, "kind-0");
    rig.assert_sound().await;
}

/// A lane that was removed and is used again behaves as before.
pub(super) async fn a_kind_that_was_forgotten_can_be_used_again(rig: Rig) {
    let kept = rig.enqueue(of_kind("kept")).await;
    for round in 0..3 {
        let id = rig.enqueue(of_kind("seldom")).await;
        let session = rig.session().await;
        let claim = rig.wants(&session, 10).kind("seldom", 10);
        let claimed = rig.claim(claim).await;
        assert_eq!(claimed.len(), 1, "round {round}");
        rig.settle(&claimed[0], Outcome::DONE).await;
        assert_eq!(&*rig.get(id).await.header.kind, "seldom");
        for _ in 0..4 {
            rig.pass(LANE_IDLE_MS + 1).await;
        }
        assert!(rig.find(id).await.is_none(), "past its retention");
        rig.assert_sound().await;
    }
    assert_eq!(&*rig.get(kept).await.header.kind, "kept", "a lane with a job is not forgotten");
    assert_eq!(rig.lane(QUEUE, "kept").await.available, 1);
}

/// A job that ended long ago can be replayed, however long its lane was idle.
pub(super) async fn a_job_replayed_into_an_idle_lane_runs(rig: Rig) {
    let mut job = of_kind("seldom");
    job.policy.retention = Some(Retention::uniform_ms(100 * DAY_MS));
    let id = rig.enqueue(job).await;
    let session = rig.session().await;
    rig.settle(&rig.take_one(&session).await, Outcome::fail("code", "message")).await;
    for _ in 0..3 {
        rig.pass(LANE_IDLE_MS + 1).await;
    }
    rig.change(id, Change::replay()).await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    assert_eq!((claimed.header.id, &*claimed.header.kind), (id, "seldom"));
    rig.assert_sound().await;
}
