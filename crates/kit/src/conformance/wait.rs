//! Waiting for work. The only checks that wait for real time, and only briefly.

use crate::rig::{KIND, QUEUE, Rig, assert_refused};
use tokio::task::JoinHandle;
use windlass_core::engine::{Change, Configure, Outcome, SettleItem, Wait, Work};
use windlass_core::limits::WAIT_MAX_MS;
use windlass_core::model::{Due, KindPatch, NewJob, QueuePatch, State};
use windlass_core::time::MINUTE_MS;

/// Long enough to be sure that nothing happens.
const BRIEF_MS: u64 = 20;
/// Longer than any engine should need to notice a change.
const LONG_MS: u64 = 30_000;

async fn wait(rig: &Rig, request: Wait) -> bool {
    rig.engine().wait(request).await.expect("wait").value
}

/// Starts a waiter and gives it a moment to begin waiting.
async fn waiter(rig: &Rig, request: Wait) -> JoinHandle<bool> {
    let task = rig.clone();
    let handle = tokio::spawn(async move { wait(&task, request).await });
    assert!(!wait(rig, Wait::new(["nowhere"], BRIEF_MS)).await);
    handle
}

async fn assert_wakes(handle: JoinHandle<bool>) {
    assert!(handle.await.expect("the waiter"), "the wait timed out");
}

pub(super) async fn waiting_for_what_is_there_takes_no_time(rig: Rig) {
    let id = rig.enqueue_one().await;
    assert!(wait(&rig, Wait::new([QUEUE], LONG_MS)).await);
    assert!(wait(&rig, Wait::new([QUEUE], 0)).await);
    assert!(wait(&rig, Wait::new(["nowhere", QUEUE], LONG_MS)).await);
    rig.assert_state(id, State::Available).await;
    assert_eq!(rig.drain(5).await, [id], "waiting does not claim");
}

pub(super) async fn waiting_for_nothing_ends_when_the_time_is_up(rig: Rig) {
    assert!(!wait(&rig, Wait::new([QUEUE], 0)).await);
    assert!(!wait(&rig, Wait::new([QUEUE], BRIEF_MS)).await);
    rig.enqueue(Rig::job().due(Due::After(MINUTE_MS))).await;
    rig.enqueue_one().await;
    rig.drain(1).await;
    assert!(
        !wait(&rig, Wait::new([QUEUE], BRIEF_MS)).await,
        "a job that is not ready does not end the wait"
    );
}

pub(super) async fn a_waiter_wakes_when_a_job_is_enqueued(rig: Rig) {
    let handle = waiter(&rig, Wait::new([QUEUE], LONG_MS)).await;
    rig.enqueue_one().await;
    assert_wakes(handle).await;
}

pub(super) async fn every_waiter_of_a_queue_is_served(rig: Rig) {
    let mut handles = Vec::new();
    for _ in 0..4 {
        handles.push(waiter(&rig, Wait::new([QUEUE], LONG_MS)).await);
    }
    rig.enqueue_all(vec![Rig::job(); 4]).await;
    for handle in handles {
        assert_wakes(handle).await;
    }
}

pub(super) async fn a_waiter_wakes_when_a_jobs_time_has_come(rig: Rig) {
    rig.enqueue(Rig::job().due(Due::After(MINUTE_MS))).await;
    let handle = waiter(&rig, Wait::new([QUEUE], LONG_MS)).await;
    rig.advance(2 * MINUTE_MS);
    rig.maintain(Work::Promote).await;
    assert_wakes(handle).await;
}

pub(super) async fn a_waiter_wakes_when_a_job_is_given_back(rig: Rig) {
    rig.enqueue_one().await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    let handle = waiter(&rig, Wait::new([QUEUE], LONG_MS)).await;
    rig.settle(&job, Outcome::Release).await;
    assert_wakes(handle).await;
    rig.take_one(&session).await;
    let handle = waiter(&rig, Wait::new([QUEUE], LONG_MS)).await;
    rig.engine().close_session(session).await.expect("close_session");
    assert_wakes(handle).await;
}

pub(super) async fn a_waiter_wakes_when_an_ordering_key_is_passed_on(rig: Rig) {
    rig.enqueue_all([Rig::job().key("a"), Rig::job().key("a")]).await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    assert!(!wait(&rig, Wait::new([QUEUE], BRIEF_MS)).await, "the next is still blocked");
    let handle = waiter(&rig, Wait::new([QUEUE], LONG_MS)).await;
    rig.settle(&job, Outcome::DONE).await;
    assert_wakes(handle).await;
}

pub(super) async fn a_waiter_wakes_when_a_job_is_changed_to_run(rig: Rig) {
    let dead = rig.dead(Rig::job()).await;
    let aside = rig.enqueue_one().await;
    rig.change(aside, Change::Pause).await;
    let later = rig.enqueue(Rig::job().due(Due::After(MINUTE_MS))).await;
    for (id, change) in
        [(dead, Change::replay()), (aside, Change::Resume), (later, Change::Promote)]
    {
        let handle = waiter(&rig, Wait::new([QUEUE], LONG_MS)).await;
        rig.change(id, change).await;
        assert_wakes(handle).await;
        assert_eq!(rig.drain(5).await, [id]);
    }
}

pub(super) async fn a_waiter_wakes_when_a_follow_up_comes(rig: Rig) {
    rig.enqueue_one().await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    let handle = waiter(&rig, Wait::new([QUEUE], LONG_MS)).await;
    let item = SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE);
    rig.try_settle(item.follow_up(Rig::job())).await.expect("settle");
    assert_wakes(handle).await;
}

pub(super) async fn gated_jobs_wake_no_waiter_until_the_gate_opens(rig: Rig) {
    rig.enqueue_one().await;
    let gates = [
        [QueuePatch::paused(true), QueuePatch::paused(false)]
            .map(|patch| Configure::queue(QUEUE, patch)),
        [KindPatch::paused(true), KindPatch::paused(false)]
            .map(|patch| Configure::kind(KIND, patch)),
        [KindPatch::permits(Some(0)), KindPatch::permits(Some(1))]
            .map(|patch| Configure::kind(KIND, patch)),
    ];
    for [close, open] in gates {
        rig.configure(close.clone()).await;
        assert!(!wait(&rig, Wait::new([QUEUE], BRIEF_MS)).await, "{close:?}");
        let handle = waiter(&rig, Wait::new([QUEUE], LONG_MS)).await;
        rig.configure(open).await;
        assert_wakes(handle).await;
    }
    assert_eq!(rig.drain(5).await.len(), 1);
}

pub(super) async fn a_waiter_for_a_kind_is_not_woken_by_others(rig: Rig) {
    rig.enqueue_one().await;
    rig.enqueue(NewJob::new("wanted").queue("elsewhere")).await;
    assert!(!wait(&rig, Wait::new([QUEUE], BRIEF_MS).kind("wanted")).await);
    let both = Wait::new([QUEUE], LONG_MS).kind("wanted").kind(KIND);
    assert!(wait(&rig, both).await);
    let handle = waiter(&rig, Wait::new([QUEUE], LONG_MS).kind("wanted")).await;
    rig.enqueue(NewJob::new("wanted").queue(QUEUE)).await;
    assert_wakes(handle).await;
}

pub(super) async fn a_wait_beyond_the_limit_is_refused(rig: Rig) {
    let answer = rig.engine().wait(Wait::new([QUEUE], WAIT_MAX_MS + 1)).await;
    assert_refused(answer, "invalid", "wait_ms");
}
