//! When schedules fire, and how often: once.

use crate::clock::{RuntimeClock, START};
use crate::spy::{SeenSteps, Spy};
use crate::support::*;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use windlass_core::Timestamp;
use windlass_core::engine::{Admin, Configure, Engine, Enqueue, Expect, Jobs, RecordOp};
use windlass_core::model::{NewJob, QueuePatch, State};
use windlass_core::policy::{Missed, OnConflict, Schedule, Unique, fire_id};
use windlass_core::time::{HOUR_MS, MINUTE_MS};
use windlass_services::{ScheduleView, Schedules, ServiceOptions};

fn scheduler() -> ServiceOptions {
    only(|o| o.schedule.enabled = true)
}

fn seconds(s: u64) -> Timestamp {
    START.plus(s * 1_000)
}

/// When the jobs in the store were fired, by their ids, and when they were to run.
async fn fires(engine: &dyn Engine) -> Vec<(Timestamp, Timestamp)> {
    jobs(engine).await.iter().map(|job| (job.header.id.time(), job.header.run_at)).collect()
}

async fn view(schedules: &Schedules, name: &str) -> ScheduleView {
    schedules.get(name).await.expect("the store answers").expect("it is there")
}

#[tokio::test(start_paused = true)]
async fn a_schedule_fires_to_the_moment_with_an_id_that_says_when() {
    let engine = memory();
    let services = start(&engine, scheduler());
    sleep(Duration::from_millis(1_300)).await;
    let schedules = Schedules::new(engine.clone());
    schedules.put("s", Schedule::every_ms(10_000), NewJob::new("x").json("[1]")).await.unwrap();
    sleep(Duration::from_secs(30)).await;
    services.stop().await;
    let fired = fires(&*engine).await;
    assert_eq!(fired.iter().map(|fire| fire.0).collect::<Vec<_>>(), [10, 20, 30].map(seconds));
    assert!(fired.iter().all(|(at, run_at)| run_at.since(*at) <= 5), "{fired:?}");
    let first = job(&*engine, fire_id("s", seconds(10))).await.expect("by its deterministic id");
    assert_eq!(first.state, State::Available);
    let view = view(&schedules, "s").await;
    assert_eq!((view.fired, view.last_fire), (3, Some(seconds(30))));
}

#[tokio::test(start_paused = true)]
async fn a_store_whose_clock_goes_back_an_hour_keeps_its_schedules_going() {
    let clock = Arc::new(RuntimeClock::new());
    let engine = memory_on(clock.clone());
    sleep(Duration::from_millis(2 * HOUR_MS + 500)).await;
    let schedules = Schedules::new(engine.clone());
    schedules.put("often", Schedule::every_ms(1_000), NewJob::new("often")).await.unwrap();
    let line = Schedule::cron("*/30 * * * * *", "UTC");
    schedules.put("cron", line, NewJob::new("cron")).await.unwrap();
    let services = start(&engine, scheduler());
    sleep(Duration::from_secs(120)).await;
    assert_eq!(
        (view(&schedules, "often").await.fired, view(&schedules, "cron").await.fired),
        (120, 4)
    );

    clock.set_back(HOUR_MS);
    let now = START.plus(HOUR_MS + 120_500);
    let next = view(&schedules, "often").await.next.expect("it goes on");
    assert!(next.since(now) <= 1_000 && next > now, "{next}");
    sleep(Duration::from_secs(60)).await;
    let often = view(&schedules, "often").await.fired;
    assert!((178..=180).contains(&often), "one each second, as before: {often}");
    assert_eq!(view(&schedules, "cron").await.fired, 6, "and these instants are new to it");
    clock.set_back(30_000);
    sleep(Duration::from_secs(60)).await;
    let often = view(&schedules, "often").await.fired;
    assert!((236..=240).contains(&often), "{often}");
    let cron = view(&schedules, "cron").await;
    assert_eq!(cron.fired, 7, "of the two instants since, one had been fired");
    services.stop().await;
    let ids: std::collections::HashSet<_> =
        jobs(&*engine).await.iter().map(|job| job.header.id).collect();
    assert_eq!(ids.len() as u64, often + cron.fired, "each fire is a job");
}

#[tokio::test(start_paused = true)]
async fn a_producer_that_knows_the_ids_of_fires_cannot_suppress_them() {
    let engine = memory();
    let schedules = Schedules::new(engine.clone());
    schedules.put("s", Schedule::every_ms(10_000), NewJob::new("x")).await.unwrap();
    for n in 1..=3 {
        let taken = NewJob::new("nothing").id(fire_id("s", seconds(10 * n)));
        let answer = engine.enqueue(Enqueue::each([taken])).await.unwrap().value;
        let error = answer[0].as_ref().expect_err("the id is reserved").to_string();
        assert!(error.contains("reserved"), "{error}");
    }
    let services = start(&engine, scheduler());
    sleep(Duration::from_millis(30_500)).await;
    services.stop().await;
    let fired = fires(&*engine).await;
    assert_eq!(fired.iter().map(|fire| fire.0).collect::<Vec<_>>(), [10, 20, 30].map(seconds));
    let view = view(&schedules, "s").await;
    assert_eq!((view.fired, view.refused, view.last_error), (3, 0, None));
}

#[tokio::test(start_paused = true)]
async fn a_foreign_job_under_the_id_of_a_fire_is_reported() {
    let engine = memory();
    let schedules = Schedules::new(engine.clone());
    schedules.put("s", Schedule::every_ms(10_000), NewJob::new("x")).await.unwrap();
    enqueue(&*engine, NewJob::new("foreign").derived_id(fire_id("s", seconds(10)))).await;
    let services = start(&engine, scheduler());
    sleep(Duration::from_millis(10_500)).await;
    let failed = view(&schedules, "s").await;
    assert_eq!((failed.fired, failed.refused), (1, 1), "not counted as a fire that went through");
    let error = failed.last_error.expect("says why").message;
    assert!(error.contains("kind foreign") && error.contains("derived id"), "{error}");
    sleep(Duration::from_secs(10)).await;
    services.stop().await;
    let view = view(&schedules, "s").await;
    assert_eq!(
        (view.fired, view.refused, view.last_error),
        (2, 1, None),
        "the next one is its own"
    );
}

#[tokio::test(start_paused = true)]
async fn ten_schedulers_without_a_leader_fire_once() {
    let store = memory();
    let schedules = Schedules::new(store.clone());
    for name in ["a", "b", "c"] {
        let schedule = Schedule::every_ms(2_000).missed(Missed::All);
        schedules.put(name, schedule, NewJob::new("x")).await.unwrap();
    }
    let mut options = scheduler();
    options.leadership = false;
    let services: Vec<_> = (0..10)
        .map(|n| {
            let spy = Arc::new(Spy::new(store.clone(), n, SeenSteps::default()));
            start(&spy, options.clone())
        })
        .collect();
    sleep(Duration::from_millis(20_500)).await;
    for services in &services {
        assert!(services.status().services[0].items > 0, "each of them tries");
        services.stop().await;
    }
    assert_eq!(fires(&*store).await.len(), 3 * 10);
    for name in ["a", "b", "c"] {
        assert_eq!(view(&schedules, name).await.fired, 10, "and is counted once");
    }
}

#[tokio::test(start_paused = true)]
async fn lost_replies_fire_nothing_twice_and_lose_nothing() {
    let store = memory();
    let schedules = Schedules::new(store.clone());
    schedules.put("s", Schedule::every_ms(1_000), NewJob::new("x")).await.unwrap();
    let spy = Arc::new(Spy::new(store.clone(), 0, SeenSteps::default()));
    let services = start(&spy, scheduler());
    for _ in 0..10 {
        sleep(Duration::from_millis(1_700)).await;
        spy.set_deaf(true);
        sleep(Duration::from_millis(1_300)).await;
        spy.set_deaf(false);
    }
    sleep(Duration::from_millis(10_500)).await;
    services.stop().await;
    let fired: Vec<_> = fires(&*store).await.into_iter().map(|fire| fire.0).collect();
    assert_eq!(fired, (1..=40).map(seconds).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_change_made_while_a_fire_is_under_way_is_not_overwritten() {
    let store = memory();
    let schedules = Schedules::new(store.clone());
    schedules.put("s", Schedule::every_ms(5_000), NewJob::new("x")).await.unwrap();
    let spy = Arc::new(Spy::new(store.clone(), 0, SeenSteps::default()));
    spy.set_holds_enqueues(true);
    let services = start(&spy, scheduler());
    until("a fire is under way", || async { (spy.held() > 0).then_some(()) }).await;
    schedules.pause("s").await.unwrap();
    spy.set_holds_enqueues(false);
    sleep(Duration::from_secs(20)).await;
    services.stop().await;
    assert!(view(&schedules, "s").await.paused);
    assert_eq!(fires(&*store).await.len(), 1, "the one that was under way");
}

#[tokio::test(start_paused = true)]
async fn missed_fires_are_treated_as_the_schedule_says() {
    let engine = memory();
    let schedules = Schedules::new(engine.clone());
    for (name, missed) in [("all", Missed::All), ("once", Missed::Once), ("skip", Missed::Skip)] {
        let schedule = Schedule::cron("*/10 * * * *", "UTC").missed(missed);
        schedules.put(name, schedule, NewJob::new(name)).await.unwrap();
    }
    sleep(Duration::from_millis(HOUR_MS + 5 * MINUTE_MS)).await;
    let services = start(&engine, scheduler());
    sleep(Duration::from_secs(3)).await;
    services.stop().await;
    let all = jobs(&*engine).await;
    let count = |kind: &str| all.iter().filter(|job| &*job.header.kind == kind).count();
    assert_eq!((count("all"), count("once"), count("skip")), (6, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn many_missed_fires_come_in_bounded_batches_and_none_is_lost() {
    let engine = memory();
    let schedules = Schedules::new(engine.clone());
    let schedule = Schedule::every_ms(10_000).missed(Missed::All);
    schedules.put("s", schedule, NewJob::new("x")).await.unwrap();
    sleep(Duration::from_millis(HOUR_MS)).await;
    let services = start(&engine, scheduler());
    sleep(Duration::from_secs(3)).await;
    services.stop().await;
    let all = jobs(&*engine).await;
    assert_eq!(all.len(), 360);
    assert_eq!(view(&schedules, "s").await.fired, 360);
}

#[tokio::test(start_paused = true)]
async fn a_bad_schedule_harms_only_itself_and_says_why() {
    let engine = memory();
    let schedules = Schedules::new(engine.clone());
    let every = || Schedule::every_ms(5_000);
    let put = |key: &str, value: &str| RecordOp::Put {
        key: key.into(),
        value: value.to_owned().into(),
        expect: Expect::Any,
    };
    let since = START.as_millis();
    let bad_line = format!(
        r#"{{"schedule":{{"timing":{{"cron":{{"line":"99 * * * *"}}}}}},
        "job":{{"queue":"default","kind":"x"}},"progress":{{"since":{since}}}}}"#
    );
    let bad_kind = format!(
        r#"{{"schedule":{{"timing":{{"every":{{"every_ms":5000}}}}}},
        "job":{{"queue":"default","kind":"not a kind"}},"progress":{{"since":{since}}}}}"#
    );
    let ops = vec![
        put("schedule/a-unreadable", "?"),
        put("schedule/b-line", &bad_line),
        put("schedule/c-kind", &bad_kind),
    ];
    assert!(engine.records(ops).await.unwrap().value.iter().all(Result::is_ok));
    let unique = Unique::by("k").on_conflict(OnConflict::Reject);
    let rejecting = NewJob::new("rejecting").unique(unique);
    schedules.put("d-rejecting", every(), rejecting).await.unwrap();
    schedules.put("z-good", every(), NewJob::new("good")).await.unwrap();

    let services = start(&engine, scheduler());
    sleep(Duration::from_millis(20_500)).await;
    let all = jobs(&*engine).await;
    let count = |kind: &str| all.iter().filter(|job| &*job.header.kind == kind).count();
    assert_eq!((count("good"), count("rejecting")), (4, 1));

    let error = async |name| view(&schedules, name).await.last_error.expect(name).message;
    assert!(error("b-line").await.contains("schedule.cron"));
    assert!(error("c-kind").await.contains("kind is"));
    assert!(error("d-rejecting").await.contains("unique key"));
    let rejecting = view(&schedules, "d-rejecting").await;
    assert_eq!((rejecting.fired, rejecting.refused), (4, 3));
    assert_eq!(view(&schedules, "z-good").await.last_error, None);
    assert_eq!(schedules.list(None, 10).await.unwrap().unreadable, ["a-unreadable"]);
    assert_eq!(services.status().services[0].failures, 0, "nothing is wrong with the service");

    schedules.put("c-kind", every(), NewJob::new("repaired")).await.unwrap();
    sleep(Duration::from_secs(6)).await;
    services.stop().await;
    assert_eq!(view(&schedules, "c-kind").await.last_error, None);
    assert!(jobs(&*engine).await.iter().any(|job| &*job.header.kind == "repaired"));
}

#[tokio::test(start_paused = true)]
async fn a_fire_that_finds_its_queue_full_comes_when_there_is_room() {
    let engine = memory();
    let schedules = Schedules::new(engine.clone());
    engine
        .configure(vec![Configure::queue("default", QueuePatch::max_depth(Some(1)))])
        .await
        .unwrap();
    enqueue(&*engine, NewJob::new("first")).await;
    schedules.put("s", Schedule::every_ms(30_000), NewJob::new("x")).await.unwrap();
    let services = start(&engine, scheduler());
    sleep(Duration::from_secs(40)).await;
    let waiting = view(&schedules, "s").await;
    assert!(waiting.last_error.expect("says why").message.contains("is full"));
    assert_eq!((waiting.fired, waiting.refused), (0, 0), "still owed");
    complete(&*engine, "room").await;
    let id = fire_id("s", seconds(30));
    reaches(&*engine, id, Some(State::Available)).await;
    services.stop().await;
    assert_eq!(view(&schedules, "s").await.last_error, None);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_with_a_limit_ends_and_a_removed_one_fires_no_more() {
    let engine = memory();
    let schedules = Schedules::new(engine.clone());
    schedules.put("twice", Schedule::every_ms(5_000).limit(2), NewJob::new("a")).await.unwrap();
    schedules.put("gone", Schedule::every_ms(5_000), NewJob::new("b")).await.unwrap();
    let services = start(&engine, scheduler());
    sleep(Duration::from_millis(5_500)).await;
    schedules.remove("gone").await.unwrap();
    sleep(Duration::from_secs(30)).await;
    services.stop().await;
    let all = jobs(&*engine).await;
    let count = |kind: &str| all.iter().filter(|job| &*job.header.kind == kind).count();
    assert_eq!((count("a"), count("b")), (2, 1));
    assert_eq!(view(&schedules, "twice").await.next, None);
}
