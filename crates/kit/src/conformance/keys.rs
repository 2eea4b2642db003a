//! Ordering keys: one job per key at a time, in the order of enqueueing.

use crate::rig::{QUEUE, Rig};
use windlass_core::JobId;
use windlass_core::engine::{Change, Claim, ClaimedJob, Outcome, SettleItem, Work};
use windlass_core::model::{Due, NewJob, State};
use windlass_core::policy::{Backoff, OnConflict, Unique};
use windlass_core::time::{HOUR_MS, MINUTE_MS};

pub(super) async fn of_the_jobs_of_a_key_only_the_first_is_ready(rig: Rig) {
    let ids = line(&rig, 3).await;
    assert_states(&rig, &ids, [State::Available, State::Blocked, State::Blocked]).await;
    let session = rig.session().await;
    let jobs = rig.take(&session, 10).await;
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].header.id, ids[0]);
    rig.assert_nothing_to_claim().await;
    rig.settle(&jobs[0], Outcome::DONE).await;
    assert_states(&rig, &ids, [State::Completed, State::Available, State::Blocked]).await;
}

pub(super) async fn jobs_of_a_key_run_in_order_of_entry_whatever_their_priority(rig: Rig) {
    let mut ids = Vec::new();
    for priority in [5, -5, 0, i32::MIN, i32::MAX, -1, 1, 0, 2, -9] {
        ids.push(rig.enqueue(keyed().priority(priority)).await);
    }
    assert_eq!(rig.drain(100).await, ids);
    rig.assert_sound().await;
}

pub(super) async fn jobs_of_a_key_in_one_batch_run_in_the_order_of_the_batch(rig: Rig) {
    let jobs = (0..100).map(|n| keyed().priority(-n));
    let ids = rig.enqueue_all(jobs).await;
    assert_eq!(rig.drain(200).await, ids);
    rig.assert_sound().await;
}

pub(super) async fn a_key_delays_no_other_jobs(rig: Rig) {
    let ids = line(&rig, 2).await;
    let other_key = rig.enqueue(Rig::job().key("other")).await;
    let no_key = rig.enqueue_one().await;
    let session = rig.session().await;
    let started = ids_of(&rig.take(&session, 10).await);
    assert_eq!(started, [ids[0], other_key, no_key]);
    let elsewhere = rig.enqueue(keyed().queue("elsewhere")).await;
    let claim = Claim::new(rig.claimant(&session), "elsewhere", 10);
    assert_eq!(ids_of(&rig.claim(claim).await), [elsewhere], "a key is scoped to its queue");
}

pub(super) async fn a_key_spans_the_kinds_of_its_queue(rig: Rig) {
    let first = rig.enqueue(keyed()).await;
    let second = rig.enqueue(NewJob::new("other_kind").queue(QUEUE).key("line")).await;
    rig.assert_state(second, State::Blocked).await;
    assert_eq!(rig.drain(10).await, [first, second]);
}

pub(super) async fn similar_keys_are_different_keys(rig: Rig) {
    let keys = ["line", "LINE", "line ", "lin_", "lin%"];
    for key in keys {
        let answer = rig.try_enqueue(Rig::job().key(key)).await.expect("enqueue");
        assert_eq!(answer.state, Some(State::Available), "{key:?}");
    }
}

pub(super) async fn the_key_is_held_through_everything_short_of_the_end(rig: Rig) {
    let backoff = Backoff::exactly(HOUR_MS);
    let ids = rig.enqueue_all(vec![keyed().backoff(backoff); 2]).await;
    let outcomes = [
        Outcome::retry("code", "again"),
        Outcome::Snooze { delay_ms: HOUR_MS },
        Outcome::WAIT,
        Outcome::Release,
    ];
    for outcome in outcomes {
        let session = rig.session().await;
        let claimed = rig.take_one(&session).await;
        assert_eq!(claimed.header.id, ids[0], "before {outcome:?}");
        rig.settle(&claimed, outcome.clone()).await;
        rig.assert_state(ids[1], State::Blocked).await;
        rig.change(ids[0], Change::Pause).await;
        rig.assert_state(ids[1], State::Blocked).await;
        rig.assert_nothing_to_claim().await;
        rig.change(ids[0], Change::Resume).await;
        if outcome == Outcome::WAIT {
            rig.change(ids[0], Change::signal("go")).await;
        }
        rig.pass(HOUR_MS).await;
    }
    assert_eq!(rig.drain(10).await, ids);
    rig.assert_sound().await;
}

pub(super) async fn a_lost_lease_does_not_let_the_next_of_the_key_pass(rig: Rig) {
    let ids = line(&rig, 2).await;
    let session = rig.session().await;
    rig.take_one(&session).await;
    rig.crash(&session).await;
    assert_states(&rig, &ids, [State::Available, State::Blocked]).await;
    assert_eq!(rig.drain(10).await, ids);
}

pub(super) async fn every_end_passes_the_key_to_the_next_job(rig: Rig) {
    let outcomes = [
        Outcome::DONE,
        Outcome::fail("code", "for good"),
        Outcome::Cancel,
        Outcome::retry("code", "the attempts are spent"),
    ];
    let ids = rig.enqueue_all(vec![keyed().max_attempts(1).max_crashes(0); 7]).await;
    for (index, outcome) in outcomes.into_iter().enumerate() {
        let session = rig.session().await;
        let claimed = rig.take_one(&session).await;
        assert_eq!(claimed.header.id, ids[index]);
        let settled = rig.settle(&claimed, outcome).await;
        assert!(settled.state.is_terminal(), "{settled:?}");
    }
    rig.change(ids[4], Change::Cancel).await;
    let session = rig.session().await;
    assert_eq!(rig.take_one(&session).await.header.id, ids[5], "after a cancelled one");
    rig.crash(&session).await;
    rig.assert_state(ids[5], State::Dead).await;
    assert_eq!(rig.drain(10).await, [ids[6]], "after one that died with its worker");
    rig.assert_sound().await;
}

pub(super) async fn an_expired_job_passes_its_key_on(rig: Rig) {
    let first = rig.enqueue(keyed().max_wait_ms(MINUTE_MS)).await;
    let second = rig.enqueue(keyed()).await;
    rig.advance(MINUTE_MS);
    rig.maintain(Work::Expire).await;
    rig.assert_state(first, State::Expired).await;
    assert_eq!(rig.drain(10).await, [second]);
}

pub(super) async fn a_replaced_job_passes_its_key_on(rig: Rig) {
    let unique = Unique::by("u").on_conflict(OnConflict::Replace);
    let first = rig.enqueue(keyed().unique(unique.clone())).await;
    let second = rig.enqueue(keyed()).await;
    let third = rig.enqueue(keyed().unique(unique)).await;
    rig.assert_state(first, State::Cancelled).await;
    assert_eq!(rig.drain(10).await, [second, third], "the new job is last in order");
    rig.assert_sound().await;
}

pub(super) async fn a_job_that_left_the_line_is_not_waited_for(rig: Rig) {
    let mut ids = line(&rig, 4).await;
    let expiring = rig.enqueue(keyed().max_wait_ms(MINUTE_MS)).await;
    ids.push(rig.enqueue(keyed()).await);
    rig.change(ids[1], Change::Cancel).await;
    rig.change(ids[2], Change::Pause).await;
    rig.advance(MINUTE_MS);
    rig.maintain(Work::Expire).await;
    rig.assert_state(expiring, State::Expired).await;
    assert_eq!(rig.drain(10).await, [ids[0], ids[3], ids[4]]);
    rig.assert_sound().await;
}

pub(super) async fn a_job_paused_or_put_off_in_the_line_rejoins_at_its_end(rig: Rig) {
    let ids = line(&rig, 4).await;
    rig.change(ids[1], Change::Pause).await;
    rig.change(ids[1], Change::Resume).await;
    rig.assert_state(ids[1], State::Blocked).await;
    rig.change(ids[2], Change::Reschedule(Due::After(MINUTE_MS))).await;
    rig.assert_state(ids[2], State::Scheduled).await;
    rig.pass(MINUTE_MS).await;
    rig.assert_state(ids[2], State::Blocked).await;
    assert_eq!(rig.drain(10).await, [0, 3, 1, 2].map(|index| ids[index]));
    rig.assert_sound().await;
}

pub(super) async fn a_job_that_is_not_due_waits_in_no_line(rig: Rig) {
    let later = rig.enqueue(keyed().due(Due::After(MINUTE_MS))).await;
    let first = rig.enqueue(keyed()).await;
    rig.assert_state(first, State::Available).await;
    let second = rig.enqueue(keyed()).await;
    rig.pass(MINUTE_MS).await;
    rig.assert_state(later, State::Blocked).await;
    assert_eq!(rig.drain(10).await, [first, second, later], "its place is fixed once it is due");
}

pub(super) async fn a_replayed_job_goes_to_the_end_of_the_line(rig: Rig) {
    let ids = line(&rig, 3).await;
    let session = rig.session().await;
    rig.settle(&rig.take_one(&session).await, Outcome::fail("code", "for good")).await;
    rig.change(ids[0], Change::replay()).await;
    assert_states(&rig, &ids, [State::Blocked, State::Available, State::Blocked]).await;
    assert_eq!(rig.drain(10).await, [ids[1], ids[2], ids[0]]);
}

pub(super) async fn the_claim_in_a_settle_can_take_the_next_of_the_key(rig: Rig) {
    let ids = line(&rig, 5).await;
    let session = rig.session().await;
    let mut claimed = rig.take_one(&session).await;
    for expected in &ids[1..] {
        let item = SettleItem::new(claimed.header.id, claimed.lease.clone(), Outcome::DONE);
        let (_, next) = rig.settle_and_claim(vec![item], rig.wants(&session, 10)).await;
        assert_eq!(ids_of(&next.jobs), [*expected]);
        claimed = next.jobs.into_iter().next().expect("one job");
    }
}

pub(super) async fn a_job_that_waits_for_a_signal_keeps_its_key(rig: Rig) {
    let ids = line(&rig, 2).await;
    let session = rig.session().await;
    rig.settle(&rig.take_one(&session).await, Outcome::WAIT).await;
    assert_states(&rig, &ids, [State::Blocked, State::Blocked]).await;
    rig.change(ids[1], Change::signal("go")).await;
    rig.assert_nothing_to_claim().await;
    rig.change(ids[0], Change::signal("go")).await;
    assert_eq!(rig.drain(10).await, ids, "a signal does not change the order");
}

/// A job with the ordering key `line`.
fn keyed() -> NewJob {
    Rig::job().key("line")
}

/// Jobs with the ordering key `line`, enqueued one after another.
async fn line(rig: &Rig, count: usize) -> Vec<JobId> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(rig.enqueue(keyed()).await);
    }
    ids
}

async fn assert_states<const N: usize>(rig: &Rig, ids: &[JobId], expected: [State; N]) {
    let mut states = Vec::new();
    for id in ids {
        states.push(rig.state(*id).await);
    }
    assert_eq!(states, expected);
}

fn ids_of(jobs: &[ClaimedJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.header.id).collect()
}
