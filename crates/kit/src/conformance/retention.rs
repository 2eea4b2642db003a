//! Retention of ended jobs, and expiry of waiting ones.

use crate::rig::{QUEUE, Rig};
use windlass_core::JobId;
use windlass_core::engine::{
    Change, Claim, Configure, Disposition, Outcome, RemovedQuery, Settle, SettleItem, Work,
};
use windlass_core::limits::{
    KEEP_MAX_MAX, RETENTION_DEAD_DEFAULT_MS, RETENTION_FINISHED_DEFAULT_MS,
};
use windlass_core::model::{Due, Finish, JobError, NewJob, QueuePatch, State};
use windlass_core::policy::{KeepMax, Retention, Unique, Until, RetentionFields};
use windlass_core::time::{DAY_MS, HOUR_MS, MINUTE_MS};

async fn keep(rig: &Rig, retention: Retention) {
    rig.configure(Configure::queue(QUEUE, QueuePatch::retention(retention))).await;
}

/// One job for each final state: completed, cancelled, dead, expired.
async fn one_of_each_end(rig: &Rig) -> [JobId; 4] {
    let completed = rig.enqueue_one().await;
    rig.drain(1).await;
    let cancelled = rig.enqueue_one().await;
    rig.change(cancelled, Change::Cancel).await;
    let dead = rig.dead(Rig::job()).await;
    let expired = rig.enqueue(Rig::job().max_wait_ms(1)).await;
    rig.pass(100).await;
    rig.assert_state(expired, State::Expired).await;
    [completed, cancelled, dead, expired]
}

async fn exist<const N: usize>(rig: &Rig, ids: [JobId; N]) -> [bool; N] {
    let mut found = [false; N];
    for (found, id) in found.iter_mut().zip(ids) {
        *found = rig.find(id).await.is_some();
    }
    found
}

pub(super) async fn each_end_is_kept_for_its_own_time_and_not_a_minute_less(rig: Rig) {
    let hours = RetentionFields { finished_ms: HOUR_MS, dead_ms: 2 * HOUR_MS, expired_ms: 3 * HOUR_MS };
    let hours = Retention::from(hours);
    keep(&rig, hours).await;
    let ids = one_of_each_end(&rig).await;
    rig.pass(HOUR_MS - MINUTE_MS).await;
    assert_eq!(exist(&rig, ids).await, [true, true, true, true]);
    rig.pass(2 * MINUTE_MS).await;
    assert_eq!(exist(&rig, ids).await, [false, false, true, true]);
    rig.pass(HOUR_MS - 2 * MINUTE_MS).await;
    assert_eq!(exist(&rig, ids).await, [false, false, true, true]);
    rig.pass(2 * MINUTE_MS).await;
    assert_eq!(exist(&rig, ids).await, [false, false, false, true]);
    rig.pass(HOUR_MS).await;
    assert_eq!(exist(&rig, ids).await, [false; 4]);
    rig.assert_sound().await;
}

pub(super) async fn without_settings_the_dead_are_kept_longer_than_the_done(rig: Rig) {
    let [completed, cancelled, dead, expired] = one_of_each_end(&rig).await;
    rig.pass(RETENTION_FINISHED_DEFAULT_MS - HOUR_MS).await;
    assert_eq!(exist(&rig, [completed, cancelled, dead, expired]).await, [true; 4]);
    rig.pass(2 * HOUR_MS).await;
    assert_eq!(exist(&rig, [completed, cancelled]).await, [false; 2]);
    rig.pass(RETENTION_DEAD_DEFAULT_MS - RETENTION_FINISHED_DEFAULT_MS - 2 * HOUR_MS).await;
    assert_eq!(exist(&rig, [dead, expired]).await, [true; 2]);
    rig.pass(2 * HOUR_MS).await;
    assert_eq!(exist(&rig, [dead, expired]).await, [false; 2]);
}

pub(super) async fn a_jobs_own_retention_overrides_its_queues(rig: Rig) {
    keep(&rig, Retention::uniform_ms(2 * HOUR_MS)).await;
    let with = |hours| {
        let mut job = Rig::job();
        job.policy.retention = Some(Retention::uniform_ms(hours * HOUR_MS));
        job
    };
    let ids = [rig.dead(with(1)).await, rig.dead(Rig::job()).await, rig.dead(with(3)).await];
    for expected in [[true; 3], [false, true, true], [false, false, true], [false; 3]] {
        assert_eq!(exist(&rig, ids).await, expected);
        rig.pass(HOUR_MS + MINUTE_MS).await;
    }
}

pub(super) async fn a_change_of_retention_applies_to_what_has_ended_already(rig: Rig) {
    let id = rig.dead(Rig::job()).await;
    keep(&rig, Retention::uniform_ms(100 * DAY_MS)).await;
    rig.pass(99 * DAY_MS).await;
    rig.assert_state(id, State::Dead).await;
    keep(&rig, Retention::uniform_ms(HOUR_MS)).await;
    rig.pass(0).await;
    assert_eq!(rig.find(id).await, None);
}

pub(super) async fn a_retention_of_nothing_ends_with_the_next_maintenance(rig: Rig) {
    keep(&rig, Retention::uniform_ms(0)).await;
    let id = rig.enqueue_one().await;
    rig.drain(1).await;
    rig.assert_state(id, State::Completed).await;
    rig.pass(1).await;
    assert_eq!(rig.find(id).await, None);
    let stats = rig.lane(QUEUE, "k").await;
    assert_eq!((stats.depth(), stats.running, stats.dead), (0, 0, 0));
}

pub(super) async fn unfinished_jobs_are_kept_at_any_age(rig: Rig) {
    keep(&rig, Retention::uniform_ms(0)).await;
    let running = rig.enqueue_one().await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    let waiting = [
        rig.enqueue(Rig::job().due(Due::After(400 * DAY_MS))).await,
        rig.enqueue(Rig::job().key("a")).await,
        rig.enqueue(Rig::job().key("a")).await,
        rig.enqueue_one().await,
    ];
    rig.change(waiting[3], Change::Pause).await;
    rig.advance(365 * DAY_MS);
    rig.heartbeat(&session, &[&job]).await.expect("revived");
    rig.pass(0).await;
    rig.assert_state(running, State::Running).await;
    let expected = [State::Scheduled, State::Available, State::Blocked, State::Paused];
    for (id, state) in waiting.into_iter().zip(expected) {
        rig.assert_state(id, state).await;
    }
}

pub(super) async fn a_unique_window_outlives_the_record_of_its_job_and_then_ends(rig: Rig) {
    keep(&rig, Retention::uniform_ms(HOUR_MS)).await;
    let job = || Rig::job().unique(Unique::by("u").until(Until::window_ms(3 * HOUR_MS)));
    let id = rig.enqueue(job()).await;
    rig.drain(1).await;
    let again = rig.try_enqueue(job()).await.expect("enqueue");
    assert_eq!((again.id, again.state), (id, Some(State::Completed)));
    rig.pass(2 * HOUR_MS).await;
    assert_eq!(rig.find(id).await, None);
    let again = rig.try_enqueue(job()).await.expect("enqueue");
    assert_eq!((again.id, again.disposition), (id, Disposition::Existing));
    assert_eq!(again.state, None, "the job was removed, but its unique window is not over");
    rig.pass(HOUR_MS + MINUTE_MS).await;
    let fresh = rig.try_enqueue(job()).await.expect("enqueue");
    assert_eq!(fresh.disposition, Disposition::Created);
    rig.assert_sound().await;
}

pub(super) async fn a_job_waits_no_longer_than_it_may_wherever_it_waits(rig: Rig) {
    let job = || Rig::job().max_wait_ms(HOUR_MS);
    let [available, paused] = [rig.enqueue(job()).await, rig.enqueue(job()).await];
    rig.change(paused, Change::Pause).await;
    rig.enqueue(Rig::job().key("a")).await;
    let blocked = rig.enqueue(job().key("a")).await;
    let patient = rig.enqueue_one().await;
    let late = [available, paused, blocked];
    rig.pass(HOUR_MS - MINUTE_MS).await;
    for id in late {
        assert!(rig.state(id).await.is_waiting(), "not before its limit");
    }
    rig.pass(2 * MINUTE_MS).await;
    for id in late {
        let job = rig.get(id).await;
        assert_eq!((job.state, job.finish), (State::Expired, Some(Finish::Expired)));
        assert!(job.finished_at.is_some());
    }
    rig.assert_state(patient, State::Available).await;
    assert_eq!(rig.drain(9).await.len(), 2, "expired jobs are not claimed");
    rig.assert_sound().await;
}

pub(super) async fn scheduled_and_running_jobs_do_not_expire(rig: Rig) {
    let job = || Rig::job().max_wait_ms(MINUTE_MS);
    let running = rig.enqueue(job()).await;
    let session = rig.long_session().await;
    let claimed = rig.take_one(&session).await;
    let scheduled = rig.enqueue(job().due(Due::After(40 * MINUTE_MS))).await;
    rig.pass(39 * MINUTE_MS).await;
    rig.assert_state(running, State::Running).await;
    rig.assert_state(scheduled, State::Scheduled).await;
    rig.settle(&claimed, Outcome::DONE).await;
    rig.pass(MINUTE_MS + 30_000).await;
    rig.assert_state(scheduled, State::Available).await;
    rig.pass(MINUTE_MS).await;
    rig.assert_state(scheduled, State::Expired).await;
}

pub(super) async fn the_wait_begins_anew_when_a_job_comes_back(rig: Rig) {
    let id = rig.enqueue(Rig::job().max_wait_ms(HOUR_MS)).await;
    rig.pass(40 * MINUTE_MS).await;
    let session = rig.session().await;
    let job = rig.take_one(&session).await;
    let retry = Outcome::Retry { error: JobError::new("e", "m"), delay_ms: Some(0) };
    rig.settle(&job, retry).await;
    rig.pass(40 * MINUTE_MS).await;
    rig.assert_state(id, State::Available).await;
    rig.pass(30 * MINUTE_MS).await;
    rig.assert_state(id, State::Expired).await;
}

pub(super) async fn a_queues_limit_applies_where_a_job_has_none_of_its_own(rig: Rig) {
    let limit = |ms| Configure::queue(QUEUE, QueuePatch::max_wait_ms(ms));
    let plain = rig.enqueue_one().await;
    let patient = rig.enqueue(Rig::job().max_wait_ms(DAY_MS)).await;
    let hasty = rig.enqueue(Rig::job().max_wait_ms(MINUTE_MS)).await;
    let elsewhere = rig.enqueue(NewJob::new("k").queue("other")).await;
    rig.configure(limit(Some(HOUR_MS))).await;
    rig.pass(2 * MINUTE_MS).await;
    rig.assert_state(hasty, State::Expired).await;
    rig.assert_state(plain, State::Available).await;
    rig.pass(HOUR_MS).await;
    rig.assert_state(plain, State::Expired).await;
    rig.assert_state(patient, State::Available).await;
    rig.assert_state(elsewhere, State::Available).await;
    rig.configure(limit(None)).await;
    let later = rig.enqueue_one().await;
    rig.pass(2 * HOUR_MS).await;
    rig.assert_state(later, State::Available).await;
}

pub(super) async fn an_expired_job_frees_its_keys(rig: Rig) {
    let job = || Rig::job().key("a").unique(Unique::by("u"));
    let expired = rig.enqueue(job().max_wait_ms(MINUTE_MS)).await;
    let in_line = rig.enqueue(Rig::job().key("a")).await;
    rig.assert_state(in_line, State::Blocked).await;
    rig.pass(2 * MINUTE_MS).await;
    rig.assert_state(expired, State::Expired).await;
    let next = rig.try_enqueue(job()).await.expect("enqueue");
    assert_eq!(next.disposition, Disposition::Created);
    assert_eq!(rig.drain(5).await, [in_line, next.id]);
    rig.assert_sound().await;
}

pub(super) async fn a_replayed_expired_job_gets_its_whole_wait_again(rig: Rig) {
    let id = rig.enqueue(Rig::job().max_wait_ms(HOUR_MS)).await;
    rig.pass(3 * HOUR_MS).await;
    rig.change(id, Change::replay()).await;
    rig.pass(HOUR_MS - MINUTE_MS).await;
    rig.assert_state(id, State::Available).await;
    rig.pass(2 * MINUTE_MS).await;
    rig.assert_state(id, State::Expired).await;
}

/// Completes `count` jobs, each a moment after the other, oldest first.
async fn completed(rig: &Rig, queue: &str, count: usize) -> Vec<JobId> {
    let mut ids = Vec::new();
    for n in 0..count {
        let job = NewJob::new(format!("k{}", n % 2)).queue(queue);
        ids.push(rig.enqueue(job).await);
        let session = rig.session().await;
        let claim = Claim::new(rig.claimant(&session), queue, 1);
        let [job] = <[_; 1]>::try_from(rig.claim(claim).await).expect("a job to claim");
        rig.settle(&job, Outcome::DONE).await;
        rig.advance(10);
    }
    ids
}

async fn count(rig: &Rig, ids: &[JobId]) -> usize {
    let mut count = 0;
    for id in ids {
        count += usize::from(rig.find(*id).await.is_some());
    }
    count
}

pub(super) async fn a_queue_keeps_as_many_ended_jobs_as_it_may_the_newest(rig: Rig) {
    let keep_max = KeepMax::default().with_completed(3).with_dead(1);
    rig.configure(Configure::queue(QUEUE, QueuePatch::keep_max(keep_max))).await;
    let done = completed(&rig, QUEUE, 5).await;
    let elsewhere = completed(&rig, "other", 5).await;
    let dead = [rig.dead(Rig::job()).await, rig.dead(Rig::job()).await];
    let mut own = Rig::job();
    own.policy.retention = Some(Retention::uniform_ms(DAY_MS));
    let own = rig.dead(own).await;
    let cancelled = [rig.enqueue_one().await, rig.enqueue_one().await];
    for id in cancelled {
        rig.change(id, Change::Cancel).await;
    }
    rig.pass(0).await;
    let done = <[JobId; 5]>::try_from(done).expect("five");
    assert_eq!(exist(&rig, done).await, [false, false, true, true, true], "of all its kinds");
    assert_eq!(exist(&rig, dead).await, [false, true]);
    assert_eq!(
        exist(&rig, [own]).await,
        [true],
        "a retention of its own is neither counted nor cut"
    );
    assert_eq!(exist(&rig, cancelled).await, [true; 2], "a state without a limit");
    assert_eq!(count(&rig, &elsewhere).await, 5, "a queue without a limit");
    let removed = rig.engine().removed(RemovedQuery::default()).await.expect("removed").value.rows;
    assert_eq!(removed.iter().map(|row| row.count).sum::<u64>(), 3, "each removal is counted");
    let more = completed(&rig, QUEUE, 1).await;
    rig.pass(0).await;
    assert_eq!(exist(&rig, [done[2], done[3], more[0]]).await, [false, true, true]);
    rig.configure(Configure::queue(QUEUE, QueuePatch::keep_max(KeepMax::default()))).await;
    completed(&rig, QUEUE, 3).await;
    rig.pass(0).await;
    assert_eq!(exist(&rig, [done[3], more[0]]).await, [true; 2], "the limit is gone");
    rig.assert_sound().await;
}

pub(super) async fn a_number_to_keep_is_exact_beside_equal_times_and_kept_in_steps(rig: Rig) {
    let ids = rig.enqueue_all((0..9).map(|_| Rig::job())).await;
    let session = rig.session().await;
    let jobs = rig.take(&session, 9).await;
    let done =
        jobs.iter().map(|job| SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE));
    rig.engine().settle(Settle::new(done)).await.expect("settles at one time");
    let keep_max = KeepMax::default().with_completed(2);
    rig.configure(Configure::queue(QUEUE, QueuePatch::keep_max(keep_max))).await;
    let mut left = Vec::new();
    while left.last() != Some(&2) {
        let reply = rig.maintain_step(Work::Retain, 3).await;
        assert!(reply.done <= 3, "at most the budget: {reply:?}");
        left.push(count(&rig, &ids).await);
        assert!(left.len() < 20, "no progress: {left:?}");
    }
    rig.pass(0).await;
    assert_eq!(count(&rig, &ids).await, 2);
    let keep_max = KeepMax::default().with_completed(0);
    rig.configure(Configure::queue(QUEUE, QueuePatch::keep_max(keep_max))).await;
    rig.pass(0).await;
    assert_eq!(count(&rig, &ids).await, 0);
    let keep_max = KeepMax::default().with_dead(KEEP_MAX_MAX + 1);
    let refused = rig.try_configure(Configure::queue(QUEUE, QueuePatch::keep_max(keep_max))).await;
    assert_eq!(refused.expect_err("too many").field(), Some("keep_max.dead"));
    rig.assert_sound().await;
}
