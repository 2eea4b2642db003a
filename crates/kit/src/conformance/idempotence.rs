//! Idempotence: every verb may be repeated if its reply was lost.

use crate::rig::{QUEUE, Rig};
use windlass_core::JobId;
use windlass_core::engine::{
    Claim, Claimant, ClaimedJob, Disposition, Outcome, Settle, SettleItem,
};
use windlass_core::model::{AttemptEnd, Due, JobError, Part, PartEdit, State};
use windlass_core::time::MINUTE_MS;

fn names(jobs: &[ClaimedJob]) -> Vec<(JobId, String)> {
    jobs.iter().map(|job| (job.header.id, job.lease.as_str().to_owned())).collect()
}

fn report(job: &ClaimedJob, outcome: Outcome) -> SettleItem {
    SettleItem::new(job.header.id, job.lease.clone(), outcome)
}

pub(super) async fn a_claim_repeated_by_its_number_is_the_same_claim(rig: Rig) {
    rig.enqueue_all((0..3).map(|n| Rig::job().json(format!("{n}")))).await;
    let session = rig.session().await;
    let claim = rig.wants(&session, 2);
    let first = rig.claim(claim.clone()).await;
    assert_eq!(first.len(), 2);
    let second = rig.claim(claim).await;
    assert_eq!(names(&first), names(&second));
    assert_eq!(second[0].parts, first[0].parts, "a repeated claim returns the parts");
    assert_eq!(
        second[0].header.counters.attempt, 1,
        "a repeated claim does not count as an attempt"
    );
    assert_eq!(rig.lane(QUEUE, "k").await.available, 1);
}

pub(super) async fn a_claim_without_a_session_is_repeated_by_its_id(rig: Rig) {
    rig.enqueue_all(vec![Rig::job(); 3]).await;
    let claim = Rig::wants_alone(MINUTE_MS, 2);
    let first = rig.claim(claim.clone()).await;
    let second = rig.claim(claim).await;
    assert_eq!((first.len(), names(&first)), (2, names(&second)));
    assert_eq!(
        rig.claim(Rig::wants_alone(MINUTE_MS, 2)).await.len(),
        1,
        "another claim id is another claim"
    );
}

pub(super) async fn a_repeated_claim_takes_nothing_that_came_later(rig: Rig) {
    rig.enqueue_one().await;
    let session = rig.session().await;
    let claim = rig.wants(&session, 10);
    let first = rig.claim(claim.clone()).await;
    let later = rig.enqueue(Rig::job().priority(-5)).await;
    assert_eq!(names(&rig.claim(claim).await), names(&first));
    rig.assert_state(later, State::Available).await;
}

pub(super) async fn a_repeated_claim_returns_only_what_is_still_leased(rig: Rig) {
    rig.enqueue_all(vec![Rig::job(); 4]).await;
    let session = rig.session().await;
    let claim = rig.wants(&session, 4);
    let jobs = rig.claim(claim.clone()).await;
    rig.settle(&jobs[0], Outcome::DONE).await;
    rig.settle(&jobs[2], Outcome::Snooze { delay_ms: MINUTE_MS }).await;
    let mut left = names(&rig.claim(claim).await);
    left.sort();
    let mut expected = names(&[jobs[1].clone(), jobs[3].clone()]);
    expected.sort();
    assert_eq!(left, expected);
}

pub(super) async fn a_repeated_claim_of_which_nothing_is_left_claims_afresh(rig: Rig) {
    rig.enqueue_one().await;
    let session = rig.session().await;
    let claim = rig.wants(&session, 1);
    let first = rig.claim(claim.clone()).await;
    rig.settle(&first[0], Outcome::DONE).await;
    assert!(rig.claim(claim.clone()).await.is_empty());
    let next = rig.enqueue_one().await;
    let second = rig.claim(claim).await;
    assert_eq!(second.iter().map(|job| job.header.id).collect::<Vec<_>>(), [next]);
}

pub(super) async fn the_same_number_of_another_session_is_another_claim(rig: Rig) {
    rig.enqueue_all([Rig::job(), Rig::job()]).await;
    let mut taken = Vec::new();
    for session in [rig.session().await, rig.session().await] {
        let by = Claimant::Session { session, claim_no: 1 };
        taken.extend(rig.claim(Claim::new(by, QUEUE, 1)).await);
    }
    assert_eq!(taken.len(), 2);
    assert_ne!(taken[0].header.id, taken[1].header.id);
}

pub(super) async fn a_report_repeated_is_answered_with_what_was_recorded(rig: Rig) {
    let session = rig.session().await;
    let cases = [
        (Outcome::DONE, AttemptEnd::Complete, State::Completed),
        (Outcome::retry("e", "m"), AttemptEnd::Retry, State::Scheduled),
        (Outcome::fail("e", "m"), AttemptEnd::Fail, State::Dead),
        (Outcome::Snooze { delay_ms: MINUTE_MS }, AttemptEnd::Snooze, State::Scheduled),
        (Outcome::WAIT, AttemptEnd::Wait, State::Blocked),
        (Outcome::Cancel, AttemptEnd::Cancel, State::Cancelled),
        (Outcome::Release, AttemptEnd::Release, State::Available),
    ];
    for (outcome, end, state) in cases {
        let id = rig.enqueue_one().await;
        let job = rig.take_one(&session).await;
        let first = rig.settle(&job, outcome.clone()).await;
        assert_eq!((first.id, first.end, first.state), (id, end, state));
        let before = rig.get(id).await;
        let again = rig.try_settle(report(&job, outcome)).await.expect("a repeated report");
        assert_eq!((again.already, again.end, again.state), (true, end, state));
        assert_eq!(rig.get(id).await, before, "the second report changed something");
    }
}

pub(super) async fn a_report_repeated_with_another_outcome_changes_nothing(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    rig.settle(&job, Outcome::DONE).await;
    let other = report(&job, Outcome::fail("no", "changed my mind"))
        .checkpoint(PartEdit::Set(Part::new("other")))
        .follow_up(Rig::job());
    let again = rig.try_settle(other).await.expect("a repeated report");
    assert_eq!((again.already, again.end), (true, AttemptEnd::Complete));
    assert!(again.follow_ups.is_empty());
    let job = rig.get(id).await;
    assert_eq!((job.state, job.parts.checkpoint, job.error), (State::Completed, None, None));
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn a_report_is_remembered_while_later_attempts_come_and_go(rig: Rig) {
    let id = rig.enqueue(Rig::job().max_attempts(50)).await;
    let session = rig.session().await;
    let first = rig.take_one(&session).await;
    let retry = || Outcome::Retry { error: JobError::new("e", "m"), delay_ms: Some(0) };
    rig.settle(&first, retry()).await;
    for _ in 0..10 {
        let later = rig.take_one(&session).await;
        rig.settle(&later, retry()).await;
    }
    let running = rig.take_one(&session).await;
    let again = rig.try_settle(report(&first, Outcome::DONE)).await.expect("a repeated report");
    assert_eq!((again.already, again.end, again.state), (true, AttemptEnd::Retry, State::Running));
    assert_eq!(rig.get(id).await.header.counters.failures, 11);
    rig.settle(&running, Outcome::DONE).await;
    let again = rig.try_settle(report(&first, retry())).await.expect("a repeated report");
    assert_eq!((again.end, again.state), (AttemptEnd::Retry, State::Completed));
}

pub(super) async fn a_report_stated_twice_in_one_batch_counts_once(rig: Rig) {
    rig.enqueue_one().await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    let item = report(&job, Outcome::retry("e", "m")).follow_up(Rig::job().queue("next"));
    let reply = rig.engine().settle(Settle::new([item.clone(), item])).await.expect("settle");
    let answers: Vec<_> = reply.value.items.into_iter().map(|item| item.expect("ok")).collect();
    assert_eq!(answers.iter().filter(|settled| settled.already).count(), 1, "{answers:?}");
    assert_eq!(rig.get(job.header.id).await.header.counters.failures, 1);
    rig.assert_sound().await;
}

pub(super) async fn follow_ups_of_a_repeated_report_are_created_once(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    let item = report(&job, Outcome::DONE).follow_up(Rig::job()).follow_up(Rig::job());
    let first = rig.try_settle(item.clone()).await.expect("settle");
    assert_eq!((first.already, first.follow_ups.len()), (false, 2));
    let again = rig.try_settle(item).await.expect("a repeated report");
    assert!(again.already && again.follow_ups.is_empty(), "{again:?}");
    let started = rig.drain(10).await;
    assert_eq!(started.len(), 2, "two follow-ups of {id}, not four");
    rig.assert_sound().await;
}

pub(super) async fn reports_and_the_claim_that_came_with_them_can_be_repeated_together(rig: Rig) {
    rig.enqueue_all(vec![Rig::job(); 5]).await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    let items = vec![report(&job, Outcome::DONE)];
    let claim = rig.wants(&session, 2);
    let (_, first) = rig.settle_and_claim(items.clone(), claim.clone()).await;
    let (answers, second) = rig.settle_and_claim(items, claim).await;
    assert!(answers[0].as_ref().is_ok_and(|settled| settled.already), "{answers:?}");
    assert_eq!((first.jobs.len(), names(&first.jobs)), (2, names(&second.jobs)));
    assert_eq!(rig.lane(QUEUE, "k").await.available, 2);
}

pub(super) async fn an_enqueue_repeated_by_id_is_the_same_job_whatever_became_of_it(rig: Rig) {
    let id = Rig::fresh_id();
    let job = || Rig::job().id(id).json("1");
    rig.enqueue(job()).await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let again = rig.try_enqueue(job().due(Due::After(MINUTE_MS))).await.expect("enqueue");
    assert_eq!((again.id, again.disposition), (id, Disposition::Existing));
    assert_eq!(again.state, Some(State::Running));
    rig.settle(&claimed, Outcome::DONE).await;
    let again = rig.try_enqueue(job().json("2")).await.expect("enqueue");
    assert_eq!((again.disposition, again.state), (Disposition::Existing, Some(State::Completed)));
    assert_eq!(
        rig.get(id).await.parts.payload,
        claimed.parts.payload,
        "the stored content is unchanged"
    );
    rig.assert_nothing_to_claim().await;
}
