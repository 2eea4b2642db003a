//! Statistics of ready jobs by priority: their number, and the age of the oldest.

use crate::rig::{KIND, QUEUE, Rig};
use windlass_core::engine::{
    Capability, Change, Configure, LaneStats, Outcome, SettleItem, StatsRequest,
};
use windlass_core::limits::{ENQUEUE_BATCH_MAX, PRIORITIES_MAX, READY_COUNTED_MAX};
use windlass_core::model::{Due, NewJob, Order, QueuePatch};
use windlass_core::time::{HOUR_MS, MINUTE_MS};

pub(super) async fn ready_jobs_are_counted_by_priority_if_requested(rig: Rig) {
    for priority in [0, i32::MAX, -5, 0, i32::MIN, 0, -5] {
        rig.enqueue(Rig::job().priority(priority)).await;
        rig.enqueue(NewJob::new(KIND).queue("other").priority(3)).await;
    }
    rig.enqueue(Rig::job().priority(4).due(Due::After(HOUR_MS))).await;
    let expected = [(i32::MIN, 1), (-5, 2), (0, 3), (i32::MAX, 1)];
    let mine = lane(&rig, QUEUE, KIND).await;
    assert_eq!(counts(&mine), expected, "scheduled jobs are not ready");
    assert_eq!((mine.available, mine.scheduled, mine.unlisted()), (7, 1, 0));
    let all = rig.engine().stats(StatsRequest::default().by_priority()).await.expect("stats").value;
    let other = all.iter().find(|lane| &*lane.queue == "other").expect("it has jobs");
    assert_eq!(counts(other), [(3, 7)], "each lane is counted separately");
    let plain = rig.engine().stats(StatsRequest::default()).await.expect("stats").value;
    assert!(plain.iter().all(|lane| lane.priorities.is_empty()), "not requested");
    assert!(plain.iter().all(|lane| lane.unlisted() == lane.available));
}

pub(super) async fn counts_by_priority_follow_jobs_through_their_lives(rig: Rig) {
    let urgent = rig.enqueue(Rig::job().priority(-1)).await;
    let usual = rig.enqueue_one().await;
    rig.enqueue_one().await;
    let reported = async || counts(&lane(&rig, QUEUE, KIND).await);
    assert_eq!(reported().await, [(-1, 1), (0, 2)]);
    rig.change(usual, Change::Reprioritise(-1)).await;
    assert_eq!(reported().await, [(-1, 2), (0, 1)]);
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    assert_eq!(claimed.header.id, urgent);
    assert_eq!(reported().await, [(-1, 1), (0, 1)], "running jobs are not ready");
    let report = SettleItem::new(urgent, claimed.lease, Outcome::Release).priority(8);
    rig.try_settle(report).await.expect("settle");
    assert_eq!(reported().await, [(-1, 1), (0, 1), (8, 1)], "its priority was changed");
    rig.change(usual, Change::Pause).await;
    assert_eq!(reported().await, [(0, 1), (8, 1)]);
    rig.change(usual, Change::Resume).await;
    rig.change(urgent, Change::Cancel).await;
    assert_eq!(reported().await, [(-1, 1), (0, 1)]);
    rig.drain(2).await;
    assert_eq!(reported().await, []);
}

pub(super) async fn each_priority_reports_since_when_its_first_job_is_ready(rig: Rig) {
    let mut enqueued = Vec::new();
    for priority in [5, 0, 5] {
        rig.pass(MINUTE_MS).await;
        let earliest = rig.now().await;
        rig.enqueue(Rig::job().priority(priority)).await;
        enqueued.push(earliest..=rig.now().await);
    }
    rig.pass(MINUTE_MS).await;
    let since = async |at: usize| lane(&rig, QUEUE, KIND).await.priorities[at].head_ready_at;
    assert!(enqueued[1].contains(&since(0).await), "the more urgent one came later");
    assert!(enqueued[0].contains(&since(1).await), "the first of two");
    let session = rig.session().await;
    let claimed = rig.take(&session, 2).await;
    assert!(enqueued[2].contains(&since(0).await), "the remaining job");
    let earliest = rig.now().await;
    rig.settle(&claimed[1], Outcome::Release).await;
    rig.drain(1).await;
    let again = earliest..=rig.now().await;
    assert!(again.contains(&since(0).await), "ready since it was released");
}

pub(super) async fn a_queue_not_ordered_by_priority_reports_no_priorities(rig: Rig) {
    let mut orders = vec![Order::Lifo, Order::Ageing { quantum_ms: MINUTE_MS }];
    orders.extend(rig.has(Capability::FairOrder).then_some(Order::Fair));
    for order in orders {
        rig.configure(Configure::queue(QUEUE, QueuePatch::order(order))).await;
        rig.enqueue(Rig::job().priority(-3)).await;
        rig.enqueue(Rig::job().priority(3)).await;
        let other = lane(&rig, QUEUE, KIND).await;
        assert_eq!(counts(&other), [], "{order:?}");
        assert_eq!((other.available, other.unlisted()), (2, 2), "{order:?}");
        rig.configure(Configure::queue(QUEUE, QueuePatch::order(Order::Strict))).await;
        rig.enqueue(Rig::job().priority(7)).await;
        let mixed = lane(&rig, QUEUE, KIND).await;
        assert_eq!(counts(&mixed), [(7, 1)], "the others keep their ranks, {order:?}");
        assert_eq!(mixed.unlisted(), 2, "{order:?}");
        rig.drain(3).await;
    }
}

pub(super) async fn of_many_priorities_the_most_urgent_are_reported(rig: Rig) {
    let most = i32::try_from(PRIORITIES_MAX).expect("is small");
    rig.enqueue_all((0..most).rev().map(|priority| Rig::job().priority(priority))).await;
    let expected: Vec<(i32, u64)> = (0..most).map(|priority| (priority, 1)).collect();
    let all = lane(&rig, QUEUE, KIND).await;
    assert_eq!((counts(&all), all.unlisted()), (expected.clone(), 0));
    rig.enqueue_all((most..most + 5).map(|priority| Rig::job().priority(priority))).await;
    let more = lane(&rig, QUEUE, KIND).await;
    assert_eq!((counts(&more), more.unlisted()), (expected, 5));
}

pub(super) async fn counts_by_priority_are_bounded_and_never_too_high(rig: Rig) {
    // More jobs of two priorities than are counted one by one.
    let deep = READY_COUNTED_MAX / 4 + 500;
    let jobs = |kind: &str, priority, count: u64| {
        vec![NewJob::new(kind).queue(QUEUE).priority(priority); count as usize]
    };
    let two = [jobs("two", -1, deep), jobs("two", 0, deep)];
    let one = [jobs("one", 0, 2), jobs("one", 1, deep / 2)];
    let few = [jobs("few", 0, 1), jobs("few", 1, 1), jobs("only", 2, 3)];
    for batch in [two.concat(), one.concat(), few.concat()].concat().chunks(ENQUEUE_BATCH_MAX) {
        rig.enqueue_all(batch.to_vec()).await;
    }
    assert_eq!(counts(&lane(&rig, QUEUE, "few").await), [(0, 1), (1, 1)]);
    assert_eq!(counts(&lane(&rig, QUEUE, "only").await), [(2, 3)]);
    assert_eq!(counts(&lane(&rig, QUEUE, "one").await), [(0, 2), (1, deep / 2)], "all others");
    let two = lane(&rig, QUEUE, "two").await;
    assert_eq!(two.available, 2 * deep);
    let reported = counts(&two);
    assert_eq!(reported.iter().map(|(priority, _)| *priority).collect::<Vec<_>>(), [-1, 0]);
    assert!(reported.iter().all(|(_, count)| (1..=deep).contains(count)), "{reported:?}");
    let counted: u64 = reported.iter().map(|(_, count)| count).sum();
    assert_eq!(two.unlisted(), 2 * deep - counted, "{reported:?}");
}

/// A lane with its ready jobs by priority; an empty one may be missing from the reply.
async fn lane(rig: &Rig, queue: &str, kind: &str) -> LaneStats {
    let request = StatsRequest::queue(queue).by_priority();
    let lanes = rig.engine().stats(request).await.expect("stats").value;
    let found = lanes.into_iter().find(|lane| &*lane.kind == kind);
    found.unwrap_or_else(|| LaneStats::empty(queue.into(), kind.into()))
}

fn counts(lane: &LaneStats) -> Vec<(i32, u64)> {
    lane.priorities.iter().map(|reported| (reported.priority, reported.available)).collect()
}
