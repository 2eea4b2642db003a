//! Creating, changing, triggering and removing schedules.

use crate::clock::START;
use crate::support::*;
use std::time::Duration;
use tokio::time::sleep;
use windlass_core::engine::{Disposition, Jobs};
use windlass_core::model::{Due, NewJob};
use windlass_core::policy::Schedule;
use windlass_core::time::HOUR_MS;
use windlass_services::Schedules;

fn hourly() -> Schedule {
    Schedule::cron("0 * * * *", "UTC")
}

#[tokio::test(start_paused = true)]
async fn a_schedule_is_put_read_listed_and_removed() {
    let schedules = Schedules::new(memory());
    assert_eq!(schedules.get("report").await.unwrap(), None);
    let job = NewJob::new("report").queue("mail").json("{}").tag("nightly");
    let put = schedules.put("report", hourly(), job.clone()).await.unwrap();
    assert_eq!((put.next, &put.job), (Some(START.plus(HOUR_MS)), &job));
    assert_eq!(schedules.get("report").await.unwrap().unwrap(), put);
    schedules.put("cleanup", Schedule::every_ms(60_000), NewJob::new("cleanup")).await.unwrap();

    let first = schedules.list(None, 1).await.unwrap();
    let second = schedules.list(first.next.clone(), 1).await.unwrap();
    let names = [&first.rows[0].name, &second.rows[0].name];
    assert_eq!((names.map(String::as_str), second.next), (["cleanup", "report"], None));

    assert!(schedules.remove("cleanup").await.unwrap());
    assert!(!schedules.remove("cleanup").await.unwrap());
    assert_eq!(schedules.list(None, 10).await.unwrap().rows.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn invalid_schedules_are_refused_by_field_and_store_nothing() {
    let engine = memory();
    let schedules = Schedules::new(engine.clone());
    let job = || NewJob::new("x");
    let large = "x".repeat(engine.capabilities().payload_bytes_max - 100);
    for (name, schedule, job, field) in [
        ("a b", hourly(), job(), "name"),
        (&*"n".repeat(125), hourly(), job(), "name"),
        ("x", Schedule::cron("61 * * * *", "UTC"), job(), "schedule.cron"),
        ("x", hourly(), NewJob::new("no name"), "job.kind"),
        ("x", hourly(), job().due(Due::After(1)), "job.delay_ms"),
        ("x", hourly(), job().max_attempts(0), "job.max_attempts"),
        ("x", hourly(), job().payload(large), "job.payload"),
    ] {
        let error = schedules.put(name, schedule, job).await.unwrap_err();
        assert_eq!(error.field(), Some(field), "{error}");
    }
    assert_eq!(schedules.list(None, 10).await.unwrap().rows, []);
    for error in [
        schedules.pause("none").await.unwrap_err(),
        schedules.resume("none").await.unwrap_err(),
        schedules.trigger("none").await.unwrap_err(),
    ] {
        assert_eq!(error.code(), "not_found", "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_job_keeps_the_progress_and_a_new_rhythm_starts_over() {
    let engine = memory();
    let schedules = Schedules::new(engine.clone());
    let every = |s: u64| Schedule::every_ms(s * 1_000);
    schedules.put("s", every(10).limit(5), NewJob::new("old")).await.unwrap();
    let services = start(&engine, only(|o| o.schedule.enabled = true));
    sleep(Duration::from_millis(25_500)).await;
    let kept = schedules.put("s", every(10).limit(5), NewJob::new("new")).await.unwrap();
    assert_eq!((kept.fired, kept.last_fire), (2, Some(START.plus(20_000))));
    sleep(Duration::from_secs(10)).await;
    let kinds: Vec<_> = jobs(&*engine).await.iter().map(|j| j.header.kind.to_string()).collect();
    assert_eq!(kinds, ["old", "old", "new"]);
    let anew = schedules.put("s", every(7), NewJob::new("new")).await.unwrap();
    assert_eq!((anew.fired, anew.last_fire), (0, None));
    services.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_schedule_fires_nothing_and_makes_up_for_nothing() {
    let engine = memory();
    let schedules = Schedules::new(engine.clone());
    schedules.put("s", Schedule::every_ms(10_000), NewJob::new("x")).await.unwrap();
    let services = start(&engine, only(|o| o.schedule.enabled = true));
    sleep(Duration::from_millis(10_500)).await;
    assert_eq!(jobs(&*engine).await.len(), 1);
    assert_eq!(schedules.pause("s").await.unwrap().next, None);
    sleep(Duration::from_secs(35)).await;
    assert_eq!(jobs(&*engine).await.len(), 1, "paused");
    let resumed = schedules.resume("s").await.unwrap();
    assert_eq!((resumed.fired, resumed.next), (1, Some(START.plus(50_000))));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(jobs(&*engine).await.len(), 1, "what it slept through is not made up for");
    sleep(Duration::from_secs(4)).await;
    assert_eq!(jobs(&*engine).await.len(), 2);
    services.stop().await;
}

#[tokio::test(start_paused = true)]
async fn triggering_runs_the_job_now_and_keeps_the_schedule() {
    let engine = memory();
    let schedules = Schedules::new(engine.clone());
    let before = schedules.put("s", hourly(), NewJob::new("x").json("{}")).await.unwrap();
    schedules.pause("s").await.unwrap();
    let one = schedules.trigger("s").await.unwrap();
    let two = schedules.trigger("s").await.unwrap();
    assert_ne!(one.id, two.id);
    assert_eq!([one, two].map(|done| done.disposition), [Disposition::Created; 2]);
    let after = schedules.resume("s").await.unwrap();
    assert_eq!((after.fired, after.next), (0, before.next));
}
