//! Changes of many jobs: selected by a filter, counted first, in steps that a crash may interrupt.

use crate::support::{complete, enqueue, jobs, memory, only, start, state, until};
use std::sync::Arc;
use std::time::Duration;
use windlass_core::engine::*;
use windlass_core::limits::{BULK_HOLD_MS, BULK_STEP_JOBS};
use windlass_core::model::{Due, KindRules, NewJob, State};
use windlass_core::time::HOUR_MS;
use windlass_memory::MemoryEngine;
use windlass_services::{BulkChange, BulkState, Bulks, Kinds, NewBulk};

const REPLAY: BulkChange = BulkChange::Replay { start_over: false, confirm: None };

fn customer(n: usize) -> NewJob {
    NewJob::new("send").json(format!(r#"{{"customer": {n}}}"#))
}

fn of_customer(n: usize) -> Filter {
    Filter::default().field("payload.customer".parse().expect("a path"), n.to_string())
}

async fn many(engine: &MemoryEngine, count: usize, job: impl Fn(usize) -> NewJob) {
    let jobs: Vec<NewJob> = (0..count).map(job).collect();
    for jobs in jobs.chunks(1_000) {
        engine.enqueue(Enqueue::each(jobs.iter().cloned())).await.expect("enqueued");
    }
}

async fn counted(engine: &dyn Engine, state: State) -> u64 {
    let lanes = engine.stats(StatsRequest::default()).await.expect("stats").value;
    lanes.into_iter().map(|mut lane| *lane.counter(state)).sum()
}

/// Kills all waiting jobs.
async fn kill_all(engine: &Arc<MemoryEngine>) {
    let bulks = Bulks::new(engine.clone());
    let bulk =
        bulks.start(NewBulk::new(Filter::default(), BulkChange::Kill)).await.expect("starts");
    bulks.run(&bulk.id, |_| {}).await.expect("ends");
}

#[tokio::test(start_paused = true)]
async fn matching_jobs_are_counted_and_then_changed() {
    let engine = memory();
    many(&engine, 2_000, |n| customer(n % 4)).await;
    let bulks = Bulks::new(engine.clone());
    let new = || NewBulk::new(of_customer(1), BulkChange::Cancel).by("ada");
    let dry = bulks.start(new().dry_run(true)).await.unwrap();
    let dry = bulks.run(&dry.id, |_| {}).await.unwrap();
    assert_eq!((dry.state, dry.total, dry.changed), (BulkState::Done, 500, 0));
    assert_eq!(counted(&*engine, State::Cancelled).await, 0, "a dry run changes nothing");
    let started = bulks.start(new()).await.unwrap();
    let mut steps = Vec::new();
    let done = bulks.run(&started.id, |bulk| steps.push(bulk.changed)).await.unwrap();
    assert_eq!((done.state, done.total, done.changed), (BulkState::Done, 500, 500));
    assert_eq!((&*done.by, done.ended.is_some(), done.refused), ("ada", true, 0));
    assert!(steps.is_sorted() && steps.len() > 2, "progress after every step: {steps:?}");
    assert_eq!(counted(&*engine, State::Cancelled).await, 500);
    assert_eq!(counted(&*engine, State::Available).await, 1_500);
}

#[tokio::test(start_paused = true)]
async fn each_change_applies_to_the_jobs_that_can_have_it() {
    let engine = memory();
    let now = engine.health().await.unwrap().now;
    let run = async |filter: Filter, change: BulkChange| {
        let bulks = Bulks::new(engine.clone());
        let bulk = bulks.start(NewBulk::new(filter, change)).await.unwrap();
        let bulk = bulks.run(&bulk.id, |_| {}).await.unwrap();
        assert_eq!((bulk.refused, bulk.total), (0, bulk.changed), "{bulk:?}");
        bulk.changed
    };
    let all = Filter::default;
    many(&engine, 10, customer).await;
    many(&engine, 5, |n| customer(n).due(Due::After(HOUR_MS))).await;
    complete(&*engine, "c1").await;
    assert_eq!(run(all(), BulkChange::Pause).await, 14);
    assert_eq!(run(all(), BulkChange::Resume).await, 14);
    assert_eq!(run(all(), BulkChange::Reprioritise { priority: 3 }).await, 14);
    assert_eq!(run(all(), BulkChange::Reprioritise { priority: 3 }).await, 0, "as they are");
    let run_at = now.plus(2 * HOUR_MS);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(run(Filter::state(State::Scheduled), BulkChange::Reschedule { run_at }).await, 5);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(run(all(), BulkChange::Promote).await, 5);
    assert_eq!(run(all(), BulkChange::Move { queue: "other".into() }).await, 14);
    assert_eq!(run(all().queue("other"), BulkChange::Kill).await, 14);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(run(Filter::state(State::Dead), REPLAY).await, 14);
    assert_eq!(run(all(), BulkChange::Cancel).await, 14);
    assert_eq!(run(Filter::state(State::Cancelled), BulkChange::Discard).await, 14);
    assert_eq!(jobs(&*engine).await.len(), 1, "the completed job");
}

#[tokio::test(start_paused = true)]
async fn a_purge_deletes_waiting_and_ended_jobs_and_stops_running_ones() {
    let engine = memory();
    many(&engine, 20, |n| customer(n).queue("gone")).await;
    many(&engine, 3, customer).await;
    let id = ClaimId::new("c");
    let by = Claimant::Alone { claim_id: id, worker: "w".into(), lease_ms: 60_000 };
    let running = engine.claim(Claim::new(by, "gone", 1)).await.unwrap().value.jobs.remove(0);
    let bulks = Bulks::new(engine.clone());
    let gone = NewBulk::new(Filter::default().queue("gone"), BulkChange::Purge);
    let bulk = bulks.start(gone).await.unwrap();
    let done = bulks.run(&bulk.id, |_| {}).await.unwrap();
    assert_eq!((done.total, done.changed, done.refused), (20, 20, 0));
    let left = jobs(&*engine).await;
    assert_eq!(left.len(), 4, "three of another queue, and the running one");
    let (id, lease) = (running.header.id, running.lease);
    assert!(left.iter().find(|job| job.header.id == id).unwrap().cancel_requested);
    let stopped = Settle::new([SettleItem::new(id, lease, Outcome::Cancel)]);
    engine.settle(stopped).await.unwrap().value.items.remove(0).unwrap();
    let gone = NewBulk::new(Filter::default().queue("gone"), BulkChange::Purge);
    let bulk = bulks.start(gone).await.unwrap();
    assert_eq!(bulks.run(&bulk.id, |_| {}).await.unwrap().changed, 1, "after it has stopped");
}

#[tokio::test(start_paused = true)]
async fn jobs_enqueued_after_the_start_are_left_alone() {
    let engine = memory();
    many(&engine, 10, customer).await;
    let bulks = Bulks::new(engine.clone());
    let bulk = bulks.start(NewBulk::new(Filter::default(), BulkChange::Cancel)).await.unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    let later = enqueue(&*engine, customer(1)).await;
    assert_eq!(bulks.run(&bulk.id, |_| {}).await.unwrap().changed, 10);
    assert_eq!(state(&*engine, later).await, Some(State::Available));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_half_way_is_continued_and_no_job_is_replayed_twice() {
    let engine = memory();
    let count = 4 * BULK_STEP_JOBS as usize;
    many(&engine, count, customer).await;
    kill_all(&engine).await;
    tokio::time::advance(Duration::from_secs(1)).await;
    let first = Bulks::new(engine.clone());
    let bulk = first.start(NewBulk::new(Filter::state(State::Dead), REPLAY)).await.unwrap();
    // The task dies after two steps that changed jobs.
    let (id, half) = (bulk.id.clone(), count as u64 / 2);
    let dying = tokio::spawn(async move {
        first.run(&id, |bulk| assert!(bulk.changed < half, "it dies here")).await
    });
    assert!(dying.await.unwrap_err().is_panic());
    let changed = counted(&*engine, State::Available).await;
    assert_eq!(changed, half);
    // The replayed jobs die again, before another process continues.
    tokio::time::advance(Duration::from_millis(10)).await;
    let again = engine.list(List::new(Filter::state(State::Available)).limit(1_000)).await.unwrap();
    let kill = |id| ChangeItem::new(id, Change::Kill);
    let again: Vec<_> = again.value.rows.iter().map(|job| job.header.id).collect();
    assert_eq!(again.len() as u64, changed);
    engine.change(again.iter().copied().map(kill).collect()).await.unwrap();
    // A service of another process continues once the hold of the dead one is over.
    let services = start(&engine, only(|options| options.bulk.enabled = true));
    let other = Bulks::new(engine.clone());
    tokio::time::advance(Duration::from_millis(BULK_HOLD_MS / 2)).await;
    assert!(!other.get(&bulk.id).await.unwrap().unwrap().state.is_over(), "still held");
    let done = until("the operation ends", || async {
        other.get(&bulk.id).await.unwrap().filter(|bulk| bulk.state.is_over())
    });
    let done = done.await;
    assert_eq!((done.state, done.changed), (BulkState::Done, count as u64));
    assert_eq!(counted(&*engine, State::Available).await, count as u64 - changed, "the rest");
    assert_eq!(counted(&*engine, State::Dead).await, changed, "not replayed a second time");
    services.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_step_that_was_not_saved_is_repeated_without_effect() {
    let engine = memory();
    many(&engine, 100, customer).await;
    kill_all(&engine).await;
    tokio::time::advance(Duration::from_secs(1)).await;
    let bulks = Bulks::new(engine.clone());
    let bulk = bulks.start(NewBulk::new(Filter::state(State::Dead), REPLAY)).await.unwrap();
    // The progress of the whole run is lost: the record is put back as it was.
    let key = format!("bulk/{}", bulk.id);
    let read = async || {
        let get = RecordOp::Get { key: key.clone() };
        match engine.records(vec![get]).await.unwrap().value.remove(0).unwrap() {
            RecordReply::Record(Some(record)) => record.value,
            other => panic!("{other:?}"),
        }
    };
    let before = read().await;
    bulks.run(&bulk.id, |_| {}).await.unwrap();
    tokio::time::advance(Duration::from_millis(10)).await;
    kill_all(&engine).await;
    let put = RecordOp::Put { key: key.clone(), value: before, expect: Expect::Any };
    engine.records(vec![put]).await.unwrap().value.remove(0).unwrap();
    let again = bulks.run(&bulk.id, |_| {}).await.unwrap();
    assert_eq!((again.total, again.changed), (0, 0));
    assert_eq!(counted(&*engine, State::Dead).await, 100);
}

#[tokio::test(start_paused = true)]
async fn two_processes_do_not_run_one_operation_at_the_same_time() {
    let engine = memory();
    many(&engine, 3_000, customer).await;
    let (one, other) = (Bulks::new(engine.clone()), Bulks::new(engine.clone()));
    let bulk = one.start(NewBulk::new(Filter::default(), BulkChange::Cancel)).await.unwrap();
    let (mut by_one, mut by_other) = (0, 0);
    let (first, second) =
        tokio::join!(one.run(&bulk.id, |_| by_one += 1), other.run(&bulk.id, |_| by_other += 1),);
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!((first.changed, second.changed), (3_000, 3_000));
    assert_eq!(by_one.min(by_other), 1, "the other one only sees the end");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_operation_stops() {
    let engine = memory();
    many(&engine, 3_000, customer).await;
    let bulks = Bulks::new(engine.clone());
    let bulk = bulks.start(NewBulk::new(Filter::default(), BulkChange::Cancel)).await.unwrap();
    assert_eq!(bulks.cancel(&bulk.id).await.unwrap().state, BulkState::Cancelled);
    let ended = bulks.run(&bulk.id, |_| {}).await.unwrap();
    assert_eq!((ended.state, ended.changed), (BulkState::Cancelled, 0));
    assert_eq!(counted(&*engine, State::Available).await, 3_000);
    assert_eq!(bulks.cancel("x").await.unwrap_err().code(), "not_found");
}

#[tokio::test(start_paused = true)]
async fn sensitive_kinds_are_replayed_only_if_confirmed() {
    let engine = memory();
    let mut rules = KindRules::default();
    rules.sensitive = true;
    Kinds::new(engine.clone()).put("charge", &rules).await.unwrap();
    many(&engine, 3, |_| NewJob::new("charge")).await;
    many(&engine, 2, customer).await;
    kill_all(&engine).await;
    tokio::time::advance(Duration::from_secs(1)).await;
    let bulks = Bulks::new(engine.clone());
    let bulk = bulks.start(NewBulk::new(Filter::state(State::Dead), REPLAY)).await.unwrap();
    let done = bulks.run(&bulk.id, |_| {}).await.unwrap();
    assert_eq!((done.changed, done.refused), (2, 3));
    assert!(done.error.unwrap().contains("charge"));
    let confirmed = BulkChange::Replay { start_over: false, confirm: Some("charge".into()) };
    let bulk = bulks.start(NewBulk::new(Filter::state(State::Dead), confirmed)).await.unwrap();
    assert_eq!(bulks.run(&bulk.id, |_| {}).await.unwrap().changed, 3);
}

#[tokio::test(start_paused = true)]
async fn a_bad_operation_is_refused_and_old_ones_make_room() {
    let engine = memory();
    let bulks = Bulks::new(engine.clone());
    let bad = NewBulk::new(Filter::default().text(""), BulkChange::Cancel);
    assert_eq!(bulks.start(bad).await.unwrap_err().field(), Some("text"));
    let bad = NewBulk::new(Filter::default(), BulkChange::Move { queue: "a b".into() });
    assert_eq!(bulks.start(bad).await.unwrap_err().field(), Some("queue"));
    assert!(bulks.all().await.unwrap().is_empty());
    let mut first = None;
    for _ in 0..=windlass_core::limits::BULKS_MAX {
        let bulk = bulks.start(NewBulk::new(Filter::default(), BulkChange::Cancel)).await.unwrap();
        bulks.run(&bulk.id, |_| {}).await.unwrap();
        first.get_or_insert(bulk.id);
        tokio::time::advance(Duration::from_millis(2)).await;
    }
    assert_eq!(bulks.all().await.unwrap().len(), windlass_core::limits::BULKS_MAX);
    assert!(bulks.get(&first.unwrap()).await.unwrap().is_none());
}
