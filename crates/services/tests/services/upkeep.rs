//! Promote, reclaim, expire, retain: what becomes of jobs.

use crate::support::*;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use windlass_core::engine::*;
use windlass_core::model::{Due, NewJob, QueuePatch, State};
use windlass_core::policy::Retention;
use windlass_services::ServiceName;

#[tokio::test(start_paused = true)]
async fn due_jobs_start_on_time_even_if_scheduled_after_the_last_check() {
    let engine = memory();
    let services = start(&engine, only(|o| o.promote.enabled = true));
    until("leads", || async { services.leads().then_some(()) }).await;
    sleep(Duration::from_millis(100)).await;
    let interval = Duration::from_millis(250);
    for delay_ms in [10, 900, 2_345] {
        let begun = Instant::now();
        let id = enqueue(&*engine, NewJob::new("x").due(Due::After(delay_ms))).await;
        reaches(&*engine, id, Some(State::Available)).await;
        let took = begun.elapsed();
        let due = Duration::from_millis(delay_ms);
        assert!(took >= due, "not before its time: {took:?}");
        let late = if due > interval { Duration::from_millis(10) } else { interval };
        assert!(took <= due + late, "{took:?} for {due:?}");
    }
    services.stop().await;
}

#[tokio::test(start_paused = true)]
async fn more_due_jobs_than_a_step_takes_are_all_promoted_without_waiting() {
    let engine = memory();
    let jobs = (0..2_500).map(|_| NewJob::new("x").due(Due::After(5_000)));
    engine.enqueue(Enqueue::each(jobs)).await.unwrap();
    let options = only(|o| {
        o.promote.enabled = true;
        o.promote.batch = 100;
        o.promote.interval = Duration::from_millis(60_000);
    });
    let services = start(&engine, options);
    let begun = Instant::now();
    until("all are available", || async {
        let lanes = engine.stats(StatsRequest::default()).await.unwrap().value;
        (lanes[0].available == 2_500).then_some(())
    })
    .await;
    assert!(begun.elapsed() < Duration::from_millis(5_100), "{:?}", begun.elapsed());
    let status = services.status();
    let promote = status.service(ServiceName::Promote).unwrap();
    assert_eq!(promote.items, 2_500);
    assert!(promote.runs >= 25);
    services.stop().await;
}

#[tokio::test(start_paused = true)]
async fn jobs_of_a_lost_session_are_reclaimed() {
    let engine = memory();
    let id = enqueue(&*engine, NewJob::new("x")).await;
    let session = engine.open_session(OpenSession::new("w").ttl_ms(5_000)).await.unwrap().value.id;
    let claim = Claim::new(Claimant::Session { session, claim_no: 1 }, "default", 1);
    assert_eq!(engine.claim(claim).await.unwrap().value.jobs.len(), 1);
    let services = start(&engine, only(|o| o.reclaim.enabled = true));
    let begun = Instant::now();
    reaches(&*engine, id, Some(State::Scheduled)).await;
    assert!(begun.elapsed() < Duration::from_millis(5_100), "as soon as it ran out");
    assert_eq!(job(&*engine, id).await.unwrap().header.counters.crashes, 1);
    services.stop().await;
}

#[tokio::test(start_paused = true)]
async fn finished_jobs_go_after_their_retention_and_leave_a_row_in_the_history() {
    let engine = memory();
    let retention = Retention::default().with_finished(Duration::from_secs(60));
    let patch = Configure::queue("default", QueuePatch::retention(retention));
    engine.configure(vec![patch]).await.unwrap();
    let mut ids = Vec::new();
    for n in 0..3 {
        enqueue(&*engine, NewJob::new("x")).await;
        ids.push(complete(&*engine, &format!("claim-{n}")).await);
    }
    let stays = enqueue(&*engine, NewJob::new("x")).await;
    let options = only(|o| {
        o.retain.enabled = true;
        o.retain.interval = Duration::from_millis(10_000);
        o.retain.batch = 2;
    });
    let services = start(&engine, options);
    sleep(Duration::from_secs(55)).await;
    assert_eq!(state(&*engine, ids[0]).await, Some(State::Completed), "never before");
    for id in &ids {
        reaches(&*engine, *id, None).await;
    }
    assert_eq!(state(&*engine, stays).await, Some(State::Available));
    services.stop().await;

    let rows = engine.removed(RemovedQuery::default()).await.unwrap().value.rows;
    let counts: Vec<_> =
        rows.iter().map(|row| (&*row.key.queue, row.key.outcome, row.count)).collect();
    assert_eq!(counts, [("default", State::Completed, 3)]);
}

#[tokio::test(start_paused = true)]
async fn jobs_that_waited_too_long_expire_visibly() {
    let engine = memory();
    let id = enqueue(&*engine, NewJob::new("x").max_wait_ms(5_000)).await;
    let patient = enqueue(&*engine, NewJob::new("x")).await;
    let options = only(|o| {
        o.expire.enabled = true;
        o.expire.interval = Duration::from_millis(1_000);
    });
    let services = start(&engine, options);
    reaches(&*engine, id, Some(State::Expired)).await;
    assert_eq!(state(&*engine, patient).await, Some(State::Available));
    services.stop().await;
}

#[tokio::test(start_paused = true)]
async fn services_that_are_off_do_nothing() {
    let engine = memory();
    let id = enqueue(&*engine, NewJob::new("x").due(Due::After(100))).await;
    let services = start(&engine, only(|o| o.compact.enabled = true));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(state(&*engine, id).await, Some(State::Scheduled));
    let status = services.status();
    let names: Vec<_> = status.services.iter().map(|service| service.name).collect();
    assert_eq!(names, [ServiceName::Compact]);
    assert!(status.services[0].runs > 0);
    services.stop().await;
}
