//! The order in which ready jobs start, and how a claim chooses among queues and kinds.

use crate::rig::{KIND, QUEUE, Rig, assert_code};
use windlass_core::JobId;
use windlass_core::engine::{Capability, Change, Claim, ClaimedJob, Configure, Outcome, Work};
use windlass_core::limits::AGE_MAX_MS;
use windlass_core::model::{Due, NewJob, Order, QueuePatch};
use windlass_core::time::{MINUTE_MS, SECOND_MS};

pub(super) async fn jobs_of_one_priority_start_in_order_of_entry(rig: Rig) {
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(rig.enqueue_one().await);
    }
    assert_eq!(rig.drain(100).await, ids);
}

pub(super) async fn lower_priorities_start_first(rig: Rig) {
    let priorities = [3, i32::MIN, 0, i32::MAX, -1, 0, 3];
    let ids = enqueue_with_priorities(&rig, &priorities).await;
    let expected = [1, 4, 2, 5, 0, 6, 3].map(|index| ids[index]);
    assert_eq!(rig.drain(100).await, expected, "by priority, then in the order of enqueueing");
}

pub(super) async fn one_claim_of_many_is_in_the_same_order(rig: Rig) {
    let ids = enqueue_with_priorities(&rig, &[2, 0, 1, 0]).await;
    let session = rig.session().await;
    assert_eq!(ids_of(&rig.take(&session, 3).await), [1, 3, 2].map(|index| ids[index]));
    assert_eq!(ids_of(&rig.take(&session, 3).await), [ids[0]]);
}

pub(super) async fn a_job_that_comes_back_goes_to_the_tail_of_its_priority(rig: Rig) {
    let ids = enqueue_with_priorities(&rig, &[0, 0, 0, 1]).await;
    let session = rig.session().await;
    rig.settle(&rig.take_one(&session).await, Outcome::Release).await;
    let again = Outcome::Snooze { delay_ms: 0 };
    rig.settle(&rig.take_one(&session).await, again).await;
    assert_eq!(rig.drain(100).await, [2, 0, 1, 3].map(|index| ids[index]));
}

pub(super) async fn a_reprioritised_job_goes_to_the_tail_of_its_new_priority(rig: Rig) {
    let ids = enqueue_with_priorities(&rig, &[0, 0, 5, 9]).await;
    rig.change(ids[3], Change::Reprioritise(0)).await;
    rig.change(ids[0], Change::Reprioritise(5)).await;
    assert_eq!(rig.drain(100).await, [1, 3, 2, 0].map(|index| ids[index]));
}

pub(super) async fn ageing_lets_an_old_job_overtake_a_new_one_that_is_more_urgent(rig: Rig) {
    order(&rig, Order::Ageing { quantum_ms: MINUTE_MS }).await;
    let old = rig.enqueue(Rig::job().priority(5)).await;
    rig.advance(4 * MINUTE_MS);
    let urgent = rig.enqueue(Rig::job().priority(0)).await;
    rig.advance(2 * MINUTE_MS);
    let newer = rig.enqueue(Rig::job().priority(0)).await;
    assert_eq!(rig.drain(100).await, [urgent, old, newer], "one step is worth a minute");
}

pub(super) async fn ageing_counts_from_when_a_job_became_ready(rig: Rig) {
    order(&rig, Order::Ageing { quantum_ms: MINUTE_MS }).await;
    let delayed = rig.enqueue(Rig::job().due(Due::After(10 * MINUTE_MS))).await;
    rig.advance(9 * MINUTE_MS);
    let ready = rig.enqueue_one().await;
    rig.pass(MINUTE_MS).await;
    assert_eq!(rig.drain(100).await, [ready, delayed], "only ready jobs age");
}

pub(super) async fn ageing_holds_at_the_extremes(rig: Rig) {
    order(&rig, Order::Ageing { quantum_ms: AGE_MAX_MS }).await;
    let ids = enqueue_with_priorities(&rig, &[i32::MAX, 0, i32::MIN]).await;
    assert_eq!(rig.drain(100).await, [2, 1, 0].map(|index| ids[index]));
}

pub(super) async fn lifo_starts_the_newest_first_whatever_its_priority(rig: Rig) {
    order(&rig, Order::Lifo).await;
    let mut ids = Vec::new();
    for priority in [-1, 0, 1, 2] {
        ids.push(rig.enqueue(Rig::job().priority(priority)).await);
        rig.advance(SECOND_MS);
    }
    ids.reverse();
    assert_eq!(rig.drain(100).await, ids);
}

pub(super) async fn in_a_fair_queue_tenants_take_turns_however_much_one_sends(rig: Rig) {
    if !rig.has(Capability::FairOrder) {
        let change = Configure::queue(QUEUE, QueuePatch::order(Order::Fair));
        assert_code(rig.try_configure(change).await, "unsupported");
        return;
    }
    order(&rig, Order::Fair).await;
    rig.enqueue_all(vec![Rig::job().tenant("loud"); 50]).await;
    let quiet = rig.enqueue_all(vec![Rig::job().tenant("quiet"); 3]).await;
    let started = rig.drain(6).await;
    assert!(quiet.iter().all(|id| started.contains(id)), "they get every second turn");
}

/// In a fair queue where one tenant already waits and some of its jobs were started.
async fn assert_newcomer_gets_its_share(rig: &Rig) {
    let newcomer = rig.enqueue_all(vec![Rig::job().tenant("newcomer"); 10]).await;
    let started = rig.drain(10).await;
    let count = started.iter().filter(|id| newcomer.contains(id)).count();
    assert!(
        (4..=6).contains(&count),
        "{count} of 10 turns: it must get its share from now on, but no more"
    );
}

pub(super) async fn in_a_fair_queue_idling_saves_no_turns_up(rig: Rig) {
    if !rig.has(Capability::FairOrder) {
        return;
    }
    order(&rig, Order::Fair).await;
    rig.enqueue_all(vec![Rig::job().tenant("loud"); 20]).await;
    rig.drain(10).await;
    assert_newcomer_gets_its_share(&rig).await;
}

pub(super) async fn in_a_fair_queue_compaction_keeps_tenants_with_waiting_jobs(rig: Rig) {
    if !rig.has(Capability::FairOrder) {
        return;
    }
    order(&rig, Order::Fair).await;
    let mut expected = rig.enqueue_all(vec![Rig::job().tenant("a"); 3]).await;
    rig.maintain(Work::Compact).await;
    expected.push(rig.enqueue(Rig::job().tenant("a")).await);
    assert_eq!(rig.drain(10).await, expected, "a tenant's own jobs stay in order");
}

pub(super) async fn in_a_fair_queue_many_callers_of_a_tenant_gain_nothing(rig: Rig) {
    if !rig.has(Capability::FairOrder) {
        return;
    }
    order(&rig, Order::Fair).await;
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let rig = rig.clone();
            tokio::spawn(async move { rig.enqueue_all(vec![Rig::job().tenant("loud"); 5]).await })
        })
        .collect();
    for caller in callers {
        caller.await.expect("a caller of the check panicked");
    }
    let quiet = rig.enqueue_all(vec![Rig::job().tenant("quiet"); 3]).await;
    let started = rig.drain(6).await;
    assert!(quiet.iter().all(|id| started.contains(id)), "they get every second turn");
}

pub(super) async fn in_a_fair_queue_a_returning_tenant_takes_a_new_turn(rig: Rig) {
    if !rig.has(Capability::FairOrder) {
        return;
    }
    order(&rig, Order::Fair).await;
    let loud = rig.enqueue_all(vec![Rig::job().tenant("loud"); 4]).await;
    let delayed = Rig::job().tenant("quiet").due(Due::After(MINUTE_MS));
    let delayed = rig.enqueue_all(vec![delayed; 2]).await;
    let session = rig.long_session().await;
    rig.settle(&rig.take_one(&session).await, Outcome::Release).await;
    rig.settle(&rig.take_one(&session).await, Outcome::Snooze { delay_ms: 0 }).await;
    rig.pass(MINUTE_MS).await;
    let started = rig.drain(100).await;
    let among = |ids: &[JobId]| -> Vec<JobId> {
        started.iter().copied().filter(|id| ids.contains(id)).collect()
    };
    assert_eq!(
        among(&loud),
        [2, 3, 0, 1].map(|index| loud[index]),
        "after the other jobs of their tenant"
    );
    let last = started.iter().rposition(|id| delayed.contains(id)).expect("it started");
    assert!(last < 4, "a delayed job does not wait for all of the others: {started:?}");
}

pub(super) async fn in_a_fair_queue_claims_from_several_queues_serve_turns_too(rig: Rig) {
    if !rig.has(Capability::FairOrder) {
        return;
    }
    order(&rig, Order::Fair).await;
    rig.enqueue_all(vec![Rig::job().tenant("loud"); 20]).await;
    let session = rig.session().await;
    let claim = Claim::new(rig.claimant(&session), QUEUE, 10).queue("other", 10);
    assert_eq!(rig.claim(claim).await.len(), 10);
    assert_newcomer_gets_its_share(&rig).await;
}

pub(super) async fn a_change_of_order_concerns_only_jobs_that_become_ready_after_it(rig: Rig) {
    let mut before = Vec::new();
    for priority in [1, 5] {
        before.push(rig.enqueue(Rig::job().priority(priority)).await);
        rig.advance(SECOND_MS);
    }
    order(&rig, Order::Lifo).await;
    let mut after = Vec::new();
    for priority in [1, 5] {
        after.push(rig.enqueue(Rig::job().priority(priority)).await);
        rig.advance(SECOND_MS);
    }
    let started = rig.drain(100).await;
    let among = |ids: &[JobId]| -> Vec<JobId> {
        started.iter().copied().filter(|id| ids.contains(id)).collect()
    };
    assert_eq!(among(&before), before, "they keep the order in which they became ready");
    after.reverse();
    assert_eq!(among(&after), after);
}

pub(super) async fn the_kinds_of_a_queue_are_merged_by_priority_and_entry(rig: Rig) {
    let mut ids = Vec::new();
    for (kind, priority) in [("a", 1), ("b", 0), ("a", 0), ("c", 1), ("b", 2), ("a", 0)] {
        ids.push(rig.enqueue(NewJob::new(kind).queue(QUEUE).priority(priority)).await);
    }
    let expected = [1, 2, 5, 0, 3, 4].map(|index| ids[index]);
    let session = rig.session().await;
    assert_eq!(ids_of(&rig.take(&session, 4).await), expected[..4]);
    assert_eq!(ids_of(&rig.take(&session, 4).await), expected[4..]);
}

pub(super) async fn queues_are_served_in_the_order_given(rig: Rig) {
    for queue in ["one", "two"] {
        rig.enqueue_all(vec![NewJob::new(KIND).queue(queue).priority(9); 2]).await;
    }
    rig.enqueue(NewJob::new(KIND).queue("one").priority(-9)).await;
    let session = rig.session().await;
    let claim = Claim::new(rig.claimant(&session), "two", 3).queue("one", 10);
    let jobs = rig.claim(claim).await;
    assert_eq!(queues_of(&jobs), ["two", "two", "one"], "regardless of priorities");
    assert_eq!(jobs[2].header.priority, -9);
}

pub(super) async fn a_claim_takes_no_more_of_a_queue_than_it_wants(rig: Rig) {
    for queue in ["one", "two", "three"] {
        rig.enqueue_all(vec![NewJob::new(KIND).queue(queue); 5]).await;
    }
    let session = rig.session().await;
    let mut claim = Claim::new(rig.claimant(&session), "one", 6).queue("two", 0);
    claim.queues[0].limit = 2;
    let claim = claim.queue("three", 3);
    let jobs = rig.claim(claim).await;
    assert_eq!(queues_of(&jobs), ["one", "one", "three", "three", "three"]);
}

pub(super) async fn a_claim_takes_no_more_of_a_kind_than_it_wants(rig: Rig) {
    for kind in ["a", "b", "c"] {
        rig.enqueue_all(vec![NewJob::new(kind).queue(QUEUE); 5]).await;
        rig.enqueue_all(vec![NewJob::new(kind).queue("other"); 5]).await;
    }
    let session = rig.session().await;
    let claim = rig.wants(&session, 20).queue("other", 10).kind("a", 2).kind("b", 7).kind("c", 0);
    let jobs = rig.claim(claim).await;
    let count = |kind| jobs.iter().filter(|job| &*job.header.kind == kind).count();
    assert_eq!((count("a"), count("b"), count("c")), (2, 7, 0), "over all queues of the claim");
}

pub(super) async fn a_claim_takes_only_the_kinds_it_names(rig: Rig) {
    let a = rig.enqueue(NewJob::new("a").queue(QUEUE)).await;
    let b = rig.enqueue(NewJob::new("b").queue(QUEUE)).await;
    let session = rig.session().await;
    assert!(rig.claim(rig.wants(&session, 10).kind("unheard_of", 10)).await.is_empty());
    assert_eq!(ids_of(&rig.claim(rig.wants(&session, 10).kind("b", 10)).await), [b]);
    assert_eq!(ids_of(&rig.take(&session, 10).await), [a]);
}

pub(super) async fn a_suspect_comes_in_a_claim_of_its_own(rig: Rig) {
    let suspect = rig.enqueue(Rig::job().max_crashes(9)).await;
    for _ in 0..2 {
        let session = rig.session().await;
        assert_eq!(rig.take_one(&session).await.header.id, suspect);
        rig.crash(&session).await;
    }
    for priority in [-1, -1, 1] {
        rig.enqueue(Rig::job().priority(priority)).await;
        rig.enqueue(NewJob::new("other").queue(QUEUE).priority(priority)).await;
    }
    let session = rig.session().await;
    let mut started = Vec::new();
    for _ in 0..7 {
        let jobs = ids_of(&rig.take(&session, 10).await);
        assert!(!jobs.contains(&suspect) || jobs.len() == 1, "a suspect must be claimed alone");
        started.extend(jobs);
    }
    assert_eq!(started.len(), 7, "it is returned, possibly later than its rank");
    assert!(started.contains(&suspect));
}

pub(super) async fn jobs_left_by_a_full_claim_keep_their_place(rig: Rig) {
    let ids = enqueue_with_priorities(&rig, &[0; 10]).await;
    let session = rig.session().await;
    let mut started = Vec::new();
    for limit in [1, 4, 2, 9] {
        started.extend(ids_of(&rig.take(&session, limit).await));
        rig.advance(SECOND_MS);
    }
    assert_eq!(started, ids);
}

async fn order(rig: &Rig, order: Order) {
    rig.configure(Configure::queue(QUEUE, QueuePatch::order(order))).await;
}

/// Enqueues one job per priority, one after another.
async fn enqueue_with_priorities(rig: &Rig, priorities: &[i32]) -> Vec<JobId> {
    let mut ids = Vec::new();
    for priority in priorities {
        ids.push(rig.enqueue(Rig::job().priority(*priority)).await);
    }
    ids
}

fn ids_of(jobs: &[ClaimedJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.header.id).collect()
}

fn queues_of(jobs: &[ClaimedJob]) -> Vec<&str> {
    jobs.iter().map(|job| &*job.header.queue).collect()
}
