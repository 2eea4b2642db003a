//! A store that goes away, and steps that fail.

use crate::spy::{SeenSteps, Spy};
use crate::support::*;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use windlass_core::model::{Due, NewJob, State};
use windlass_services::ServiceName;

#[tokio::test(start_paused = true)]
async fn services_survive_an_outage_and_go_on_by_themselves() {
    let store = memory();
    let spy = Arc::new(Spy::new(store.clone(), 0, SeenSteps::default()));
    let services = start(
        &spy,
        only(|o| {
            o.promote.enabled = true;
            o.sample.enabled = true;
            o.schedule.enabled = true;
        }),
    );
    until("leads", || async { services.leads().then_some(()) }).await;
    spy.set_away(true);
    let id = enqueue(&*store, NewJob::new("x").due(Due::After(100))).await;
    sleep(Duration::from_secs(120)).await;
    assert_eq!(state(&*store, id).await, Some(State::Scheduled));
    let status = services.status();
    assert_eq!(status.leader, None, "it cannot be sure any more");
    for name in [ServiceName::Promote, ServiceName::Sample, ServiceName::Schedule] {
        let service = status.service(name).unwrap();
        assert!(service.failing > 0, "{service:?}");
        assert!(service.last_error.as_ref().unwrap().contains("away"), "{service:?}");
    }
    let refused = spy.refused();
    assert!(refused < 400, "it leaves the store in peace: {refused} calls");
    spy.set_away(false);
    let begun = Instant::now();
    reaches(&*store, id, Some(State::Available)).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    until("all is well", || async {
        let status = services.status();
        status.services.iter().all(|service| service.failing == 0).then_some(())
    })
    .await;
    services.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_at_the_start_is_waited_for() {
    let store = memory();
    let spy = Arc::new(Spy::new(store.clone(), 0, SeenSteps::default()));
    spy.set_away(true);
    let services = start(&spy, only(|o| o.promote.enabled = true));
    sleep(Duration::from_secs(30)).await;
    assert!(!services.leads());
    spy.set_away(false);
    let id = enqueue(&*store, NewJob::new("x").due(Due::After(100))).await;
    reaches(&*store, id, Some(State::Available)).await;
    services.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_step_that_panics_is_a_failure_and_not_the_end() {
    let store = memory();
    let spy = Arc::new(Spy::new(store.clone(), 0, SeenSteps::default()));
    spy.set_panics(true);
    let services = start(&spy, only(|o| o.promote.enabled = true));
    let panicked = until("panics", || async {
        services.status().service(ServiceName::Promote)?.last_error.clone()
    })
    .await;
    assert!(panicked.contains("panics as requested"), "{panicked}");
    spy.set_panics(false);
    let id = enqueue(&*store, NewJob::new("x").due(Due::After(100))).await;
    reaches(&*store, id, Some(State::Available)).await;
    services.stop().await;
}

#[tokio::test(start_paused = true)]
async fn stopping_is_quick_while_the_store_is_away() {
    let store = memory();
    let spy = Arc::new(Spy::new(store, 0, SeenSteps::default()));
    let services = start(&spy, windlass_services::ServiceOptions::default());
    until("leads", || async { services.leads().then_some(()) }).await;
    spy.set_away(true);
    sleep(Duration::from_secs(5)).await;
    let begun = Instant::now();
    services.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}
