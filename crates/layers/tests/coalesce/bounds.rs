//! Nothing grows without a bound: callers wait for room instead.

use crate::probe::Probe;
use crate::support::*;
use std::sync::Arc;
use windlass_core::engine::{Enqueue, Jobs as _};
use windlass_core::model::NewJob;
use windlass_layers::Coalesce;
use windlass_layers::coalesce::{CALL_BYTES_MAX, CALL_ITEMS_MAX, Options};

/// Lets the first call and the ones behind it through, and says how many went with the second.
async fn second_call(options: Options, jobs: Vec<NewJob>) -> usize {
    let probe = Probe::shut();
    let engine = Arc::new(Coalesce::with(probe.clone(), options).unwrap());
    let first = occupy(&engine, &probe).await;
    let callers: Vec<_> = jobs.into_iter().map(|job| caller(&engine, job)).collect();
    let_callers_line_up().await;
    probe.let_through(1);
    first.await.unwrap().unwrap();
    until("the second call is at the gate", || probe.calls("enqueue").len() == 2).await;
    let second = probe.calls("enqueue")[1];
    probe.let_through(callers.len());
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    second
}

#[tokio::test]
async fn no_more_items_are_held_than_allowed_and_the_others_wait_for_room() {
    let jobs = || (0..20).map(numbered).collect();
    // The first has left its room by the time the second call is made.
    assert_eq!(second_call(one_at_a_time().held_items_max(5), jobs()).await, 5);
    assert_eq!(second_call(one_at_a_time(), jobs()).await, 20);
}

#[tokio::test]
async fn no_more_bytes_are_held_than_allowed_and_the_others_wait_for_room() {
    let jobs = || (0..20).map(|_| NewJob::new("noop").payload(vec![b' '; 100])).collect();
    assert_eq!(second_call(one_at_a_time().held_bytes_max(350), jobs()).await, 3);
    // Bigger than all the room: it gets in alone instead of never.
    assert_eq!(second_call(one_at_a_time().held_bytes_max(50), jobs()).await, 1);
}

#[tokio::test]
async fn a_merged_call_stays_within_its_bytes() {
    let part = vec![0; CALL_BYTES_MAX / 4];
    let jobs = (0..6).map(|_| {
        let mut job = NewJob::new("noop");
        job.parts.blob = Some(windlass_core::model::Part::new(part.clone()));
        job
    });
    assert_eq!(second_call(one_at_a_time(), jobs.collect()).await, 4);
}

#[tokio::test]
async fn a_merged_call_stays_within_its_items_and_a_big_one_travels_alone() {
    let probe = Probe::shut();
    let engine = layered(&probe);
    let first = occupy(&engine, &probe).await;
    let batch = |jobs: usize| {
        let engine = engine.clone();
        tokio::spawn(async move { engine.enqueue(Enqueue::each((0..jobs).map(numbered))).await })
    };
    let three: Vec<_> = (0..3).map(|_| batch(CALL_ITEMS_MAX / 2)).collect();
    let_callers_line_up().await;
    let big = batch(CALL_ITEMS_MAX);
    until("the big one did not wait", || probe.calls("enqueue") == [1, CALL_ITEMS_MAX]).await;
    probe.let_through(4);
    first.await.unwrap().unwrap();
    assert_eq!(big.await.unwrap().unwrap().value.len(), CALL_ITEMS_MAX);
    for batch in three {
        assert_eq!(batch.await.unwrap().unwrap().value.len(), CALL_ITEMS_MAX / 2);
    }
    assert_eq!(probe.calls("enqueue")[2..], [CALL_ITEMS_MAX, CALL_ITEMS_MAX / 2]);
}

#[tokio::test]
async fn no_more_calls_are_on_their_way_than_allowed() {
    let probe = Probe::shut();
    let options = Options::default().in_flight_max(2);
    let engine = Arc::new(Coalesce::with(probe.clone(), options).unwrap());
    let callers: Vec<_> = (0..10).map(|n| caller(&engine, numbered(n))).collect();
    let_callers_line_up().await;
    assert_eq!(probe.calls("enqueue"), [1, 1], "two at the gate, the others gather");
    probe.let_through(callers.len());
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    assert_eq!(probe.calls("enqueue").iter().sum::<usize>(), 10);
}
