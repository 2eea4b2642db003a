//! Scheduled jobs: never early, in the order of their run times, none forgotten.

use crate::rig::Rig;
use windlass_core::engine::{MaintainRequest, Work};
use windlass_core::limits::{DELAY_MAX_MS, MAINTAIN_BUDGET_MAX};
use windlass_core::model::{Due, State};
use windlass_core::time::{DAY_MS, HOUR_MS, MINUTE_MS};
use windlass_core::{JobId, Timestamp};

pub(super) async fn a_delayed_job_does_not_start_before_its_time(rig: Rig) {
    let id = rig.enqueue(Rig::job().due(Due::After(HOUR_MS))).await;
    rig.assert_state(id, State::Scheduled).await;
    rig.pass(HOUR_MS - MINUTE_MS).await;
    rig.assert_nothing_to_claim().await;
    rig.pass(MINUTE_MS).await;
    rig.assert_state(id, State::Available).await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    assert!(claimed.started_at >= claimed.header.run_at, "{claimed:?}");
}

pub(super) async fn not_even_a_millisecond_early(rig: Rig) {
    let id = rig.enqueue(Rig::job().due(Due::After(HOUR_MS))).await;
    let due = rig.get(id).await.header.run_at;
    rig.advance(due.since(rig.now().await) - 1);
    let promote = MaintainRequest::new(Work::Promote, MAINTAIN_BUDGET_MAX);
    let reply = rig.engine().maintain(promote).await.expect("maintain");
    // If the store's clock runs by itself, the time may have been reached meanwhile.
    if reply.now < due {
        rig.assert_state(id, State::Scheduled).await;
    }
    rig.pass(1).await;
    rig.assert_state(id, State::Available).await;
}

pub(super) async fn a_job_whose_time_has_come_is_ready_at_once(rig: Rig) {
    let now = rig.now().await;
    let past = [Due::After(0), Due::At(now), Due::At(now.minus(DAY_MS)), Due::At(Timestamp::EPOCH)];
    for due in past {
        let answer = rig.try_enqueue(Rig::job().due(due)).await.expect("enqueue");
        assert_eq!(answer.state, Some(State::Available), "{due:?}");
    }
    assert_eq!(rig.drain(10).await.len(), past.len());
    let soon = rig.try_enqueue(Rig::job().due(Due::After(1))).await.expect("enqueue");
    assert_eq!(soon.state, Some(State::Scheduled), "one millisecond in the future is not due");
}

pub(super) async fn a_delay_counts_from_when_the_store_received_it(rig: Rig) {
    let earliest = rig.now().await.plus(HOUR_MS);
    let after = rig.enqueue(Rig::job().due(Due::After(HOUR_MS))).await;
    let latest = rig.now().await.plus(HOUR_MS);
    assert!((earliest..=latest).contains(&rig.get(after).await.header.run_at));
    let at = rig.enqueue(Rig::job().due(Due::At(latest.plus(7)))).await;
    assert_eq!(rig.get(at).await.header.run_at, latest.plus(7), "a timestamp is stored unchanged");
}

pub(super) async fn due_jobs_become_ready_in_the_order_of_their_times(rig: Rig) {
    let ids = enqueue_due_in_minutes(&rig, &[3, 1, 2, 5, 4]).await;
    rig.pass(HOUR_MS).await;
    assert_eq!(rig.drain(10).await, [1, 2, 0, 4, 3].map(|index| ids[index]));
}

pub(super) async fn a_bounded_step_takes_the_earliest_first(rig: Rig) {
    let ids = enqueue_due_in_minutes(&rig, &[3, 1, 2]).await;
    rig.advance(HOUR_MS);
    for (step, expected) in [1, 2, 0].into_iter().enumerate() {
        let reply = rig.maintain_step(Work::Promote, 1).await;
        assert_eq!(reply.done, 1);
        assert_eq!(rig.state(ids[expected]).await, State::Available, "step {step}");
        let ready = rig.drain(10).await;
        assert_eq!(ready, [ids[expected]], "one job per step");
    }
    let reply = rig.maintain_step(Work::Promote, 1).await;
    assert_eq!((reply.done, reply.more, reply.next_at), (0, false, None));
}

pub(super) async fn priority_still_counts_among_jobs_that_became_due_together(rig: Rig) {
    let low = rig.enqueue(Rig::job().due(Due::After(MINUTE_MS)).priority(1)).await;
    let high = rig.enqueue(Rig::job().due(Due::After(2 * MINUTE_MS)).priority(-1)).await;
    rig.pass(HOUR_MS).await;
    assert_eq!(rig.drain(10).await, [high, low]);
}

pub(super) async fn a_due_job_goes_behind_those_that_were_ready_before(rig: Rig) {
    let delayed = rig.enqueue(Rig::job().due(Due::After(MINUTE_MS))).await;
    let ready = rig.enqueue_one().await;
    rig.pass(MINUTE_MS).await;
    let last = rig.enqueue_one().await;
    assert_eq!(rig.drain(10).await, [ready, delayed, last]);
}

pub(super) async fn promotion_says_when_to_come_again(rig: Rig) {
    let next_at = async || rig.maintain_step(Work::Promote, MAINTAIN_BUDGET_MAX).await.next_at;
    assert_eq!(next_at().await, None, "nothing is scheduled");
    let ids = enqueue_due_in_minutes(&rig, &[20, 10]).await;
    let first = rig.get(ids[1]).await.header.run_at;
    assert_eq!(next_at().await, Some(first));
    rig.advance(10 * MINUTE_MS);
    let second = rig.get(ids[0]).await.header.run_at;
    assert_eq!(next_at().await, Some(second), "the first is already ready");
    rig.advance(10 * MINUTE_MS);
    assert_eq!(next_at().await, None);
    assert_eq!(rig.drain(10).await.len(), 2);
}

pub(super) async fn the_job_is_due_at_the_reported_time(rig: Rig) {
    let id = rig.enqueue(Rig::job().due(Due::After(HOUR_MS))).await;
    let reported = rig.maintain_step(Work::Promote, 1).await.next_at.expect("a job is scheduled");
    rig.advance(reported.since(rig.now().await));
    assert_eq!(rig.maintain_step(Work::Promote, 1).await.done, 1);
    rig.assert_state(id, State::Available).await;
}

pub(super) async fn a_job_may_wait_ten_years(rig: Rig) {
    let id = rig.enqueue(Rig::job().due(Due::After(DELAY_MAX_MS))).await;
    rig.pass(DELAY_MAX_MS - DAY_MS).await;
    rig.assert_state(id, State::Scheduled).await;
    rig.pass(DAY_MS).await;
    assert_eq!(rig.drain(10).await, [id]);
    rig.assert_sound().await;
}

pub(super) async fn a_thousand_jobs_due_at_once_all_become_ready(rig: Rig) {
    let at = rig.now().await.plus(HOUR_MS);
    let ids = rig.enqueue_all(vec![Rig::job().due(Due::At(at)); 1_000]).await;
    rig.advance(DAY_MS);
    let mut promoted = 0;
    loop {
        let reply = rig.maintain_step(Work::Promote, 100).await;
        assert!(reply.done <= 100, "{reply:?}");
        promoted += reply.done;
        if !reply.more {
            break;
        }
    }
    assert_eq!(promoted, 1_000);
    let session = rig.session().await;
    assert_eq!(rig.take(&session, 1_000).await.len(), ids.len());
    rig.assert_sound().await;
}

async fn enqueue_due_in_minutes(rig: &Rig, minutes: &[u64]) -> Vec<JobId> {
    let mut ids = Vec::new();
    for minutes in minutes {
        ids.push(rig.enqueue(Rig::job().due(Due::After(minutes * MINUTE_MS))).await);
    }
    ids
}
