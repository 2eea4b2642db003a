//! The effect of each outcome on a job.

use crate::rig::{Rig, assert_code, assert_refused};
use windlass_core::{JobId, Timestamp};
use windlass_core::engine::{
    Change, Claim, Claimant, ClaimedJob, Outcome, SessionId, Settle, SettleItem, UpdateItem,
};
use windlass_core::limits::{BACKOFF_MAX_MS, ERROR_BYTES_MAX, RESULT_BYTES_MAX};
use windlass_core::model::{
    AttemptEnd, Counters, Due, Finish, JobError, NewJob, Part, State,
};
use windlass_core::policy::Backoff;
use windlass_core::time::{HOUR_MS, MINUTE_MS};

/// Enqueues and claims this job.
async fn running(rig: &Rig, job: NewJob) -> ClaimedJob {
    let id = rig.enqueue(job).await;
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    assert_eq!(claimed.header.id, id, "the claim returned another job");
    claimed
}

/// Lets a worker claim the only claimable job and report on it.
async fn report(rig: &Rig, outcome: Outcome) -> JobId {
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    rig.settle(&job, outcome).await;
    job.header.id
}

fn retry_after(delay_ms: u64) -> Outcome {
    Outcome::Retry { error: JobError::new("e", "m"), delay_ms: Some(delay_ms) }
}

fn item(job: &ClaimedJob, outcome: Outcome) -> SettleItem {
    SettleItem::new(job.header.id, job.lease.clone(), outcome)
}

/// Asserts that a job waits about `delay_ms` since its last attempt, and is claimable afterwards.
async fn assert_back_after(rig: &Rig, id: JobId, delay_ms: u64) {
    let job = rig.get(id).await;
    let ended_at = job.history.last().expect("an attempt").ended_at;
    let waits_ms = job.header.run_at.since(ended_at);
    assert!(waits_ms.abs_diff(delay_ms) < 1_000, "back after {waits_ms} ms, not {delay_ms}");
    assert_eq!(job.state, State::Scheduled);
    rig.pass(delay_ms - MINUTE_MS / 2).await;
    rig.assert_nothing_to_claim().await;
    rig.pass(MINUTE_MS).await;
    rig.assert_state(id, State::Available).await;
}

pub(super) async fn a_completed_job_keeps_its_result_and_never_runs_again(rig: Rig) {
    let job = running(&rig, Rig::job()).await;
    let result = Some(Part::new(r#"{"sum":3}"#));
    let settled = rig.settle(&job, Outcome::Complete { result: result.clone() }).await;
    assert_eq!((settled.end, settled.state), (AttemptEnd::Complete, State::Completed));
    let job = rig.get(job.header.id).await;
    assert_eq!((job.result, job.finish), (result, Some(Finish::Completed)));
    assert!(job.finished_at.is_some() && job.finished_at >= job.started_at);
    rig.pass(HOUR_MS).await;
    rig.assert_nothing_to_claim().await;
    rig.assert_sound().await;
}

pub(super) async fn a_retry_waits_by_the_jobs_own_backoff(rig: Rig) {
    let grows =
        Backoff::Exponential { base_ms: 10 * MINUTE_MS, cap_ms: 30 * MINUTE_MS, jitter_ms: 0 };
    let id = rig.enqueue(Rig::job().backoff(grows).max_attempts(9)).await;
    for minutes in [10, 20, 30, 30] {
        assert_eq!(report(&rig, Outcome::retry("e", "m")).await, id);
        assert_back_after(&rig, id, minutes * MINUTE_MS).await;
    }
    assert_eq!(rig.get(id).await.header.counters.failures, 4);
}

pub(super) async fn a_handlers_own_delay_overrides_the_backoff(rig: Rig) {
    let id = rig.enqueue(Rig::job().backoff(Backoff::exactly(5 * HOUR_MS))).await;
    report(&rig, retry_after(10 * MINUTE_MS)).await;
    assert_back_after(&rig, id, 10 * MINUTE_MS).await;
}

pub(super) async fn a_retry_without_delay_is_ready_at_once(rig: Rig) {
    let id = rig.enqueue_one().await;
    report(&rig, retry_after(0)).await;
    let session = rig.session().await;
    let again = rig.take_one(&session).await;
    assert_eq!(again.header.id, id);
    assert_eq!(again.header.counters, Counters { attempt: 2, failures: 1, crashes: 0 });
}

pub(super) async fn a_job_dies_when_its_attempts_are_used_up(rig: Rig) {
    let id = rig.enqueue(Rig::job().max_attempts(3)).await;
    for _ in 0..2 {
        report(&rig, retry_after(0)).await;
        rig.assert_state(id, State::Available).await;
    }
    report(&rig, Outcome::retry("smtp_451", "greylisted")).await;
    let job = rig.get(id).await;
    assert_eq!((job.state, job.finish), (State::Dead, Some(Finish::AttemptsSpent)));
    assert_eq!(job.header.counters.failures, 3);
    assert_eq!(job.error, Some(JobError::new("smtp_451", "greylisted")));
    rig.pass(HOUR_MS).await;
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn the_last_attempt_of_a_job_that_must_not_run_again_is_a_failure(rig: Rig) {
    let id = rig.enqueue(Rig::job().max_attempts(2)).await;
    for (end, state) in
        [(AttemptEnd::Retry, State::Available), (AttemptEnd::Fail, State::Dead)]
    {
        let session = rig.session().await;
        let job = rig.take_one(&session).await;
        let settled = rig.settle(&job, retry_after(0)).await;
        assert_eq!((settled.end, settled.state), (end, state));
        let again = rig.try_settle(item(&job, retry_after(0))).await.expect("a repeated report");
        assert_eq!((again.already, again.end), (true, end));
    }
    let ends: Vec<_> = rig.get(id).await.history.iter().map(|attempt| attempt.end).collect();
    assert_eq!(ends, [AttemptEnd::Retry, AttemptEnd::Fail]);

    let job = running(&rig, Rig::job()).await;
    rig.change(job.header.id, Change::Cancel).await;
    let settled = rig.settle(&job, retry_after(0)).await;
    assert_eq!((settled.end, settled.state), (AttemptEnd::Fail, State::Cancelled));
    assert_eq!(rig.get(job.header.id).await.history[0].end, AttemptEnd::Fail);
}

pub(super) async fn an_ended_job_keeps_the_time_at_which_it_was_due(rig: Rig) {
    let outcomes = [
        Outcome::DONE,
        Outcome::Complete { result: Some(Part::new("1")) },
        Outcome::retry("e", "m"),
        Outcome::fail("e", "m"),
        Outcome::Cancel,
    ];
    for outcome in outcomes {
        // Plain jobs and jobs with a key may take different paths through a store.
        for job in [Rig::job(), Rig::job().key("k")] {
            let id = rig.enqueue(job.max_attempts(1)).await;
            let due = rig.get(id).await.header.run_at;
            rig.advance(1_000);
            report(&rig, outcome.clone()).await;
            let ended = rig.get(id).await;
            assert!(ended.state.is_terminal(), "{ended:?}");
            assert_eq!(ended.header.run_at, due, "{outcome:?}");
        }
    }
    let id = rig.enqueue(Rig::job().max_attempts(2)).await;
    report(&rig, retry_after(10 * MINUTE_MS)).await;
    let due = rig.get(id).await.header.run_at;
    rig.pass(HOUR_MS).await;
    report(&rig, retry_after(10 * MINUTE_MS)).await;
    let dead = rig.get(id).await;
    assert_eq!((dead.state, dead.header.run_at), (State::Dead, due));
}

/// Asserts that a job has entered states this many times, the last time at or after `since`.
async fn assert_entered(rig: &Rig, id: JobId, times: u32, since: Timestamp) {
    let job = rig.get(id).await;
    assert_eq!(job.transitions, times, "{job:?}");
    assert!((since..=rig.now().await).contains(&job.changed_at), "{job:?}");
}

pub(super) async fn every_entry_into_a_state_is_counted_and_timed(rig: Rig) {
    // Plain jobs and jobs with a key may take different paths through a store.
    for job in [Rig::job(), Rig::job().key("k")] {
        let now = rig.now().await;
        let id = rig.enqueue(job).await;
        assert_entered(&rig, id, 1, now).await;
        let session = rig.session().await;
        for round in 1..=2 {
            rig.advance(1_000);
            let now = rig.now().await;
            let claimed = rig.take_one(&session).await;
            assert_entered(&rig, id, 2 * round, now).await;
            rig.advance(1_000);
            let update = UpdateItem::new(id, claimed.lease.clone()).progress(1, None, "half");
            rig.update(update).await.expect("update");
            let job = rig.get(id).await;
            assert_eq!((job.transitions, job.changed_at), (2 * round, claimed.started_at));
            let now = rig.now().await;
            let outcome = if round == 1 { Outcome::Release } else { Outcome::DONE };
            rig.settle(&claimed, outcome).await;
            assert_entered(&rig, id, 2 * round + 1, now).await;
        }
    }
    let id = rig.enqueue(Rig::job()).await;
    rig.advance(1_000);
    let now = rig.now().await;
    assert_eq!(rig.drain(1).await, [id]);
    assert_entered(&rig, id, 3, now).await;
    let id = rig.enqueue(Rig::job().due(Due::After(HOUR_MS))).await;
    rig.advance(1_000);
    let now = rig.now().await;
    rig.change(id, Change::Pause).await;
    assert_entered(&rig, id, 2, now).await;
    let paused = rig.get(id).await;
    rig.advance(1_000);
    rig.change(id, Change::Pause).await;
    assert_eq!(rig.get(id).await, paused, "a change that is in effect is no transition");
    rig.change(id, Change::Cancel).await;
    rig.change(id, Change::replay()).await;
    assert_entered(&rig, id, 4, now).await;
}

pub(super) async fn a_failure_for_good_is_final_at_once(rig: Rig) {
    let id = rig.enqueue(Rig::job().max_attempts(100)).await;
    report(&rig, Outcome::fail("bad_input", "no such user")).await;
    let job = rig.get(id).await;
    assert_eq!((job.state, job.finish), (State::Dead, Some(Finish::Failed)));
    assert_eq!(job.header.counters, Counters { attempt: 1, failures: 1, crashes: 0 });
    assert_eq!(job.error, Some(JobError::new("bad_input", "no such user")));
    rig.pass(HOUR_MS).await;
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn snoozes_and_releases_spend_no_attempts(rig: Rig) {
    let id = rig.enqueue(Rig::job().max_attempts(1)).await;
    for _ in 0..3 {
        report(&rig, Outcome::Snooze { delay_ms: 0 }).await;
        report(&rig, Outcome::Release).await;
    }
    let session = rig.session().await;
    let again = rig.take_one(&session).await;
    assert_eq!(again.header.id, id);
    assert_eq!(again.header.counters, Counters { attempt: 7, failures: 0, crashes: 0 });
}

pub(super) async fn a_snoozed_job_comes_back_when_it_said(rig: Rig) {
    let id = rig.enqueue_one().await;
    report(&rig, Outcome::Snooze { delay_ms: 2 * HOUR_MS }).await;
    assert_back_after(&rig, id, 2 * HOUR_MS).await;
}

pub(super) async fn a_released_job_can_be_started_by_another_at_once(rig: Rig) {
    let job = running(&rig, Rig::job()).await;
    rig.settle(&job, Outcome::Release).await;
    let other = rig.session().await;
    let again = rig.take_one(&other).await;
    assert_eq!((again.header.id, again.header.counters.attempt), (job.header.id, 2));
}

pub(super) async fn a_job_that_waits_runs_again_once_it_is_signalled(rig: Rig) {
    let id = rig.enqueue_one().await;
    report(&rig, Outcome::WAIT).await;
    rig.assert_state(id, State::Blocked).await;
    rig.pass(24 * HOUR_MS).await;
    rig.assert_nothing_to_claim().await;
    rig.change(id, Change::signal("go")).await;
    assert_eq!(report(&rig, Outcome::DONE).await, id);
    rig.assert_sound().await;
}

pub(super) async fn a_signal_that_comes_early_is_kept_for_the_next_wait(rig: Rig) {
    let job = running(&rig, Rig::job()).await;
    let id = job.header.id;
    rig.change(id, Change::signal("go")).await;
    rig.change(id, Change::signal("go")).await;
    rig.settle(&job, Outcome::WAIT).await;
    assert_eq!(report(&rig, Outcome::WAIT).await, id, "the signal had already been sent");
    assert_eq!(report(&rig, Outcome::WAIT).await, id, "each signal ends one wait");
    rig.assert_state(id, State::Blocked).await;
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn a_signal_before_the_first_start_is_kept_too(rig: Rig) {
    let id = rig.enqueue_one().await;
    rig.change(id, Change::signal("go")).await;
    report(&rig, Outcome::Release).await;
    report(&rig, Outcome::WAIT).await;
    rig.assert_state(id, State::Available).await;
}

pub(super) async fn a_handler_can_end_its_job_as_cancelled(rig: Rig) {
    let id = rig.enqueue_one().await;
    report(&rig, Outcome::Cancel).await;
    let job = rig.get(id).await;
    assert_eq!((job.state, job.finish), (State::Cancelled, Some(Finish::Cancelled)));
    assert_eq!(job.history[0].end, AttemptEnd::Cancel);
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn a_requested_cancellation_ends_whatever_would_come_back(rig: Rig) {
    let cases = [
        (Outcome::retry("e", "m"), State::Cancelled),
        (Outcome::Snooze { delay_ms: 0 }, State::Cancelled),
        (Outcome::Release, State::Cancelled),
        (Outcome::WAIT, State::Cancelled),
        (Outcome::Cancel, State::Cancelled),
        (Outcome::DONE, State::Completed),
        (Outcome::fail("e", "m"), State::Dead),
    ];
    for (outcome, expected) in cases {
        let job = running(&rig, Rig::job()).await;
        rig.change(job.header.id, Change::Cancel).await;
        let seen = rig.get(job.header.id).await;
        assert_eq!((seen.state, seen.cancel_requested), (State::Running, true));
        let update = UpdateItem::new(job.header.id, job.lease.clone());
        assert!(rig.update(update).await.expect("update").cancel_requested);
        let settled = rig.settle(&job, outcome.clone()).await;
        assert_eq!((settled.end, settled.state), (outcome.end(expected), expected), "{outcome:?}");
        rig.assert_state(job.header.id, expected).await;
    }
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn the_claim_that_comes_with_reports_sees_what_they_freed(rig: Rig) {
    let job = running(&rig, Rig::job().key("k1")).await;
    let next = rig.enqueue(Rig::job().key("k1")).await;
    let session = rig.session().await;
    let claim = rig.wants(&session, 5);
    let (answers, claimed) = rig.settle_and_claim(vec![item(&job, Outcome::DONE)], claim).await;
    assert!(answers[0].is_ok());
    let got: Vec<_> = claimed.jobs.iter().map(|job| job.header.id).collect();
    assert_eq!(got, [next], "the report made it ready");
}

pub(super) async fn a_claim_that_fails_does_not_fail_the_reports_before_it(rig: Rig) {
    let job = running(&rig, Rig::job()).await;
    let by = Claimant::Session { session: SessionId::new("stranger"), claim_no: 1 };
    let settle = Settle::new([item(&job, Outcome::DONE)]).then(Claim::new(by, "q", 1));
    let reply = rig.engine().settle(settle).await.expect("the reports are accepted").value;
    assert!(reply.items[0].is_ok());
    assert_code(reply.claimed.expect("a result of the claim"), "session_lost");
    rig.assert_state(job.header.id, State::Completed).await;
}

pub(super) async fn a_report_can_move_the_priority(rig: Rig) {
    let job = running(&rig, Rig::job()).await;
    rig.enqueue_all([Rig::job(), Rig::job()]).await;
    rig.try_settle(item(&job, Outcome::Release).priority(-1)).await.expect("settle");
    let session = rig.session().await;
    let first = rig.take_one(&session).await;
    assert_eq!((first.header.id, first.header.priority), (job.header.id, -1));
}

pub(super) async fn bad_reports_fail_alone_and_keep_their_leases(rig: Rig) {
    rig.enqueue_all(vec![Rig::job(); 3]).await;
    let session = rig.session().await;
    let jobs = rig.take(&session, 3).await;
    let huge = Some(Part::new(vec![0; RESULT_BYTES_MAX + 1]));
    let items = [
        item(&jobs[0], Outcome::Complete { result: huge }),
        item(&jobs[1], Outcome::DONE),
        item(&jobs[2], Outcome::Snooze { delay_ms: BACKOFF_MAX_MS + 1 }),
    ];
    let reply = rig.engine().settle(Settle::new(items)).await.expect("settle").value;
    let [first, second, third] = <[_; 3]>::try_from(reply.items).expect("one result per item");
    assert_refused(first, "too_large", "result");
    assert_eq!(second.expect("settled").state, State::Completed);
    assert_refused(third, "invalid", "delay_ms");
    rig.settle(&jobs[0], Outcome::DONE).await;
    rig.settle(&jobs[2], Outcome::DONE).await;
}

pub(super) async fn a_huge_error_is_cut_and_never_refused(rig: Rig) {
    let job = running(&rig, Rig::job()).await;
    let message = "ü".repeat(ERROR_BYTES_MAX);
    rig.settle(&job, Outcome::fail("c", message)).await;
    let job = rig.get(job.header.id).await;
    let kept = job.error.expect("an error").message;
    assert!(kept.len() <= ERROR_BYTES_MAX && kept.starts_with('ü') && kept.ends_with('…'));
    assert_eq!(job.history[0].error.as_ref().map(|error| error.message.len()), Some(kept.len()));
}

pub(super) async fn the_history_lists_every_attempt_oldest_first(rig: Rig) {
    let id = rig.enqueue_one().await;
    report(&rig, retry_after(0)).await;
    rig.advance(MINUTE_MS);
    report(&rig, Outcome::Snooze { delay_ms: 0 }).await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    rig.advance(1_000);
    let seen = rig.get(id).await;
    assert_eq!(seen.history.len(), 2, "a running attempt is not in the history");
    assert_eq!(seen.started_at, Some(job.started_at));
    rig.settle(&job, Outcome::DONE).await;
    let job = rig.get(id).await;
    let ends: Vec<_> = job.history.iter().map(|attempt| (attempt.number, attempt.end)).collect();
    use AttemptEnd::{Complete, Retry, Snooze};
    assert_eq!(ends, [(1, Retry), (2, Snooze), (3, Complete)]);
    assert_eq!(job.history[0].error, Some(JobError::new("e", "m")));
    assert_eq!((&job.history[1].error, &job.history[2].error), (&None, &None));
    assert!(job.history.iter().all(|attempt| attempt.worker == "kit"));
    assert!(job.history.iter().all(|attempt| attempt.started_at <= attempt.ended_at));
    assert!(job.history[2].ended_at.since(job.history[2].started_at) >= 1_000);
    assert_eq!(job.finished_at, Some(job.history[2].ended_at));
}
