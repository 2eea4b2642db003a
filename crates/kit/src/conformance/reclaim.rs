//! Reclaiming the jobs of dead workers.

use crate::rig::{QUEUE, Rig};
use windlass_core::JobId;
use windlass_core::engine::{Change, Claim, ClaimedJob, Outcome, Work};
use windlass_core::limits::{HISTORY_MAX, MAX_CRASHES_MAX, SESSION_TTL_DEFAULT_MS};
use windlass_core::model::{AttemptEnd, Counters, Finish, JobError, NewJob, State};
use windlass_core::time::{HOUR_MS, MINUTE_MS};

/// A job that survives many crashes.
fn tough() -> NewJob {
    Rig::job().max_crashes(100).max_attempts(100)
}

/// Lets a worker claim `id`, the only claimable job, and die, `times` times.
async fn crash_on(rig: &Rig, id: JobId, times: u32) {
    for _ in 0..times {
        let session = rig.session().await;
        let job = rig.take_one(&session).await;
        assert_eq!(job.header.id, id, "the claim returned another job");
        rig.crash(&session).await;
    }
}

/// Lets a worker claim `id` and report `outcome`.
async fn report(rig: &Rig, id: JobId, outcome: Outcome) {
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    assert_eq!(job.header.id, id);
    rig.settle(&job, outcome).await;
}

async fn counters(rig: &Rig, id: JobId) -> Counters {
    rig.get(id).await.header.counters
}

fn ids(jobs: &[ClaimedJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.header.id).collect()
}

pub(super) async fn a_lost_job_comes_back_after_a_short_backoff_with_a_crash_counted(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    rig.take_one(&session).await;
    rig.advance(SESSION_TTL_DEFAULT_MS + 1_000);
    rig.maintain(Work::Reclaim).await;
    let job = rig.get(id).await;
    assert_eq!(job.state, State::Scheduled, "not at once: {job:#?}");
    assert_eq!(job.header.counters, Counters { attempt: 1, failures: 0, crashes: 1 });
    let [attempt] = job.history.as_slice() else { panic!("one attempt: {:?}", job.history) };
    assert_eq!((attempt.number, attempt.end, &attempt.error), (1, AttemptEnd::Lost, &None));
    let delay_ms = job.header.run_at.since(attempt.ended_at);
    assert!((1_000..=2_000).contains(&delay_ms), "returned after {delay_ms} ms");
    rig.pass(3_000).await;
    let other = rig.session().await;
    let again = rig.take_one(&other).await;
    assert_eq!(again.header.counters, Counters { attempt: 2, failures: 0, crashes: 1 });
    rig.assert_sound().await;
}

pub(super) async fn no_job_is_reclaimed_before_its_session_expired(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.long_session().await;
    let job = rig.take_one(&session).await;
    rig.pass(HOUR_MS - MINUTE_MS).await;
    rig.assert_state(id, State::Running).await;
    rig.settle(&job, Outcome::DONE).await;
}

pub(super) async fn the_backoff_doubles_with_each_crash_up_to_its_cap(rig: Rig) {
    let id = rig.enqueue(tough()).await;
    for least_ms in [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
        crash_on(&rig, id, 1).await;
        let job = rig.get(id).await;
        let lost_at = job.history.last().expect("an attempt").ended_at;
        let delay_ms = job.header.run_at.since(lost_at);
        assert!((least_ms..=least_ms + 1_000).contains(&delay_ms), "{delay_ms} ms, {least_ms}");
    }
}

pub(super) async fn jobs_of_one_dead_worker_all_come_back_but_not_in_one_wave(rig: Rig) {
    let all = rig.enqueue_all(vec![Rig::job(); 50]).await;
    let session = rig.session().await;
    assert_eq!(rig.take(&session, 50).await.len(), 50);
    rig.crash(&session).await;
    let mut times = Vec::new();
    for id in &all {
        let job = rig.get(*id).await;
        assert_eq!((job.state, job.header.counters.crashes), (State::Available, 1));
        times.push(job.header.run_at);
    }
    times.sort();
    times.dedup();
    assert!(times.len() > 1, "fifty jobs returned within one millisecond");
    let mut started = rig.drain(100).await;
    started.sort();
    let mut all = all;
    all.sort();
    assert_eq!(started, all);
}

pub(super) async fn a_job_dies_when_its_crash_budget_is_used_up(rig: Rig) {
    let id = rig.enqueue(Rig::job().max_crashes(2)).await;
    crash_on(&rig, id, 2).await;
    rig.assert_state(id, State::Available).await;
    crash_on(&rig, id, 1).await;
    let job = rig.get(id).await;
    assert_eq!((job.state, job.finish), (State::Dead, Some(Finish::CrashesSpent)));
    assert_eq!(job.header.counters, Counters { attempt: 3, failures: 0, crashes: 3 });
    assert!(job.finished_at.is_some());
    rig.assert_nothing_to_claim().await;
    rig.assert_sound().await;
}

pub(super) async fn a_job_without_a_crash_budget_never_runs_again_after_one(rig: Rig) {
    let id = rig.enqueue(Rig::job().max_crashes(0)).await;
    crash_on(&rig, id, 1).await;
    let job = rig.get(id).await;
    assert_eq!((job.state, job.finish), (State::Dead, Some(Finish::CrashesSpent)));
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn a_suspect_comes_in_a_claim_of_its_own(rig: Rig) {
    let suspect = rig.enqueue(tough()).await;
    crash_on(&rig, suspect, 2).await;
    let neighbours = rig.enqueue_all(vec![Rig::job(); 4]).await;
    let session = rig.session().await;
    let mut seen = Vec::new();
    // It may be returned later than its rank, but it is returned: one claim for it, one for the others.
    for _ in 0..5 {
        let jobs = ids(&rig.take(&session, 10).await);
        assert!(jobs.len() == 1 || !jobs.contains(&suspect), "{suspect} is not alone: {jobs:?}");
        seen.extend(jobs);
    }
    seen.sort();
    let mut expected = [neighbours, vec![suspect]].concat();
    expected.sort();
    assert_eq!(seen, expected);
}

pub(super) async fn a_suspect_is_claimed_alone_across_queues(rig: Rig) {
    let suspect = rig.enqueue(tough()).await;
    crash_on(&rig, suspect, 2).await;
    let other = rig.enqueue(Rig::job().queue("other")).await;
    let session = rig.session().await;
    let mut seen = Vec::new();
    for _ in 0..2 {
        let jobs = ids(&rig.claim(rig.wants(&session, 10).queue("other", 10)).await);
        assert_eq!(jobs.len(), 1, "{suspect} is not alone: {jobs:?}");
        seen.extend(jobs);
    }
    assert!(seen.contains(&suspect) && seen.contains(&other));
}

pub(super) async fn a_suspect_is_not_taken_along_by_those_before_it(rig: Rig) {
    let suspect = rig.enqueue(tough()).await;
    crash_on(&rig, suspect, 2).await;
    // Ahead of it in its own lane, in another lane, and in a queue that is claimed first.
    rig.enqueue_all(vec![Rig::job().priority(-2); 2]).await;
    rig.enqueue(NewJob::new("other").queue(QUEUE).priority(-1)).await;
    rig.enqueue(NewJob::new("other").queue("first")).await;
    let session = rig.session().await;
    let mut started = 0;
    for _ in 0..5 {
        let claim = Claim::new(rig.claimant(&session), "first", 10).queue(QUEUE, 10);
        let jobs = ids(&rig.claim(claim).await);
        assert!(jobs.len() == 1 || !jobs.contains(&suspect), "{suspect} is not alone: {jobs:?}");
        started += jobs.len();
    }
    assert_eq!(started, 5);
}

pub(super) async fn two_suspects_come_in_two_claims(rig: Rig) {
    let [first, second] = [rig.enqueue(tough()).await, rig.enqueue(tough()).await];
    for _ in 0..2 {
        let session = rig.session().await;
        let mut together = rig.take(&session, 1).await;
        together.extend(rig.take(&session, 1).await);
        assert_eq!(together.len(), 2);
        rig.crash(&session).await;
    }
    let session = rig.session().await;
    let claims = [rig.take(&session, 10).await, rig.take(&session, 10).await];
    assert!(claims.iter().all(|jobs| jobs.len() == 1), "{claims:?}");
    let mut seen = claims.map(|jobs| jobs[0].header.id);
    seen.sort();
    let mut expected = [first, second];
    expected.sort();
    assert_eq!(seen, expected);
}

pub(super) async fn a_job_that_crashed_once_still_runs_among_others(rig: Rig) {
    let id = rig.enqueue(tough()).await;
    crash_on(&rig, id, 1).await;
    rig.enqueue_all([Rig::job(), Rig::job()]).await;
    let session = rig.session().await;
    assert_eq!(rig.take(&session, 10).await.len(), 3);
}

pub(super) async fn a_suspect_stays_alone_in_a_claim_that_came_with_reports(rig: Rig) {
    let suspect = rig.enqueue(tough()).await;
    crash_on(&rig, suspect, 2).await;
    rig.enqueue_all([Rig::job(), Rig::job()]).await;
    let session = rig.session().await;
    for _ in 0..3 {
        let (_, claimed) = rig.settle_and_claim(vec![], rig.wants(&session, 10)).await;
        let jobs = ids(&claimed.jobs);
        assert!(jobs.len() == 1 || !jobs.contains(&suspect), "{suspect} is not alone: {jobs:?}");
    }
    rig.assert_state(suspect, State::Running).await;
}

pub(super) async fn a_reported_outcome_clears_the_crashes(rig: Rig) {
    let retry = Outcome::Retry { error: JobError::new("e", "m"), delay_ms: Some(0) };
    for outcome in [Outcome::DONE, retry, Outcome::fail("e", "m"), Outcome::WAIT] {
        let id = rig.enqueue(tough()).await;
        crash_on(&rig, id, 2).await;
        report(&rig, id, outcome.clone()).await;
        assert_eq!(counters(&rig, id).await.crashes, 0, "after {outcome:?}");
        // Removes it before the next case.
        if !rig.state(id).await.is_terminal() {
            rig.change(id, Change::Cancel).await;
        }
    }
}

pub(super) async fn snooze_and_release_clear_no_crashes(rig: Rig) {
    let id = rig.enqueue(tough()).await;
    crash_on(&rig, id, 2).await;
    report(&rig, id, Outcome::Snooze { delay_ms: 0 }).await;
    report(&rig, id, Outcome::Release).await;
    assert_eq!(counters(&rig, id).await, Counters { attempt: 4, failures: 0, crashes: 2 });
    rig.enqueue_one().await;
    let session = rig.session().await;
    assert_eq!(rig.take(&session, 10).await.len(), 1, "it is still a suspect");
}

pub(super) async fn after_a_retry_the_crash_budget_is_whole_again(rig: Rig) {
    let id = rig.enqueue(Rig::job().max_crashes(1)).await;
    let retry = Outcome::Retry { error: JobError::new("e", "m"), delay_ms: Some(0) };
    for _ in 0..3 {
        crash_on(&rig, id, 1).await;
        report(&rig, id, retry.clone()).await;
    }
    assert_eq!(counters(&rig, id).await, Counters { attempt: 6, failures: 3, crashes: 0 });
    crash_on(&rig, id, 2).await;
    assert_eq!(rig.get(id).await.finish, Some(Finish::CrashesSpent));
}

pub(super) async fn failures_and_crashes_have_budgets_of_their_own(rig: Rig) {
    let id = rig.enqueue(Rig::job().max_attempts(2).max_crashes(2)).await;
    let retry = Outcome::Retry { error: JobError::new("e", "m"), delay_ms: Some(0) };
    crash_on(&rig, id, 2).await;
    report(&rig, id, retry.clone()).await;
    rig.assert_state(id, State::Available).await;
    crash_on(&rig, id, 2).await;
    rig.assert_state(id, State::Available).await;
    report(&rig, id, retry).await;
    let job = rig.get(id).await;
    assert_eq!((job.state, job.finish), (State::Dead, Some(Finish::AttemptsSpent)));
    assert_eq!((job.header.counters.attempt, job.header.counters.failures), (6, 2));
}

pub(super) async fn a_cancelled_job_whose_worker_dies_ends_cancelled(rig: Rig) {
    let id = rig.enqueue_one().await;
    let session = rig.session().await;
    rig.take_one(&session).await;
    rig.change(id, Change::Cancel).await;
    rig.assert_state(id, State::Running).await;
    rig.crash(&session).await;
    let job = rig.get(id).await;
    assert_eq!((job.state, job.finish), (State::Cancelled, Some(Finish::Cancelled)));
    rig.assert_nothing_to_claim().await;
}

pub(super) async fn a_healthy_worker_is_not_touched_by_the_death_of_another(rig: Rig) {
    rig.enqueue_all(vec![tough(); 4]).await;
    let [healthy, dying] = [rig.long_session().await, rig.session().await];
    let safe = rig.take(&healthy, 2).await;
    let lost = rig.take(&dying, 2).await;
    rig.crash(&dying).await;
    for job in &lost {
        assert_eq!(counters(&rig, job.header.id).await.crashes, 1);
    }
    let reply = rig.heartbeat(&healthy, &[&safe[0], &safe[1]]).await.expect("alive");
    assert_eq!((reply.lost, reply.released), (vec![], 0));
    for job in &safe {
        rig.settle(job, Outcome::DONE).await;
        assert_eq!(counters(&rig, job.header.id).await.crashes, 0);
    }
}

pub(super) async fn many_crashes_neither_lose_a_job_nor_grow_its_record(rig: Rig) {
    let id = rig.enqueue(Rig::job().max_crashes(MAX_CRASHES_MAX)).await;
    let times = 2 * HISTORY_MAX as u32;
    crash_on(&rig, id, times).await;
    let job = rig.get(id).await;
    assert_eq!(job.header.counters, Counters { attempt: times, failures: 0, crashes: times });
    assert_eq!(job.history.len(), HISTORY_MAX);
    assert_eq!(job.history.last().map(|attempt| attempt.number), Some(times));
    assert_eq!(rig.drain(5).await, [id]);
    rig.assert_sound().await;
}
