//! One set of services for all guests of a process.

use crate::support::*;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::model::{Due, NewJob, State};
use windlass_core::policy::Schedule;
use windlass_memory::MemoryEngine;
use windlass_services::{Host, Schedules, ServiceOptions, Services};

async fn leads(engine: &Arc<MemoryEngine>) -> bool {
    Services::leader(&**engine).await.expect("the store answers").is_some()
}

#[tokio::test(start_paused = true)]
async fn services_run_from_the_first_guest_to_the_last_whether_they_leave_or_vanish() {
    let engine = memory();
    let host = Host::new(engine.clone());
    for vanish in [false, true] {
        let (one, other) = (host.join().unwrap(), host.clone().join().unwrap());
        drop(one);
        let id = enqueue(&*engine, NewJob::new("soon").due(Due::After(300))).await;
        let ready =
            || async { (state(&*engine, id).await == Some(State::Available)).then_some(()) };
        until("the job is promoted for the guest that is left", ready).await;
        if vanish {
            drop(other);
            let over = || async { (!leads(&engine).await).then_some(()) };
            until("the leadership is given back in the background", over).await;
        } else {
            other.leave().await;
            assert!(!leads(&engine).await, "given back when the last guest has left");
        }
        assert!(host.status().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_comes_while_the_last_one_leaves_is_served() {
    let engine = memory();
    let host = Host::new(engine.clone());
    let first = host.join().unwrap();
    let (_, second) = tokio::join!(first.leave(), async { host.join().unwrap() });
    let id = enqueue(&*engine, NewJob::new("soon").due(Due::After(300))).await;
    let ready = || async { (state(&*engine, id).await == Some(State::Available)).then_some(()) };
    until("the job is promoted", ready).await;
    second.leave().await;
}

#[tokio::test(start_paused = true)]
async fn options_are_chosen_once_and_before_the_start() {
    let host = Host::new(memory());
    let refused = |options| host.choose(options).unwrap_err().field().unwrap().to_owned();
    let mut wrong = ServiceOptions::default();
    wrong.lead_ttl = Duration::from_millis(1);
    assert_eq!(refused(wrong), "lead_ttl");
    host.choose(nothing()).unwrap();
    host.choose(nothing()).unwrap();
    assert_eq!(refused(ServiceOptions::default()), "service_options");
    let guest = host.join().unwrap();
    assert!(host.status().unwrap().services.is_empty(), "they are those that were chosen");
    guest.leave().await;
}

#[tokio::test(start_paused = true)]
async fn due_schedules_can_be_fired_by_hand_and_fire_once() {
    let engine = memory();
    let schedules = Schedules::new(engine.clone());
    schedules.put("tick", Schedule::every_ms(1_000), NewJob::new("tick")).await.unwrap();
    let next = schedules.fire_due().await.unwrap().unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    for _ in 0..2 {
        assert!(schedules.fire_due().await.unwrap().unwrap() > next);
    }
    let fired = windlass_core::policy::fire_id("tick", next);
    assert_eq!(state(&*engine, fired).await, Some(State::Available));
    let stats = windlass_core::engine::StatsRequest::default();
    let lanes = windlass_core::engine::Admin::stats(&*engine, stats).await.unwrap().value;
    assert_eq!(lanes.iter().map(|lane| lane.available).sum::<u64>(), 1);
}
