//! Limits on how often jobs start: buckets and windows, over all jobs and by group. Time is the store's clock.

use crate::rig::{KIND, QUEUE, Rig, assert_refused};
use windlass_core::engine::{ClaimedJob, Configure, Gate, Outcome, Wait, Work};
use windlass_core::limits::CLAIM_BATCH_MAX;
use windlass_core::model::{JobError, KindPatch, Limit, NewJob, Rate, Rule, State};
use windlass_core::time::{MINUTE_MS, SECOND_MS};

fn of_group(group: &str) -> NewJob {
    Rig::job().group(group)
}

const fn rated(rate: Rate) -> Limit {
    Limit::new(Rule::rate(rate))
}

/// A bucket that starts `burst` jobs at once and then one per second.
const fn per_second(burst: u32) -> Rate {
    Rate::Bucket { amount: 1, per_ms: SECOND_MS, burst }
}

/// Claims and completes everything that may start; returns the number.
async fn starts(rig: &Rig) -> usize {
    let session = rig.long_session().await;
    let jobs = rig.take(&session, CLAIM_BATCH_MAX).await;
    for job in &jobs {
        rig.settle(job, Outcome::DONE).await;
    }
    jobs.len()
}

/// The number of starts in each of `seconds` seconds; nothing but claims moves jobs.
async fn by_second(rig: &Rig, seconds: usize) -> Vec<usize> {
    let mut all = Vec::new();
    for _ in 0..seconds {
        all.push(starts(rig).await);
        rig.advance(SECOND_MS - 1);
        assert_eq!(starts(rig).await, 0, "1 ms too early");
        rig.advance(1);
    }
    all
}

pub(super) async fn a_bucket_starts_its_burst_and_then_at_its_rate(rig: Rig) {
    if !rig.limited(rated(per_second(3))).await {
        return;
    }
    rig.enqueue_all(vec![Rig::job(); 10]).await;
    assert_eq!(by_second(&rig, 4).await, [3, 1, 1, 1]);
    rig.advance(MINUTE_MS);
    assert_eq!(starts(&rig).await, 3, "no more than the burst is saved up");
    assert_eq!(rig.lane(QUEUE, KIND).await.gate, Some(Gate::Limited));
}

pub(super) async fn a_window_never_has_more_starts_than_its_maximum(rig: Rig) {
    if !rig.limited(rated(Rate::window(2, 3 * SECOND_MS))).await {
        return;
    }
    rig.enqueue_all(vec![Rig::job(); 3]).await;
    assert_eq!(by_second(&rig, 5).await, [2, 0, 0, 1, 0]);
    rig.enqueue_all(vec![Rig::job(); 10]).await;
    assert_eq!(by_second(&rig, 5).await, [1, 1, 0, 1, 1], "each start counts for three seconds");
}

pub(super) async fn each_group_has_a_rate_of_its_own(rig: Rig) {
    if !rig.limited(rated(per_second(2)).by_group()).await {
        return;
    }
    rig.enqueue_all(vec![of_group("a"); 50]).await;
    rig.enqueue_all(vec![of_group("b"); 3]).await;
    assert_eq!(by_second(&rig, 4).await, [4, 2, 1, 1]);
    rig.assert_sound().await;
}

pub(super) async fn a_window_by_group_never_has_more_starts_than_its_maximum(rig: Rig) {
    if !rig.limited(rated(Rate::window(2, 3 * SECOND_MS)).by_group()).await {
        return;
    }
    rig.enqueue_all(vec![of_group("a"); 6]).await;
    assert_eq!(by_second(&rig, 7).await, [2, 0, 0, 2, 0, 0, 2]);
}

pub(super) async fn maintenance_releases_jobs_on_time_and_says_when(rig: Rig) {
    if !rig.limited(rated(per_second(1)).by_group()).await {
        return;
    }
    let jobs = rig.enqueue_all(vec![of_group("g"); 3]).await;
    assert_eq!(starts(&rig).await, 1);
    let now = rig.now().await;
    let reply = rig.maintain_step(Work::Promote, 10).await;
    assert_eq!(reply.next_at, Some(now.plus(SECOND_MS)));
    rig.assert_state(jobs[1], State::Blocked).await;
    rig.advance(SECOND_MS);
    rig.maintain(Work::Promote).await;
    rig.assert_state(jobs[1], State::Available).await;
    rig.assert_state(jobs[2], State::Blocked).await;
    rig.advance(10 * MINUTE_MS);
    rig.maintain(Work::Promote).await;
    rig.assert_state(jobs[2], State::Blocked).await;
}

pub(super) async fn a_backlog_keeps_its_rate_after_all_workers_were_away(rig: Rig) {
    if !rig.limited(rated(per_second(2))).await {
        return;
    }
    for by_group in [false, true] {
        for rate in [per_second(2), Rate::window(1, SECOND_MS)] {
            let limit = if by_group { rated(rate).by_group() } else { rated(rate) };
            rig.configure(Configure::limit("l", limit)).await;
            rig.enqueue_all(vec![of_group("a"); 8]).await;
            rig.enqueue_all(vec![of_group("b"); 8]).await;
            // Away for ten minutes, while maintenance runs.
            for _ in 0..10 {
                rig.pass(MINUTE_MS).await;
            }
            let groups = if by_group { 2 } else { 1 };
            let first = groups * rate.capacity() as usize;
            let expected = [first, groups, groups, groups];
            assert_eq!(by_second(&rig, 4).await, expected, "{rate:?}, by group: {by_group}");
            rig.advance(10 * MINUTE_MS);
            while starts(&rig).await > 0 {
                rig.advance(MINUTE_MS);
            }
        }
    }
    rig.assert_sound().await;
}

pub(super) async fn a_start_takes_the_cost_of_its_job(rig: Rig) {
    if !rig.limited(rated(per_second(4))).await {
        return;
    }
    for by_group in [false, true] {
        let limit = rated(per_second(4));
        let limit = if by_group { limit.by_group() } else { limit };
        rig.configure(Configure::limit("l", limit)).await;
        let costs = [1, 3, 4, 1, 1];
        rig.enqueue_all(costs.map(|cost| of_group("g").cost(cost))).await;
        let expected = [2, 0, 0, 0, 1, 1, 1];
        assert_eq!(by_second(&rig, 7).await, expected, "by group: {by_group}");
        rig.advance(MINUTE_MS);
    }
}

pub(super) async fn a_cost_above_the_capacity_is_refused_with_both_numbers(rig: Rig) {
    if !rig.limited(rated(Rate::window(5, SECOND_MS)).by_group()).await {
        return;
    }
    rig.enqueue(of_group("g").cost(5)).await;
    let error = assert_refused(rig.try_enqueue(of_group("g").cost(6)).await, "invalid", "cost");
    let text = error.to_string();
    assert!(text.contains('6') && text.contains('5') && text.contains("limit l"), "{text}");
    let wide = rated(Rate::window(5, SECOND_MS)).by_group();
    let wide = wide.for_group("big", Rule::rate(Rate::window(9, SECOND_MS)));
    rig.configure(Configure::limit("l", wide)).await;
    rig.enqueue(of_group("big").cost(9)).await;
    assert_refused(rig.try_enqueue(of_group("big").cost(10)).await, "invalid", "cost");
}

pub(super) async fn a_job_that_waits_for_its_rate_holds_no_slot(rig: Rig) {
    if !rig.can_limit().await {
        return;
    }
    if !rig.can_share_limits().await {
        return;
    }
    for by_group in [false, true] {
        let (slot, rate) = (Limit::max_running(1), rated(Rate::window(1, MINUTE_MS)));
        let limits = match by_group {
            true => [("slot", slot.by_group()), ("rate", rate.by_group())],
            false => [("slot", slot), ("rate", rate)],
        };
        for (name, limit) in limits {
            rig.configure(Configure::limit(name, limit)).await;
        }
        rig.configure(Configure::kind("both", KindPatch::limits(["slot", "rate"]))).await;
        rig.configure(Configure::kind("one", KindPatch::limits(["slot"]))).await;
        let both = rig.enqueue(NewJob::new("both").queue(QUEUE).group("g")).await;
        let session = rig.session().await;
        let job = rig.take_one(&session).await;
        let retry = Outcome::Retry { error: JobError::new("e", "m"), delay_ms: Some(0) };
        rig.settle(&job, retry).await;
        // It waits for the rate now. Its worker restarts meanwhile.
        rig.engine().close_session(session).await.expect("close_session");
        let one = rig.enqueue(NewJob::new("one").queue(QUEUE).group("g")).await;
        assert_eq!(rig.drain(9).await, [one], "by group: {by_group}");
        rig.advance(MINUTE_MS);
        assert_eq!(rig.drain(9).await, [both]);
        rig.advance(MINUTE_MS);
    }
    rig.assert_sound().await;
}

pub(super) async fn a_released_job_does_not_return_its_tokens(rig: Rig) {
    if !rig.limited(rated(Rate::window(1, SECOND_MS)).by_group()).await {
        return;
    }
    rig.enqueue(of_group("g")).await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    rig.settle(&job, Outcome::Release).await;
    rig.assert_nothing_to_claim().await;
    rig.advance(SECOND_MS);
    assert_eq!(starts(&rig).await, 1);
}

pub(super) async fn a_rate_and_slots_of_one_limit_hold_together(rig: Rig) {
    if !rig.limited(rated(per_second(2)).by_group()).await {
        return;
    }
    let both = Limit::max_running(1).rate(per_second(2)).by_group();
    rig.configure(Configure::limit("l", both)).await;
    rig.enqueue_all(vec![of_group("g"); 4]).await;
    let session = rig.session().await;
    let take = async || -> Vec<ClaimedJob> { rig.take(&session, 9).await };
    let first = take().await;
    assert_eq!((first.len(), take().await.len()), (1, 0), "one slot");
    rig.settle(&first[0], Outcome::DONE).await;
    let second = take().await;
    assert_eq!(second.len(), 1, "one more token");
    rig.settle(&second[0], Outcome::DONE).await;
    assert!(take().await.is_empty(), "no token");
    rig.advance(SECOND_MS);
    assert_eq!(take().await.len(), 1);
}

pub(super) async fn a_waiter_wakes_when_the_rate_allows_a_start(rig: Rig) {
    if !rig.limited(rated(Rate::window(1, 50))).await {
        return;
    }
    for by_group in [false, true] {
        let limit = rated(Rate::window(1, 50));
        let limit = if by_group { limit.by_group() } else { limit };
        rig.configure(Configure::limit("l", limit)).await;
        rig.enqueue_all([of_group("g"), of_group("g")]).await;
        assert_eq!(starts(&rig).await, 1);
        let wait = |ms| rig.engine().wait(Wait::new([QUEUE], ms));
        assert!(!wait(0).await.expect("wait").value);
        let task = rig.clone();
        let waiter = tokio::spawn(async move {
            task.engine().wait(Wait::new([QUEUE], 30_000)).await.expect("wait").value
        });
        assert!(!rig.engine().wait(Wait::new(["nowhere"], 20)).await.expect("wait").value);
        rig.advance(50);
        assert!(waiter.await.expect("the waiter"), "the wait timed out");
        assert_eq!(starts(&rig).await, 1);
        rig.advance(50);
    }
}
