//! Schedules after completion: the next run counts from the end of the previous job.

use crate::spy::{SeenSteps, Spy};
use crate::support::*;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::{Job, NewJob, State};
use windlass_core::policy::{Schedule, Unique};
use windlass_services::{ScheduleView, Schedules, ServiceOptions};

/// The pause of the schedules below.
const AFTER_MS: u64 = 10_000;

fn scheduler() -> ServiceOptions {
    only(|o| o.schedule.enabled = true)
}

fn after() -> Schedule {
    Schedule::after_completion_ms(AFTER_MS)
}

async fn view(schedules: &Schedules) -> ScheduleView {
    schedules.get("s").await.expect("the store answers").expect("it is there")
}

/// Waits until there are this many fires; returns the latest.
async fn fire(engine: &dyn Engine, count: usize) -> Job {
    let read = || async {
        let jobs = jobs(engine).await;
        assert!(jobs.len() <= count, "runs overlap: {jobs:?}");
        jobs.into_iter().nth(count - 1)
    };
    until(&format!("fire {count}"), read).await
}

async fn change(engine: &dyn Engine, id: JobId, change: Change) {
    let answer = engine.change(vec![ChangeItem::new(id, change)]).await.expect("the store answers");
    answer.value[0].as_ref().expect("it can be changed");
}

async fn fail(engine: &dyn Engine, claim: &str) {
    let claim_id = ClaimId::new(claim);
    let by = Claimant::Alone { claim_id, worker: "tester".into(), lease_ms: 10_000 };
    let claimed = engine.claim(Claim::new(by, "default", 1)).await.expect("claims").value.jobs;
    let job = claimed.first().expect("something to claim");
    let outcome = Outcome::fail("broken", "it is broken");
    let settle = Settle::new([SettleItem::new(job.header.id, job.lease.clone(), outcome)]);
    engine.settle(settle).await.expect("settles").value.items[0].as_ref().expect("settled");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_takes_long_is_followed_by_one_after_its_end() {
    let engine = memory();
    let schedules = Schedules::new(engine.clone());
    let created = engine.health().await.unwrap().now;
    schedules.put("s", after(), NewJob::new("x")).await.unwrap();
    let services = start(&engine, scheduler());
    let first = fire(&*engine, 1).await;
    assert_eq!(first.header.id.time(), created.plus(AFTER_MS));
    sleep(Duration::from_secs(3_600)).await;
    assert_eq!(jobs(&*engine).await.len(), 1, "it has not ended");
    let waiting = view(&schedules).await;
    assert_eq!((waiting.awaits, waiting.next), (Some(first.header.id), None));

    complete(&*engine, "one").await;
    let ended = job(&*engine, first.header.id).await.unwrap().finished_at.unwrap();
    let second = fire(&*engine, 2).await;
    assert_eq!(second.header.id.time(), ended.plus(AFTER_MS), "to the moment");
    services.stop().await;
    let view = view(&schedules).await;
    assert_eq!((view.fired, view.last_fire), (2, Some(ended.plus(AFTER_MS))));
}

#[tokio::test(start_paused = true)]
async fn every_end_of_a_job_is_followed_by_the_next_run() {
    let engine = memory();
    let schedules = Schedules::new(engine.clone());
    let mut short_wait = NewJob::new("x");
    short_wait.policy.max_wait_ms = Some(30_000);
    schedules.put("s", after(), short_wait).await.unwrap();
    let mut options = scheduler();
    (options.expire.enabled, options.expire.interval) = (true, Duration::from_secs(1));
    let services = start(&engine, options);

    fire(&*engine, 1).await;
    complete(&*engine, "one").await;
    fire(&*engine, 2).await;
    fail(&*engine, "two").await;
    let cancelled = fire(&*engine, 3).await.header.id;
    change(&*engine, cancelled, Change::Cancel).await;
    let expired = fire(&*engine, 4).await.header.id;
    reaches(&*engine, expired, Some(State::Expired)).await;
    let discarded = fire(&*engine, 5).await.header.id;
    // Both before the scheduler looks again: it finds that the job is gone.
    change(&*engine, discarded, Change::Cancel).await;
    change(&*engine, discarded, Change::Discard).await;
    until("a sixth run", || async { (view(&schedules).await.fired == 6).then_some(()) }).await;
    services.stop().await;
    let states: Vec<_> = jobs(&*engine).await.iter().map(|job| job.state).collect();
    let ends = [State::Completed, State::Dead, State::Cancelled, State::Expired, State::Available];
    assert_eq!(states, ends);
    assert_eq!(view(&schedules).await.refused, 0);
}

#[tokio::test(start_paused = true)]
async fn ten_schedulers_that_lose_replies_run_each_job_after_the_other() {
    let store = memory();
    let schedules = Schedules::new(store.clone());
    schedules.put("s", after(), NewJob::new("x")).await.unwrap();
    let mut options = scheduler();
    options.leadership = false;
    let spies: Vec<_> =
        (0..10).map(|n| Arc::new(Spy::new(store.clone(), n, SeenSteps::default()))).collect();
    let services: Vec<_> = spies.iter().map(|spy| start(spy, options.clone())).collect();
    for run in 1..=8 {
        fire(&*store, run).await;
        let deaf = run % 2 == 0;
        spies.iter().skip(1).for_each(|spy| spy.set_deaf(deaf));
        sleep(Duration::from_millis(1_700)).await;
        // An end that is found after the job was removed has no time of its own: schedulers must agree on one.
        let id = complete(&*store, &format!("claim {run}")).await;
        if run % 3 == 0 {
            change(&*store, id, Change::Discard).await;
            enqueue(&*store, NewJob::new("filler").queue("other")).await;
        }
    }
    sleep(Duration::from_millis(5 * AFTER_MS)).await;
    for services in &services {
        services.stop().await;
    }
    assert_eq!(view(&schedules).await.fired, 9, "counted once");
    assert_eq!(jobs(&*store).await.len(), 9, "runs happen once");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_kept_out_by_a_unique_key_waits_for_its_holder() {
    let engine = memory();
    let schedules = Schedules::new(engine.clone());
    let unique = || NewJob::new("x").unique(Unique::by("alone"));
    let holder = enqueue(&*engine, unique()).await;
    schedules.put("s", after(), unique()).await.unwrap();
    let services = start(&engine, scheduler());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(view(&schedules).await.awaits, Some(holder));
    complete(&*engine, "holder").await;
    let next = fire(&*engine, 2).await;
    services.stop().await;
    let ended = job(&*engine, holder).await.unwrap().finished_at.unwrap();
    assert_eq!(next.header.id.time(), ended.plus(AFTER_MS));
}

#[tokio::test(start_paused = true)]
async fn a_paused_schedule_counts_from_its_resumption_and_never_overlaps() {
    let engine = memory();
    let schedules = Schedules::new(engine.clone());
    schedules.put("s", after(), NewJob::new("x")).await.unwrap();
    let services = start(&engine, scheduler());
    let first = fire(&*engine, 1).await.header.id;
    schedules.pause("s").await.unwrap();
    // A longer pause starts over, but still after the end of the job.
    let longer = Schedule::after_completion_ms(2 * AFTER_MS);
    schedules.put("s", longer, NewJob::new("x")).await.unwrap();
    schedules.resume("s").await.unwrap();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(view(&schedules).await.awaits, Some(first));

    schedules.pause("s").await.unwrap();
    complete(&*engine, "one").await;
    sleep(Duration::from_secs(60)).await;
    let resumed = schedules.resume("s").await.unwrap();
    let now = engine.health().await.unwrap().now;
    let second = fire(&*engine, 2).await.header.id.time();
    services.stop().await;
    assert_eq!((resumed.paused, second), (false, now.plus(2 * AFTER_MS)));
}

#[tokio::test(start_paused = true)]
async fn a_limit_ends_it_without_waiting_for_the_last_job() {
    let engine = memory();
    let schedules = Schedules::new(engine.clone());
    schedules.put("s", after().limit(1), NewJob::new("x")).await.unwrap();
    let services = start(&engine, scheduler());
    fire(&*engine, 1).await;
    sleep(Duration::from_secs(60)).await;
    services.stop().await;
    let view = view(&schedules).await;
    assert_eq!((view.fired, view.next, view.awaits), (1, None, None));
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_days_owes_one_run() {
    let engine = memory();
    let schedules = Schedules::new(engine.clone());
    schedules.put("s", after(), NewJob::new("x")).await.unwrap();
    let services = start(&engine, scheduler());
    fire(&*engine, 1).await;
    services.stop().await;
    complete(&*engine, "one").await;
    sleep(Duration::from_secs(3 * 86_400)).await;
    let services = start(&engine, scheduler());
    fire(&*engine, 2).await;
    sleep(Duration::from_secs(60)).await;
    services.stop().await;
    let view = view(&schedules).await;
    assert_eq!((view.fired, view.refused, view.last_error), (2, 0, None));
}
