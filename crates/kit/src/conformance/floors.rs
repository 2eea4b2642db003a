//! Claims from a priority on, by which workers guarantee a share to jobs that more urgent ones would starve.

use crate::rig::{KIND, QUEUE, Rig, assert_refused};
use windlass_core::JobId;
use windlass_core::engine::{Capability, Claim, ClaimedJob, Configure, Outcome};
use windlass_core::model::{Limit, NewJob, Order, QueuePatch, State};
use windlass_core::time::{MINUTE_MS, SECOND_MS};

fn ids(jobs: &[ClaimedJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.header.id).collect()
}

pub(super) async fn a_claim_from_a_priority_on_takes_no_more_urgent_job(rig: Rig) {
    let urgent = rig.enqueue_all(vec![Rig::job(); 100]).await;
    let low = rig.enqueue_all([20, 10, 20, 10].map(|priority| Rig::job().priority(priority))).await;
    let other = rig.enqueue(NewJob::new("other").queue(QUEUE).priority(15)).await;
    let session = rig.long_session().await;
    let claim = rig.wants(&session, 4).from_priority(10);
    let got = rig.claim(claim.clone()).await;
    assert_eq!(ids(&got), [low[1], low[3], other, low[0]], "by priority, and then by entry");
    assert_eq!(ids(&rig.claim(claim).await), ids(&got), "the same claim again");
    // Ordinary claims and others alternate, until nothing is left.
    let mut seen = Vec::new();
    for _ in 0..60 {
        let floor = rig.claim(rig.wants(&session, 1).from_priority(20)).await;
        assert!(floor.len() <= 1 && floor.iter().all(|job| job.header.priority == 20));
        let usual = rig.take(&session, 2).await;
        seen.extend(ids(&floor).into_iter().chain(ids(&usual)));
    }
    let expected: Vec<JobId> = [low[2]].into_iter().chain(urgent).collect();
    assert_eq!(seen, expected);
    rig.assert_sound().await;
}

pub(super) async fn a_floor_lets_low_priorities_run_beside_an_endless_backlog(rig: Rig) {
    let session = rig.long_session().await;
    let mut low = rig.enqueue_all(vec![Rig::job().priority(9); 20]).await.into_iter();
    let mut started = 0;
    for _ in 0..20 {
        // More urgent jobs arrive than are started.
        rig.enqueue_all(vec![Rig::job().priority(-1); 6]).await;
        let floor = rig.claim(rig.wants(&session, 1).from_priority(9)).await;
        assert_eq!(ids(&floor), [low.next().expect("one per round")]);
        let usual = rig.take(&session, 4).await;
        assert!(usual.iter().all(|job| job.header.priority == -1));
        for job in floor.iter().chain(&usual) {
            rig.settle(job, Outcome::DONE).await;
        }
        started += usual.len();
    }
    assert_eq!(started, 80, "four fifths were urgent");
}

pub(super) async fn a_claim_from_a_priority_on_respects_queues_kinds_and_gates(rig: Rig) {
    let job = |queue: &str, kind: &str| NewJob::new(kind).queue(queue).priority(5);
    rig.enqueue_all([job("a", "x"), job("a", "y"), job("b", "x"), job("c", "x")]).await;
    rig.configure(Configure::queue("b", QueuePatch::paused(true))).await;
    let session = rig.session().await;
    let claim = Claim::new(rig.claimant(&session), "b", 9).queue("a", 9).kind("x", 9);
    let got = rig.claim(claim.from_priority(5)).await;
    assert_eq!(got.len(), 1);
    assert_eq!((&*got[0].header.queue, &*got[0].header.kind), ("a", "x"));
    let claim = Claim::new(rig.claimant(&session), "a", 9).from_priority(6);
    assert!(rig.claim(claim).await.is_empty());
}

pub(super) async fn a_claim_from_a_priority_on_respects_limits(rig: Rig) {
    if !rig.limited(Limit::max_running(2)).await {
        return;
    }
    rig.enqueue_all([0, 7, 7, 7].map(|priority| Rig::job().priority(priority))).await;
    let session = rig.session().await;
    let floor = |limit| rig.wants(&session, limit).from_priority(7);
    assert_eq!(rig.claim(floor(1)).await.len(), 1);
    assert_eq!(rig.claim(floor(9)).await.len(), 1);
    assert!(rig.claim(floor(9)).await.is_empty() && rig.take(&session, 9).await.is_empty());
}

pub(super) async fn queues_in_another_order_refuse_claims_from_a_priority_on(rig: Rig) {
    let id = rig.enqueue(Rig::job().priority(3)).await;
    let mut orders = vec![Order::Lifo, Order::Ageing { quantum_ms: SECOND_MS }];
    if rig.has(Capability::FairOrder) {
        orders.push(Order::Fair);
    }
    for order in orders {
        rig.configure(Configure::queue(QUEUE, QueuePatch::order(order))).await;
        let session = rig.session().await;
        let claims =
            [rig.wants(&session, 1).from_priority(0), Rig::wants_alone(MINUTE_MS, 1).from_priority(0)];
        for claim in claims {
            let claim = claim.kind(KIND, 1);
            assert_refused(rig.engine().claim(claim).await, "invalid", "from_priority");
        }
        rig.engine().close_session(session).await.expect("close_session");
    }
    rig.assert_state(id, State::Available).await;
    let sessions = rig.engine().sessions().await.expect("sessions").value;
    assert_eq!(sessions, [], "a refused claim leaves no session behind");
}
