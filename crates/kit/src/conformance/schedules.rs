//! Recurring schedules: each fire is enqueued once, however many schedulers run and however often.

use crate::rig::{QUEUE, Rig, assert_refused};
use bytes::Bytes;
use std::collections::HashSet;
use windlass_core::engine::{Atomicity, Disposition, Enqueue, Enqueued, Expect, RecordOp, RecordReply};
use windlass_core::limits::{ID_SKEW_MAX_MS, MISSED_FIRE_MAX_MS};
use windlass_core::model::{Due, NewJob, State};
use windlass_core::policy::{Missed, Schedule, ScheduleProgress, fire_id};
use windlass_core::time::{HOUR_MS, MINUTE_MS};
use windlass_core::{JobId, Result, Timestamp};

pub(super) async fn ten_schedulers_fire_once(rig: Rig) {
    let schedule = Schedule::every_ms(15 * MINUTE_MS).missed(Missed::All);
    let since = rig.now().await;
    rig.advance(3 * HOUR_MS);
    let fires = due(&schedule, since, rig.now().await);
    assert_eq!(fires.len(), 12, "four an hour");
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let (rig, fires) = (rig.clone(), fires.clone());
            tokio::spawn(async move { fire_all(&rig, "quarterly", &fires).await })
        })
        .collect();
    let mut created = Vec::new();
    for task in tasks {
        for answer in task.await.expect("no panic") {
            if answer.disposition == Disposition::Created {
                created.push(answer.id);
            }
        }
    }
    let distinct: HashSet<JobId> = created.iter().copied().collect();
    assert_eq!(
        (created.len(), distinct.len()),
        (12, 12),
        "each fire is created by exactly one scheduler"
    );
    assert_eq!(rig.drain(1_000).await.len(), 12);
    rig.assert_sound().await;
}

pub(super) async fn a_fire_that_has_run_does_not_run_again(rig: Rig) {
    let at = rig.now().await;
    let id = rig.enqueue(fire("nightly", at)).await;
    assert_eq!(rig.drain(10).await, [id]);
    let answer = rig.try_enqueue(fire("nightly", at)).await.expect("enqueue");
    let expected = (id, Disposition::Existing, Some(State::Completed));
    assert_eq!((answer.id, answer.disposition, answer.state), expected);
    rig.assert_nothing_to_claim().await;
}

/// Ids of fires are predictable: a producer that could enqueue a job under one would block the fire.
pub(super) async fn a_producer_cannot_take_the_place_of_a_fire(rig: Rig) {
    let at = rig.now().await.plus(MINUTE_MS);
    let id = fire_id("nightly", at);
    assert_refused(rig.try_enqueue(Rig::job().id(id)).await, "invalid", "id");
    let batch = Enqueue::all_or_nothing([Rig::job(), Rig::job().id(id)]);
    let answers = rig.engine().enqueue(batch).await.expect("enqueue").value;
    assert_refused(answers[1].clone(), "invalid", "id");
    assert!(rig.find(id).await.is_none());
    let answer = rig.try_enqueue(fire("nightly", at)).await.expect("enqueue");
    assert_eq!((answer.id, answer.disposition), (id, Disposition::Created));
}

pub(super) async fn a_foreign_job_under_the_id_of_a_fire_is_an_error(rig: Rig) {
    let at = rig.now().await.plus(MINUTE_MS);
    let id = rig.enqueue(fire("nightly", at)).await;
    let again = rig.try_enqueue(fire("nightly", at)).await.expect("enqueue");
    assert_eq!((again.id, again.disposition), (id, Disposition::Existing));
    let mut child = fire("nightly", at);
    child.parent = Some(rig.enqueue_one().await);
    let kind = NewJob::new("another").queue(QUEUE).derived_id(id);
    for foreign in [kind, fire("nightly", at).queue("another"), child] {
        let refused = rig.try_enqueue(foreign.clone()).await;
        let reported = refused.as_ref().expect_err("not the same job").to_string();
        assert!(reported.contains("queue q"), "{reported}");
        // A step of one queue does not read jobs of another one.
        let is_read = rig.engine().capabilities().atomicity >= Atomicity::Store;
        assert!(reported.contains("kind k") || !is_read, "{reported}");
        assert_refused(refused, "invalid", "id");
        let beside = rig.engine().enqueue(Enqueue::each([Rig::job(), foreign])).await;
        let answers = beside.expect("enqueue").value;
        assert_eq!([answers[0].is_ok(), answers[1].is_ok()], [true, false]);
    }
}

pub(super) async fn a_derived_id_must_be_one(rig: Rig) {
    let fresh = Rig::job().derived_id(Rig::fresh_id());
    assert_refused(rig.try_enqueue(fresh).await, "invalid", "id");
    let mut none = Rig::job();
    none.derived = true;
    assert_refused(rig.try_enqueue(none).await, "invalid", "derived");
    let old = fire("nightly", rig.now().await.minus(2 * ID_SKEW_MAX_MS)).due(Due::Now);
    assert_refused(rig.try_enqueue(old).await, "invalid", "id");
}

pub(super) async fn two_schedules_with_the_same_time_do_not_collide(rig: Rig) {
    let at = rig.now().await.plus(HOUR_MS);
    let mut ids = HashSet::new();
    for name in ["nightly", "nightly2", "Nightly", "night", "ly"] {
        let answer = rig.try_enqueue(fire(name, at)).await.expect("enqueue");
        assert_eq!(answer.disposition, Disposition::Created, "{name}");
        ids.insert(answer.id);
    }
    rig.pass(HOUR_MS).await;
    assert_eq!(rig.drain(10).await.into_iter().collect::<HashSet<_>>(), ids);
}

pub(super) async fn a_fire_enqueued_early_waits_for_its_time(rig: Rig) {
    let hourly = Schedule::cron("0 * * * *", "UTC");
    let at = hourly.next_after(rig.now().await).expect("a valid cron line").expect("a next fire");
    let id = rig.enqueue(fire("hourly", at)).await;
    assert_eq!(rig.get(id).await.header.run_at, at);
    rig.assert_nothing_to_claim().await;
    rig.pass(at.since(rig.now().await)).await;
    assert_eq!(rig.drain(10).await, [id]);
}

pub(super) async fn missed_fires_can_still_be_enqueued_after_half_a_day(rig: Rig) {
    let hourly = Schedule::cron("0 * * * *", "UTC").missed(Missed::All);
    let since = rig.now().await;
    rig.advance(20 * HOUR_MS + MINUTE_MS);
    let fires = due(&hourly, since, rig.now().await);
    let hours = MISSED_FIRE_MAX_MS / HOUR_MS;
    assert_eq!(fires.len() as u64, hours, "older ones are skipped");
    let answers = fire_all(&rig, "hourly", &fires).await;
    let ids: Vec<_> = fires.iter().map(|at| fire_id("hourly", *at)).collect();
    assert_eq!(answers.iter().map(|answer| answer.id).collect::<Vec<_>>(), ids);
    assert_eq!(rig.drain(100).await, ids, "oldest first");
}

/// A scheduler that dies between enqueueing and storing its progress is replaced by one that starts from the
/// old progress.
pub(super) async fn a_scheduler_that_dies_before_storing_its_progress_fires_nothing_twice(
    rig: Rig,
) {
    let schedule = Schedule::every_ms(MINUTE_MS).missed(Missed::All);
    let since = rig.now().await;
    rig.advance(10 * MINUTE_MS);
    let first = due(&schedule, since, rig.now().await);
    fire_all(&rig, "often", &first[..first.len() / 2]).await;
    rig.advance(MINUTE_MS);
    let second = due(&schedule, since, rig.now().await);
    let answers = fire_all(&rig, "often", &second).await;
    let existing = answers.iter().filter(|answer| answer.disposition == Disposition::Existing);
    assert_eq!(existing.count(), first.len() / 2);
    assert_eq!(rig.drain(100).await.len(), second.len());
}

pub(super) async fn of_schedulers_that_store_the_same_progress_one_gets_through(rig: Rig) {
    let version = put(&rig, "schedule/often", Expect::Absent).await.expect("the first");
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let rig = rig.clone();
            let expect = Expect::Version(version);
            tokio::spawn(async move { put(&rig, "schedule/often", expect).await })
        })
        .collect();
    let mut stored = 0;
    for task in tasks {
        match task.await.expect("no panic") {
            Ok(_) => stored += 1,
            Err(error) => assert_eq!(error.code(), "version_conflict"),
        }
    }
    assert_eq!(stored, 1, "the others get a version conflict");
}

pub(super) async fn a_schedule_that_cannot_fire_is_refused_by_field(rig: Rig) {
    let now = rig.now().await;
    let hourly = || Schedule::cron("0 * * * *", "UTC");
    let bad = [
        (Schedule::cron("every tuesday", "UTC"), "schedule.cron"),
        (Schedule::cron("61 * * * *", "UTC"), "schedule.cron"),
        (Schedule::cron("", "UTC"), "schedule.cron"),
        (Schedule::cron("0 0 30 2 *", "UTC"), "schedule.cron"),
        (Schedule::cron("0 0 * * *", "Mars/Olympus"), "schedule.zone"),
        (Schedule::cron("0 0 * * *", ""), "schedule.zone"),
        (Schedule::every_ms(0), "schedule.every_ms"),
        (Schedule::every_ms(u64::MAX), "schedule.every_ms"),
        (hourly().limit(0), "schedule.limit"),
        (hourly().start(now).end(now.minus(1)), "schedule.end"),
    ];
    for (schedule, field) in bad {
        assert_refused(schedule.check(), "invalid", field);
    }
    hourly().check().expect("a valid schedule");
}

/// The job that the schedule `name` fires at `at`.
fn fire(name: &str, at: Timestamp) -> NewJob {
    Rig::job().derived_id(fire_id(name, at)).due(Due::At(at))
}

/// The fires that a schedule created at `since` owes at `now`.
fn due(schedule: &Schedule, since: Timestamp, now: Timestamp) -> Vec<Timestamp> {
    schedule.due(ScheduleProgress::new(since), now).expect("a valid schedule").fires
}

async fn fire_all(rig: &Rig, name: &str, fires: &[Timestamp]) -> Vec<Enqueued> {
    let mut answers = Vec::new();
    for at in fires {
        answers.push(rig.try_enqueue(fire(name, *at)).await.expect("enqueue"));
    }
    answers
}

async fn put(rig: &Rig, key: &str, expect: Expect) -> Result<u64> {
    let op = RecordOp::Put { key: key.into(), value: Bytes::from_static(b"progress"), expect };
    match rig.record(op).await? {
        RecordReply::Written { version } => Ok(version),
        other => panic!("not an answer to put: {other:?}"),
    }
}
