//! Gates that stop a whole lane: pauses and permits. Checked by which jobs start, not by flags.

use crate::rig::{KIND, QUEUE, Rig};
use windlass_core::JobId;
use windlass_core::engine::{Change, Claim, ClaimedJob, Configure, Gate, Outcome, SettleItem};
use windlass_core::limits::CLAIM_BATCH_MAX;
use windlass_core::model::{Finish, JobError, KindPatch, NewJob, QueuePatch, State};
use windlass_core::time::{HOUR_MS, MINUTE_MS};

async fn pause_queue(rig: &Rig, queue: &str, paused: bool) {
    rig.configure(Configure::queue(queue, QueuePatch::paused(paused))).await;
}

async fn pause_kind(rig: &Rig, kind: &str, paused: bool) {
    rig.configure(Configure::kind(kind, KindPatch::paused(paused))).await;
}

async fn permit(rig: &Rig, permits: Option<u32>) {
    rig.configure(Configure::kind(KIND, KindPatch::permits(permits))).await;
}

/// Everything that can be claimed from these queues.
async fn everything(rig: &Rig, queues: &[&str]) -> Vec<ClaimedJob> {
    let session = rig.session().await;
    let mut claim = Claim::new(rig.claimant(&session), queues[0], CLAIM_BATCH_MAX);
    for queue in &queues[1..] {
        claim = claim.queue(*queue, CLAIM_BATCH_MAX);
    }
    rig.claim(claim).await
}

fn ids(jobs: &[ClaimedJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.header.id).collect()
}

pub(super) async fn no_job_of_a_paused_queue_runs_and_other_queues_do(rig: Rig) {
    rig.enqueue_one().await;
    let other = rig.enqueue(NewJob::new(KIND).queue("other")).await;
    pause_queue(&rig, QUEUE, true).await;
    rig.assert_nothing_to_claim().await;
    assert_eq!(ids(&everything(&rig, &[QUEUE, "other"]).await), [other]);
    assert_eq!(rig.lane(QUEUE, KIND).await.gate, Some(Gate::QueuePaused));
    assert_eq!(rig.lane("other", KIND).await.gate, None);
}

pub(super) async fn a_paused_queue_takes_jobs_and_runs_them_when_it_is_resumed(rig: Rig) {
    pause_queue(&rig, QUEUE, true).await;
    pause_queue(&rig, QUEUE, true).await;
    let first = rig.enqueue_one().await;
    let second = rig.enqueue_one().await;
    rig.assert_state(first, State::Available).await;
    rig.assert_nothing_to_claim().await;
    assert_eq!(rig.lane(QUEUE, KIND).await.available, 2);
    pause_queue(&rig, QUEUE, false).await;
    assert_eq!(rig.drain(5).await, [first, second], "in their order");
    assert_eq!(rig.lane(QUEUE, KIND).await.gate, None);
}

pub(super) async fn no_job_of_a_paused_kind_runs_in_any_queue(rig: Rig) {
    rig.enqueue_one().await;
    rig.enqueue(NewJob::new(KIND).queue("other")).await;
    let elsewhere = rig.enqueue(NewJob::new("fine").queue("other")).await;
    let beside = rig.enqueue(NewJob::new("fine").queue(QUEUE)).await;
    pause_kind(&rig, KIND, true).await;
    assert_eq!(ids(&everything(&rig, &[QUEUE, "other"]).await), [beside, elsewhere]);
    assert_eq!(rig.lane("other", KIND).await.gate, Some(Gate::KindPaused));
    pause_kind(&rig, KIND, false).await;
    assert_eq!(everything(&rig, &[QUEUE, "other"]).await.len(), 2);
}

pub(super) async fn running_jobs_go_on_through_a_pause(rig: Rig) {
    rig.enqueue_all(vec![Rig::job(); 3]).await;
    let session = rig.session().await;
    let jobs = rig.take(&session, 3).await;
    pause_queue(&rig, QUEUE, true).await;
    pause_kind(&rig, KIND, true).await;
    let held: Vec<_> = jobs.iter().collect();
    let reply = rig.heartbeat(&session, &held).await.expect("heartbeat");
    assert_eq!((reply.lost, reply.cancel, reply.released), (vec![], vec![], 0));
    rig.settle(&jobs[0], Outcome::DONE).await;
    let retry = Outcome::Retry { error: JobError::new("e", "m"), delay_ms: Some(0) };
    rig.settle(&jobs[1], retry).await;
    rig.settle(&jobs[2], Outcome::Release).await;
    rig.assert_state(jobs[0].header.id, State::Completed).await;
    rig.assert_nothing_to_claim().await;
    pause_queue(&rig, QUEUE, false).await;
    rig.assert_nothing_to_claim().await;
    pause_kind(&rig, KIND, false).await;
    assert_eq!(rig.drain(5).await.len(), 2);
}

pub(super) async fn each_claimed_job_takes_a_permit(rig: Rig) {
    rig.enqueue_all(vec![Rig::job(); 6]).await;
    permit(&rig, Some(3)).await;
    let session = rig.session().await;
    assert_eq!(rig.take(&session, 2).await.len(), 2);
    assert_eq!(rig.take(&session, 5).await.len(), 1);
    rig.assert_nothing_to_claim().await;
    assert_eq!(rig.lane(QUEUE, KIND).await.gate, Some(Gate::NoPermits));
    permit(&rig, Some(1)).await;
    assert_eq!(rig.take(&session, 5).await.len(), 1, "one permit for a probe");
    permit(&rig, None).await;
    assert_eq!(rig.take(&session, 5).await.len(), 2, "no limit without permits");
    assert_eq!(rig.lane(QUEUE, KIND).await.gate, None);
}

pub(super) async fn permits_are_shared_by_all_queues_of_a_kind(rig: Rig) {
    rig.enqueue_all(vec![Rig::job(); 3]).await;
    rig.enqueue_all(vec![NewJob::new(KIND).queue("other"); 3]).await;
    permit(&rig, Some(4)).await;
    assert_eq!(everything(&rig, &[QUEUE, "other"]).await.len(), 4);
    assert!(everything(&rig, &["other"]).await.is_empty());
}

pub(super) async fn a_kind_without_permits_is_closed_and_others_are_not(rig: Rig) {
    rig.enqueue_one().await;
    let other = rig.enqueue(NewJob::new("fine").queue(QUEUE)).await;
    permit(&rig, Some(0)).await;
    assert_eq!(rig.drain(5).await, [other]);
    assert_eq!(rig.lane(QUEUE, KIND).await.gate, Some(Gate::NoPermits));
}

pub(super) async fn a_repeated_claim_takes_no_second_permit(rig: Rig) {
    rig.enqueue_all(vec![Rig::job(); 3]).await;
    permit(&rig, Some(2)).await;
    let session = rig.session().await;
    let claim = rig.wants(&session, 1);
    for _ in 0..3 {
        assert_eq!(rig.claim(claim.clone()).await.len(), 1);
    }
    assert_eq!(rig.take(&session, 5).await.len(), 1, "the second permit is still there");
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn a_gated_lane_blocks_no_other_lane(rig: Rig) {
    // Gated jobs first, last and in between, by priority and by order of enqueueing.
    let mut open = Vec::new();
    for round in 0..20 {
        let gated = NewJob::new("stuck").queue(QUEUE).priority(round - 10);
        rig.enqueue_all(vec![gated; 5]).await;
        open.push(rig.enqueue_one().await);
    }
    rig.enqueue_all(vec![NewJob::new("stuck").queue(QUEUE).priority(100); 5]).await;
    pause_kind(&rig, "stuck", true).await;
    let session = rig.session().await;
    assert_eq!(ids(&rig.take(&session, 7).await), open[..7]);
    assert_eq!(ids(&rig.take(&session, 100).await), open[7..]);
    rig.assert_nothing_to_claim().await;
    pause_kind(&rig, "stuck", false).await;
    assert_eq!(rig.take(&session, 200).await.len(), 105);
}

pub(super) async fn promoting_a_job_does_not_open_a_gate(rig: Rig) {
    let later = windlass_core::model::Due::After(HOUR_MS);
    let id = rig.enqueue(Rig::job().due(later)).await;
    pause_queue(&rig, QUEUE, true).await;
    rig.change(id, Change::Promote).await;
    rig.assert_nothing_to_claim().await;
    pause_queue(&rig, QUEUE, false).await;
    assert_eq!(rig.drain(5).await, [id]);
}

pub(super) async fn a_claim_that_comes_with_reports_respects_gates(rig: Rig) {
    rig.enqueue_all([Rig::job(), Rig::job()]).await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    pause_queue(&rig, QUEUE, true).await;
    let items = vec![SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE)];
    let (answers, claimed) = rig.settle_and_claim(items, rig.wants(&session, 5)).await;
    assert!(answers[0].is_ok() && claimed.jobs.is_empty(), "{claimed:?}");
}

pub(super) async fn waiting_through_a_pause_counts_as_waiting(rig: Rig) {
    let id = rig.enqueue(Rig::job().max_wait_ms(HOUR_MS)).await;
    pause_queue(&rig, QUEUE, true).await;
    rig.pass(HOUR_MS - MINUTE_MS).await;
    rig.assert_state(id, State::Available).await;
    rig.pass(2 * MINUTE_MS).await;
    let job = rig.get(id).await;
    assert_eq!((job.state, job.finish), (State::Expired, Some(Finish::Expired)));
    pause_queue(&rig, QUEUE, false).await;
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn a_gate_can_be_set_before_its_first_job(rig: Rig) {
    pause_kind(&rig, KIND, true).await;
    pause_queue(&rig, "new", true).await;
    rig.enqueue_one().await;
    rig.enqueue(NewJob::new("fine").queue("new")).await;
    assert!(everything(&rig, &[QUEUE, "new"]).await.is_empty());
    let settings = rig.engine().settings().await.expect("settings").value;
    assert!(settings.kinds.iter().any(|(kind, set)| &**kind == KIND && set.paused));
    assert!(settings.queues.iter().any(|(queue, set)| &**queue == "new" && set.paused));
}
