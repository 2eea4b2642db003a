//! One leader at a time, and how the leadership passes on.

use crate::spy::{SeenSteps, Spy};
use crate::support::*;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use windlass_core::engine::{Admin, Expect, RecordOp, RecordReply};
use windlass_core::model::{Due, NewJob, State};
use windlass_core::random::Seeded;
use windlass_core::time::ManualClock;
use windlass_memory::MemoryEngine;
use windlass_services::{ServiceName, ServiceOptions, Services, ServicesHandle};

const TTL: Duration = Duration::from_secs(15);

/// A process with services on a store that it shares with others.
struct Process {
    spy: Arc<Spy>,
    handle: ServicesHandle,
}

impl Process {
    fn start(store: &Arc<MemoryEngine>, process: usize, sightings: &SeenSteps) -> Self {
        let spy = Arc::new(Spy::new(store.clone(), process, sightings.clone()));
        let handle = start(&spy, options());
        spy.watch(handle.clone());
        Self { spy, handle }
    }

    /// The end of a process that has no time to say goodbye: nothing of it reaches the store.
    fn kill(&self) {
        self.spy.set_away(true);
    }
}

fn options() -> ServiceOptions {
    only(|o| o.promote.enabled = true)
}

fn leader(processes: &[Process]) -> Option<usize> {
    let leads: Vec<_> = (0..processes.len()).filter(|n| processes[*n].handle.leads()).collect();
    assert!(leads.len() <= 1, "{leads:?} lead at the same time");
    leads.first().copied()
}

async fn next_leader(processes: &[Process]) -> usize {
    until("one leads", || async { leader(processes) }).await
}

#[tokio::test(start_paused = true)]
async fn of_ten_processes_one_works_at_a_time_and_terms_only_rise() {
    let (store, sightings) = (memory(), SeenSteps::default());
    let mut processes: Vec<_> = (0..10).map(|n| Process::start(&store, n, &sightings)).collect();
    for round in 0..9 {
        let first = next_leader(&processes).await;
        sleep(Duration::from_secs(3)).await;
        assert_eq!(leader(&processes), Some(first), "no reason to change");
        let process = processes.swap_remove(first);
        if round % 2 == 0 {
            process.kill();
            // Its own clock ends its term, before another leader may begin.
            until("gives up", || async { (!process.handle.leads()).then_some(()) }).await;
            assert_eq!(leader(&processes), None);
        } else {
            process.handle.stop().await;
        }
    }
    let seen = sightings.all();
    assert!(seen.len() > 50, "{}", seen.len());
    assert!(seen.iter().all(|seen| seen.term.is_some()), "every step has a term");
    let terms: Vec<u64> = seen.iter().filter_map(|seen| seen.term).collect();
    assert!(terms.is_sorted(), "a token never goes back: {terms:?}");
    let mut changes: Vec<_> = seen.iter().map(|seen| (seen.process, seen.term)).collect();
    changes.dedup();
    assert_eq!(changes.len(), 9, "each leader has one term of its own: {changes:?}");
}

#[tokio::test(start_paused = true)]
async fn when_the_leader_dies_another_takes_over_within_its_time_to_live() {
    let (store, sightings) = (memory(), SeenSteps::default());
    let mut processes: Vec<_> = (0..3).map(|n| Process::start(&store, n, &sightings)).collect();
    let first = next_leader(&processes).await;
    sleep(Duration::from_secs(20)).await;
    let dead = processes.swap_remove(first);
    dead.kill();
    let id = enqueue(&*store, NewJob::new("x").due(Due::After(1_000))).await;
    let begun = Instant::now();
    reaches(&*store, id, Some(State::Available)).await;
    assert!(begun.elapsed() <= TTL + Duration::from_millis(200), "{:?}", begun.elapsed());
    assert!(leader(&processes).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_store_whose_clock_stands_still_does_not_keep_a_dead_leader_in_office() {
    let clock = Arc::new(ManualClock::at(crate::clock::START));
    let store = Arc::new(MemoryEngine::with(clock.clone(), Arc::new(Seeded::new(7))));
    let sightings = SeenSteps::default();
    let mut processes: Vec<_> = (0..3).map(|n| Process::start(&store, n, &sightings)).collect();
    let first = next_leader(&processes).await;
    clock.set(crate::clock::START.minus(3_600_000));
    sleep(TTL * 3).await;
    assert_eq!(leader(&processes), Some(first), "a leader that renews stays, whatever the clock");
    let dead = processes.swap_remove(first);
    dead.kill();
    until("gives up", || async { (!dead.handle.leads()).then_some(()) }).await;
    let begun = Instant::now();
    next_leader(&processes).await;
    assert!(begun.elapsed() <= TTL, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn when_the_leader_resigns_another_takes_over_at_once() {
    let (store, sightings) = (memory(), SeenSteps::default());
    let mut processes: Vec<_> = (0..3).map(|n| Process::start(&store, n, &sightings)).collect();
    let first = next_leader(&processes).await;
    let stopped = processes.swap_remove(first);
    stopped.handle.stop().await;
    assert!(!stopped.handle.leads());
    let get = RecordOp::Get { key: "leader/services".into() };
    let answer = store.records(vec![get]).await.unwrap().value.remove(0).unwrap();
    let RecordReply::Record(Some(record)) = answer else { panic!("{answer:?}") };
    let text = String::from_utf8(record.value.to_vec()).unwrap();
    assert!(text.contains(r#""ttl_ms":0"#), "given back before the stop is over: {text}");
    let begun = Instant::now();
    next_leader(&processes).await;
    assert!(begun.elapsed() < Duration::from_millis(1_100), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_to_go_stops_the_services_and_resigns() {
    let store = memory();
    assert_eq!(Services::leader(&*store).await.unwrap(), None);
    let mut named = options();
    named.label = "worker 1".into();
    let first = start(&store, named);
    until("leads", || async { first.leads().then_some(()) }).await;
    let leader = Services::leader(&*store).await.unwrap().expect("the leader is visible");
    assert_eq!(leader.label, "worker 1");
    assert_eq!(leader.expires_at, leader.renewed_at.plus(10_000));
    let clone = first.clone();
    drop(first);
    sleep(Duration::from_secs(1)).await;
    assert!(clone.leads(), "a clone keeps them going");
    drop(clone);
    let second = start(&store, options());
    let begun = Instant::now();
    until("leads", || async { second.leads().then_some(()) }).await;
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_record_was_taken_stops_at_its_next_renewal() {
    let store = memory();
    let services = start(&store, options());
    until("leads", || async { services.leads().then_some(()) }).await;
    let value = r#"{"holder":"an operator","ttl_ms":60000}"#.into();
    let take = RecordOp::Put { key: "leader/services".into(), value, expect: Expect::Any };
    store.records(vec![take]).await.unwrap();
    let begun = Instant::now();
    until("leads no more", || async { (!services.leads()).then_some(()) }).await;
    assert!(begun.elapsed() <= TTL / 3 + Duration::from_millis(100));
    let runs = services.status().service(ServiceName::Promote).unwrap().runs;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(services.status().service(ServiceName::Promote).unwrap().runs, runs);
    until("leads again when that ran out", || async { services.leads().then_some(()) }).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_a_renewal_does_not_end_the_term() {
    let store = memory();
    let spy = Arc::new(Spy::new(store, 0, SeenSteps::default()));
    let services = start(&spy, options());
    until("leads", || async { services.leads().then_some(()) }).await;
    let term = services.status().leader;
    let refused = spy.refused();
    spy.set_deaf(true);
    sleep(TTL / 2).await;
    assert!(spy.refused() > refused + 2, "renewals went unanswered");
    spy.set_deaf(false);
    sleep(TTL).await;
    assert_eq!(services.status().leader, term);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_hangs_is_dropped_when_the_term_is_not_sure_any_more() {
    let (store, sightings) = (memory(), SeenSteps::default());
    let stuck = Process::start(&store, 0, &sightings);
    until("leads", || async { stuck.handle.leads().then_some(()) }).await;
    stuck.spy.set_stuck(true);
    sleep(Duration::from_secs(1)).await;
    stuck.kill();
    let successor = Process::start(&store, 1, &sightings);
    until("takes over", || async { successor.handle.leads().then_some(()) }).await;
    let before = stuck.spy.maintained();
    // The store answers again, but the step belongs to a term that is over.
    stuck.spy.set_stuck(false);
    stuck.spy.set_away(false);
    sleep(TTL).await;
    assert!(successor.spy.maintained() > 0 && successor.handle.leads());
    assert_eq!(stuck.spy.maintained(), before, "what hung never reaches the store");
}

#[tokio::test(start_paused = true)]
async fn stopping_waits_for_a_step_but_not_for_ever() {
    let store = memory();
    let spy = Arc::new(Spy::new(store, 0, SeenSteps::default()));
    let services = start(&spy, options());
    until("works", || async {
        (services.status().service(ServiceName::Promote)?.runs > 0).then_some(())
    })
    .await;
    spy.set_stuck(true);
    sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    services.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    services.stop().await;
}

#[test]
fn services_need_a_runtime_and_good_options() {
    let engine = Arc::new(MemoryEngine::new());
    let error = Services::builder(engine.clone()).start().unwrap_err();
    assert_eq!(error.field(), Some("runtime"));
    let mut bad = ServiceOptions::default();
    bad.promote.batch = 0;
    let error = Services::builder(engine).options(bad).start().unwrap_err();
    assert_eq!(error.field(), Some("promote.batch"));
}
