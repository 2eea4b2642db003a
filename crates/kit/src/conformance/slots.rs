//! Limits on the number of jobs that run at the same time, over all jobs and by group. Checked by which jobs start.

use crate::rig::{KIND, QUEUE, Rig};
use windlass_core::JobId;
use windlass_core::engine::{Change, Claim, ClaimedJob, Configure, Gate, Outcome, SettleItem, Wait};
use windlass_core::limits::CLAIM_BATCH_MAX;
use windlass_core::model::{Due, JobError, KindPatch, Limit, NewJob, QueuePatch, State};
use windlass_core::time::{HOUR_MS, MINUTE_MS};

/// Rounds of two calls at the same time.
const RACES: u32 = 40;

fn of_group(group: &str) -> NewJob {
    Rig::job().group(group)
}

fn ids(jobs: &[ClaimedJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.header.id).collect()
}

/// Creates limits, and lists each for a kind.
async fn list_for_kinds(rig: &Rig, limits: &[(&str, Limit)], kinds: &[(&str, &[&str])]) {
    for (name, limit) in limits {
        rig.configure(Configure::limit(*name, limit.clone())).await;
    }
    for (kind, names) in kinds {
        let patch = KindPatch::limits(names.iter().copied());
        rig.configure(Configure::kind(*kind, patch)).await;
    }
}

/// Claims everything of the default queue.
async fn everything(rig: &Rig) -> Vec<ClaimedJob> {
    let session = rig.long_session().await;
    rig.take(&session, CLAIM_BATCH_MAX).await
}

pub(super) async fn no_more_jobs_run_than_a_limit_allows(rig: Rig) {
    if !rig.limited(Limit::max_running(2)).await {
        return;
    }
    rig.enqueue_all(vec![Rig::job(); 5]).await;
    let session = rig.session().await;
    let running = rig.take(&session, 5).await;
    assert_eq!(running.len(), 2);
    rig.assert_nothing_to_claim().await;
    assert_eq!(rig.lane(QUEUE, KIND).await.gate, Some(Gate::Limited));
    rig.settle(&running[0], Outcome::DONE).await;
    assert_eq!(rig.lane(QUEUE, KIND).await.gate, None);
    assert_eq!(rig.take(&session, 5).await.len(), 1);
    rig.assert_nothing_to_claim().await;
    rig.assert_sound().await;
}

pub(super) async fn every_end_of_an_attempt_frees_its_slot(rig: Rig) {
    if !rig.limited(Limit::max_running(1)).await {
        return;
    }
    let error = || JobError::new("e", "m");
    let ends = [
        Outcome::DONE,
        Outcome::Retry { error: error(), delay_ms: Some(HOUR_MS) },
        Outcome::Snooze { delay_ms: HOUR_MS },
        Outcome::Fail { error: error() },
        Outcome::WAIT,
        Outcome::Cancel,
    ];
    for by_group in [false, true] {
        let limit = Limit::max_running(1);
        let limit = if by_group { limit.by_group() } else { limit };
        rig.configure(Configure::limit("l", limit)).await;
        for end in &ends {
            rig.enqueue_all([of_group("g"), of_group("g")]).await;
            let first = everything(&rig).await;
            assert_eq!(first.len(), 1, "{end:?}");
            rig.settle(&first[0], end.clone()).await;
            let second = everything(&rig).await;
            assert_eq!(second.len(), 1, "{end:?}");
            rig.settle(&second[0], Outcome::DONE).await;
        }
        rig.enqueue_all([of_group("g"), of_group("g")]).await;
        let first = everything(&rig).await;
        rig.settle(&first[0], Outcome::Release).await;
        let again = everything(&rig).await;
        assert_eq!(again.len(), 1, "a released job gives its slot back and takes one again");
        rig.settle(&again[0], Outcome::DONE).await;
        assert_eq!(rig.drain(9).await.len(), 1);
    }
    rig.assert_sound().await;
}

pub(super) async fn the_slots_of_a_lost_worker_are_free_after_its_reclaim(rig: Rig) {
    if !rig.limited(Limit::max_running(2).by_group()).await {
        return;
    }
    rig.enqueue_all(vec![of_group("g"); 4]).await;
    let session = rig.session().await;
    assert_eq!(rig.take(&session, 9).await.len(), 2);
    rig.assert_nothing_to_claim().await;
    rig.crash(&session).await;
    assert_eq!(everything(&rig).await.len(), 2, "and never more");
    rig.assert_nothing_to_claim().await;
    rig.assert_sound().await;
}

pub(super) async fn a_repeated_claim_takes_no_second_slot(rig: Rig) {
    if !rig.limited(Limit::max_running(2)).await {
        return;
    }
    rig.enqueue_all(vec![Rig::job(); 3]).await;
    let session = rig.session().await;
    let claim = rig.wants(&session, 1);
    for _ in 0..3 {
        assert_eq!(rig.claim(claim.clone()).await.len(), 1);
    }
    assert_eq!(rig.take(&session, 5).await.len(), 1, "the second slot is still there");
}

pub(super) async fn surplus_jobs_of_a_group_are_blocked_and_name_their_limit(rig: Rig) {
    if !rig.limited(Limit::max_running(2).by_group()).await {
        return;
    }
    let jobs = rig.enqueue_all(vec![of_group("g"); 5]).await;
    let other = rig.enqueue(of_group("h")).await;
    for id in jobs[..2].iter().chain([&other]) {
        rig.assert_state(*id, State::Available).await;
    }
    for id in &jobs[2..] {
        let job = rig.get(*id).await;
        assert_eq!(job.state, State::Blocked);
        assert_eq!(job.limits, ["l".into()], "{job:?}");
    }
    let running = everything(&rig).await;
    assert_eq!(ids(&running), [jobs[0], jobs[1], other]);
    rig.assert_state(jobs[2], State::Blocked).await;
    rig.settle(&running[0], Outcome::DONE).await;
    rig.assert_state(jobs[2], State::Available).await;
    rig.assert_state(jobs[3], State::Blocked).await;
    rig.assert_sound().await;
}

pub(super) async fn a_deep_group_does_not_delay_another(rig: Rig) {
    if !rig.limited(Limit::max_running(1).by_group()).await {
        return;
    }
    rig.enqueue_all(vec![of_group("deep"); 1_000]).await;
    let others = rig.enqueue_all((0..20).map(|n| of_group(&format!("g{n}")))).await;
    let session = rig.session().await;
    let jobs = rig.take(&session, 21).await;
    assert_eq!(jobs.len(), 21, "one of each group");
    assert_eq!(ids(&jobs[1..]), others);
    let lane = rig.lane(QUEUE, KIND).await;
    assert_eq!((lane.blocked, lane.available), (999, 0), "claims see nothing of the line");
}

pub(super) async fn the_line_of_a_group_goes_by_priority_then_by_age(rig: Rig) {
    if !rig.limited(Limit::max_running(1).by_group()).await {
        return;
    }
    let first = rig.enqueue(of_group("g")).await;
    let second = rig.enqueue(of_group("g")).await;
    rig.advance(1);
    let urgent = rig.enqueue(of_group("g").priority(-1)).await;
    let third = rig.enqueue(of_group("g")).await;
    let late = rig.enqueue(of_group("g").priority(1)).await;
    assert_eq!(rig.drain(9).await, [first, urgent, second, third, late]);
}

pub(super) async fn a_job_without_a_group_is_counted_by_tenant_or_with_its_like(rig: Rig) {
    if !rig.limited(Limit::max_running(1).by_group()).await {
        return;
    }
    let acme = rig.enqueue(Rig::job().tenant("acme")).await;
    rig.enqueue(of_group("acme")).await;
    let own = rig.enqueue(Rig::job().tenant("acme").group("other")).await;
    let none = rig.enqueue_one().await;
    rig.enqueue_one().await;
    assert_eq!(ids(&everything(&rig).await), [acme, own, none]);
}

pub(super) async fn a_ready_job_that_leaves_makes_room_in_its_group(rig: Rig) {
    if !rig.limited(Limit::max_running(1).by_group()).await {
        return;
    }
    let changes =
        [Change::Cancel, Change::Pause, Change::Kill, Change::Reschedule(Due::After(HOUR_MS))];
    for change in changes {
        let jobs = rig.enqueue_all([of_group("g"), of_group("g")]).await;
        rig.assert_state(jobs[1], State::Blocked).await;
        rig.change(jobs[0], change.clone()).await;
        rig.assert_state(jobs[1], State::Available).await;
        rig.change(jobs[1], Change::Cancel).await;
    }
    let expiring = of_group("g").max_wait_ms(MINUTE_MS);
    let jobs = rig.enqueue_all([expiring, of_group("g")]).await;
    rig.pass(2 * MINUTE_MS).await;
    rig.assert_state(jobs[0], State::Expired).await;
    assert_eq!(rig.drain(9).await, [jobs[1]]);
    rig.assert_sound().await;
}

pub(super) async fn slots_are_counted_and_not_positions(rig: Rig) {
    if !rig.limited(Limit::max_running(2).by_group()).await {
        return;
    }
    rig.enqueue_all(vec![of_group("g"); 60]).await;
    let session = rig.long_session().await;
    let mut running: Vec<ClaimedJob> = Vec::new();
    let mut done = 0;
    for round in 0..200_usize {
        let batch = 1 + (round * 7) as u32 % 5;
        running.extend(rig.take(&session, batch).await);
        assert!(running.len() <= 2, "round {round}: {} run", running.len());
        // Ends come in an order of their own: now the older one, now the newer one.
        if round % 3 != 0 && !running.is_empty() {
            let job = running.remove(round % running.len());
            rig.settle(&job, Outcome::DONE).await;
            done += 1;
        }
        if done == 60 {
            break;
        }
    }
    assert_eq!(done, 60, "none is stuck");
    rig.assert_sound().await;
}

pub(super) async fn concurrent_claims_share_the_slots(rig: Rig) {
    if !rig.limited(Limit::max_running(3)).await {
        return;
    }
    rig.enqueue_all(vec![Rig::job(); 40]).await;
    let session = rig.long_session().await;
    let claims = (0..8).map(|_| {
        let (rig, session) = (rig.clone(), session.clone());
        tokio::spawn(async move { rig.take(&session, 5).await })
    });
    let mut running = Vec::new();
    for claim in claims.collect::<Vec<_>>() {
        running.extend(claim.await.expect("a claim"));
    }
    assert!(running.len() <= 3, "{} run", running.len());
    running.extend(rig.take(&session, 5).await);
    assert_eq!(running.len(), 3);
}

/// The end of the only running job of a group and the next enqueue at the same time: whichever comes first, the new job
/// has a slot afterwards. It must not wait for an end that was not to be seen yet.
pub(super) async fn a_job_that_arrives_while_the_last_one_ends_has_its_slot(rig: Rig) {
    if !rig.limited(Limit::max_running(1).by_group()).await {
        return;
    }
    let session = rig.long_session().await;
    rig.enqueue(of_group("g")).await;
    for round in 0..RACES {
        let running = rig.take(&session, 2).await;
        assert_eq!(running.len(), 1, "round {round}");
        let (enqueuer, settler) = (rig.clone(), rig.clone());
        let arrives = tokio::spawn(async move { enqueuer.enqueue(of_group("g")).await });
        let ends = tokio::spawn(async move { settler.settle(&running[0], Outcome::DONE).await });
        arrives.await.expect("an enqueue");
        ends.await.expect("a settle");
    }
    rig.assert_sound().await;
}

pub(super) async fn a_job_that_waits_for_one_limit_holds_none_of_the_others(rig: Rig) {
    if !rig.can_limit().await {
        return;
    }
    if !rig.can_share_limits().await {
        return;
    }
    for by_group in [false, true] {
        let one = || match by_group {
            true => Limit::max_running(1).by_group(),
            false => Limit::max_running(1),
        };
        let limits = [("a", one()), ("b", one())];
        list_for_kinds(&rig, &limits, &[("x", &["a", "b"]), ("y", &["a"]), ("z", &["b"])]).await;
        let of_kind = |kind: &str| NewJob::new(kind).queue(QUEUE).group("g");
        rig.enqueue(of_kind("z")).await;
        let z = everything(&rig).await;
        let x = rig.enqueue(of_kind("x")).await;
        let y = rig.enqueue(of_kind("y")).await;
        let running = everything(&rig).await;
        assert_eq!(ids(&running), [y], "the job of kind x waits for b only");
        rig.settle(&z[0], Outcome::DONE).await;
        assert!(everything(&rig).await.is_empty(), "now it waits for a");
        rig.settle(&running[0], Outcome::DONE).await;
        let last = everything(&rig).await;
        assert_eq!(ids(&last), [x]);
        rig.settle(&last[0], Outcome::DONE).await;
    }
    rig.assert_sound().await;
}

pub(super) async fn two_limits_without_contention_cost_no_time(rig: Rig) {
    if !rig.can_limit().await {
        return;
    }
    if !rig.can_share_limits().await {
        return;
    }
    let wide = || Limit::max_running(100);
    let limits = [("a", wide().by_group()), ("b", wide()), ("c", wide().by_group())];
    list_for_kinds(&rig, &limits, &[(KIND, &["a", "b", "c"])]).await;
    let jobs = rig.enqueue_all(vec![of_group("g"); 50]).await;
    assert_eq!(ids(&everything(&rig).await), jobs, "at once, without maintenance");
}

pub(super) async fn a_queue_and_a_kind_share_a_limit(rig: Rig) {
    if !rig.limited(Limit::max_running(3).by_group()).await {
        return;
    }
    if !rig.can_share_limits().await {
        return;
    }
    rig.configure(Configure::kind("elsewhere", KindPatch::limits(["l"]))).await;
    rig.enqueue_all(vec![of_group("g"); 2]).await;
    rig.enqueue_all(vec![NewJob::new("elsewhere").queue("other").group("g"); 5]).await;
    let session = rig.session().await;
    let claim = Claim::new(rig.claimant(&session), QUEUE, 9).queue("other", 9);
    let running = rig.claim(claim).await;
    assert_eq!(running.len(), 3);
    rig.settle(&running[0], Outcome::DONE).await;
    let claim = Claim::new(rig.claimant(&session), QUEUE, 9).queue("other", 9);
    assert_eq!(rig.claim(claim).await.len(), 1, "released into the other queue");
    rig.assert_sound().await;
}

pub(super) async fn a_paused_queue_holds_no_slots_of_a_shared_limit(rig: Rig) {
    if !rig.limited(Limit::max_running(1).by_group()).await {
        return;
    }
    if !rig.can_share_limits().await {
        return;
    }
    rig.configure(Configure::queue("other", QueuePatch::limits(["l"]))).await;
    rig.enqueue_all([of_group("g"), of_group("g")]).await;
    rig.configure(Configure::queue(QUEUE, QueuePatch::paused(true))).await;
    let other = NewJob::new(KIND).queue("other").group("g");
    let others = rig.enqueue_all([other.clone(), other]).await;
    let session = rig.session().await;
    for id in others {
        let claim = Claim::new(rig.claimant(&session), "other", 9);
        let running = rig.claim(claim).await;
        assert_eq!(ids(&running), [id]);
        rig.settle(&running[0], Outcome::DONE).await;
    }
    rig.configure(Configure::queue(QUEUE, QueuePatch::paused(false))).await;
    assert_eq!(rig.drain(9).await.len(), 2);
    rig.assert_sound().await;
}

pub(super) async fn lanes_that_share_a_limit_take_turns_and_lose_nothing(rig: Rig) {
    if !rig.limited(Limit::max_running(1).by_group()).await {
        return;
    }
    let kinds = ["x", "y", "z"];
    let jobs = (0..30).map(|n| NewJob::new(kinds[n % 3]).queue(QUEUE).group("g"));
    rig.enqueue_all(jobs).await;
    let session = rig.long_session().await;
    for round in 0..30 {
        let running = rig.take(&session, 9).await;
        assert_eq!(running.len(), 1, "round {round}");
        rig.settle(&running[0], Outcome::DONE).await;
    }
    rig.assert_nothing_to_claim().await;
    rig.assert_sound().await;
}

pub(super) async fn ordering_keys_and_limits_hold_together(rig: Rig) {
    if !rig.limited(Limit::max_running(1).by_group()).await {
        return;
    }
    let keyed = |key: &str| of_group("g").key(key);
    let a = rig.enqueue_all([keyed("a"), keyed("a")]).await;
    let b = rig.enqueue_all([keyed("b"), keyed("b")]).await;
    let order = rig.drain(9).await;
    let place = |id: JobId| order.iter().position(|other| *other == id).expect("it ran");
    assert_eq!(order.len(), 4);
    assert!(place(a[0]) < place(a[1]) && place(b[0]) < place(b[1]), "{order:?}");
    rig.assert_sound().await;
}

pub(super) async fn a_retry_that_is_due_waits_in_line_again(rig: Rig) {
    if !rig.limited(Limit::max_running(1).by_group()).await {
        return;
    }
    let jobs = rig.enqueue_all([of_group("g"), of_group("g")]).await;
    let running = everything(&rig).await;
    let retry = Outcome::Retry { error: JobError::new("e", "m"), delay_ms: Some(MINUTE_MS) };
    rig.settle(&running[0], retry).await;
    let running = everything(&rig).await;
    assert_eq!(ids(&running), [jobs[1]], "a job that waits for its retry holds no slot");
    rig.pass(2 * MINUTE_MS).await;
    rig.assert_state(jobs[0], State::Blocked).await;
    rig.settle(&running[0], Outcome::DONE).await;
    assert_eq!(rig.drain(9).await, [jobs[0]]);
}

pub(super) async fn a_waiter_wakes_when_a_slot_is_free(rig: Rig) {
    if !rig.limited(Limit::max_running(1)).await {
        return;
    }
    for by_group in [false, true] {
        let limit = Limit::max_running(1);
        let limit = if by_group { limit.by_group() } else { limit };
        rig.configure(Configure::limit("l", limit)).await;
        rig.enqueue_all([of_group("g"), of_group("g")]).await;
        let running = everything(&rig).await;
        let wait = |ms| rig.engine().wait(Wait::new([QUEUE], ms));
        assert!(!wait(20).await.expect("wait").value, "no slot is free");
        let task = rig.clone();
        let waiter = tokio::spawn(async move {
            task.engine().wait(Wait::new([QUEUE], 30_000)).await.expect("wait").value
        });
        assert!(!wait(20).await.expect("wait").value);
        let item = SettleItem::new(running[0].header.id, running[0].lease.clone(), Outcome::DONE);
        rig.try_settle(item).await.expect("settle");
        assert!(waiter.await.expect("the waiter"), "the wait timed out");
        assert_eq!(rig.drain(9).await.len(), 1);
    }
}
