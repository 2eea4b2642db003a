//! Which calls are merged, and that every caller gets its own reply.

use crate::probe::Probe;
use crate::support::*;
use std::collections::HashSet;
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::{NewJob, PartName, PartSet};

const CALLERS: usize = 1_000;

#[tokio::test]
async fn a_thousand_concurrent_enqueues_are_two_calls() {
    let probe = Probe::shut();
    let engine = layered(&probe);
    let callers: Vec<_> = (0..CALLERS).map(|n| caller(&engine, numbered(n))).collect();
    let_callers_line_up().await;
    probe.let_through(2);
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    assert_eq!(probe.calls("enqueue"), [1, CALLERS - 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_thousand_concurrent_callers_each_gets_its_own_job() {
    let engine = layered(&Probe::open());
    let callers: Vec<_> = (0..CALLERS).map(|n| caller(&engine, numbered(n))).collect();
    let mut ids = HashSet::new();
    for (number, caller) in callers.into_iter().enumerate() {
        let id = caller.await.unwrap().unwrap().id;
        assert!(ids.insert(id), "two callers were given one job");
        let job = engine.get(Get::new([id])).await.unwrap().value.remove(0).unwrap();
        assert_eq!(job.header.tags, [number.to_string()], "the job of another caller");
    }
}

#[tokio::test]
async fn calls_during_a_batch_are_merged_into_the_next() {
    let probe = Probe::shut();
    let engine = layered(&probe);
    let first = occupy(&engine, &probe).await;
    let others: Vec<_> = (0..50).map(|n| caller(&engine, numbered(n))).collect();
    let_callers_line_up().await;
    assert_eq!(probe.calls("enqueue"), [1], "they wait for the one before");
    probe.let_through(2);
    first.await.unwrap().unwrap();
    for other in others {
        other.await.unwrap().unwrap();
    }
    assert_eq!(probe.calls("enqueue"), [1, 50]);
}

#[tokio::test]
async fn a_single_call_is_not_delayed() {
    let probe = Probe::open();
    let engine = layered(&probe);
    let call = engine.enqueue(Enqueue::each([numbered(1)]));
    // Answered in the very first poll: no timer, no task, no other thread.
    let answered = futures_util::FutureExt::now_or_never(call).expect("answered at once");
    answered.unwrap().value.remove(0).unwrap();
}

#[tokio::test]
async fn calls_of_one_sequential_caller_happen_in_their_order() {
    let probe = Probe::open();
    let engine = layered(&probe);
    let neighbours: Vec<_> = (0..50).map(|_| caller(&engine, NewJob::new("other"))).collect();
    let mut ids = Vec::new();
    for n in 0..50 {
        let job = NewJob::new("noop").queue("ordered").tag(format!("{n:02}"));
        ids.push(enqueue(&engine, job).await.unwrap().id);
    }
    for neighbour in neighbours {
        neighbour.await.unwrap().unwrap();
    }
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let claim = Claim::new(Claimant::Session { session, claim_no: 1 }, "ordered", 100);
    let claimed = engine.claim(claim).await.unwrap().value.jobs;
    assert_eq!(claimed.iter().map(|job| job.header.id).collect::<Vec<_>>(), ids);
}

#[tokio::test]
async fn a_bad_item_fails_alone() {
    let probe = Probe::shut();
    let engine = layered(&probe);
    let first = occupy(&engine, &probe).await;
    let good = caller(&engine, numbered(1));
    let bad = caller(&engine, NewJob::new("no spaces allowed"));
    let also_good = caller(&engine, numbered(2));
    let_callers_line_up().await;
    probe.let_through(2);
    first.await.unwrap().unwrap();
    good.await.unwrap().unwrap();
    also_good.await.unwrap().unwrap();
    assert_eq!(bad.await.unwrap().unwrap_err().field(), Some("kind"));
    assert_eq!(probe.calls("enqueue"), [1, 3], "they did travel together");
    assert_eq!(stored_tags(&engine).await, ["1", "2"]);
}

#[tokio::test]
async fn an_all_or_nothing_batch_travels_alone_and_at_once() {
    let probe = Probe::shut();
    let engine = layered(&probe);
    let first = occupy(&engine, &probe).await;
    let waiting = caller(&engine, numbered(1));
    let_callers_line_up().await;
    let jobs = [numbered(2), NewJob::new("no spaces allowed"), numbered(3)];
    let batch = tokio::spawn({
        let engine = engine.clone();
        async move { engine.enqueue(Enqueue::all_or_nothing(jobs)).await }
    });
    until("it did not wait in line", || probe.calls("enqueue_all") == [3]).await;
    probe.let_through(3);
    let answers = batch.await.unwrap().unwrap().value;
    assert_eq!(answers[0].as_ref().unwrap_err().code(), "aborted");
    assert_eq!(answers[1].as_ref().unwrap_err().field(), Some("kind"));
    first.await.unwrap().unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(stored_tags(&engine).await, ["1"], "nothing of the batch is stored");
}

#[tokio::test]
async fn settles_merge_unless_they_carry_a_claim_and_updates_and_gets_merge_too() {
    let probe = Probe::shut();
    let engine = layered(&probe);
    probe.let_through(1);
    engine.enqueue(Enqueue::each((0..20).map(numbered))).await.unwrap();
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let by = |claim_no| Claimant::Session { session: session.clone(), claim_no };
    let held = engine.claim(Claim::new(by(1), "default", 20)).await.unwrap().value.jobs;

    let updates = held.iter().map(|job| {
        let item = UpdateItem::new(job.header.id, job.lease.clone()).progress(1, Some(2), "half");
        engine.update(Update::new([item]))
    });
    let opened = async {
        let_callers_line_up().await;
        probe.let_through(2);
    };
    let (replies, ()) = tokio::join!(futures_util::future::join_all(updates), opened);
    for reply in replies {
        reply.unwrap().value.remove(0).unwrap();
    }
    let settles = held.iter().enumerate().map(|(n, job)| {
        let item = SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE);
        let settle = Settle::new([item]);
        engine.settle(if n == 0 { settle.then(Claim::new(by(2), "default", 1)) } else { settle })
    });
    let opened = async {
        let_callers_line_up().await;
        probe.let_through(3);
    };
    let (replies, ()) = tokio::join!(futures_util::future::join_all(settles), opened);
    for (n, reply) in replies.into_iter().enumerate() {
        let reply = reply.unwrap().value;
        assert_eq!(reply.items[0].as_ref().unwrap().id, held[n].header.id);
        assert_eq!(reply.claimed.is_some(), n == 0);
    }
    assert_eq!(probe.calls("settle_and_claim"), [1]);
    assert_eq!(probe.calls("settle"), [1, 18]);
    assert_eq!(probe.calls("update"), [1, 19]);
}

#[tokio::test]
async fn a_merged_get_returns_the_parts_requested_by_each_caller() {
    let probe = Probe::shut();
    let engine = layered(&probe);
    probe.let_through(1);
    let id = enqueue(&engine, numbered(1)).await.unwrap().id;
    let get = |ids: Vec<JobId>, parts: PartSet| {
        let engine = engine.clone();
        tokio::spawn(async move { engine.get(Get::new(ids).parts(parts)).await.unwrap().value })
    };
    let first = get(vec![id], PartSet::NONE);
    until("the first get is at the gate", || probe.calls("get").len() == 1).await;
    let plain = get(vec![id], PartSet::NONE);
    let twice = get(vec![id, id], PartSet::NONE);
    let heavy = get(vec![id], PartSet::NONE.with(PartName::Payload));
    let_callers_line_up().await;
    probe.let_through(3);
    for job in [first.await.unwrap(), plain.await.unwrap(), twice.await.unwrap()].concat() {
        assert_eq!(job.unwrap().parts.payload, None);
    }
    assert!(heavy.await.unwrap()[0].as_ref().unwrap().parts.payload.is_some());
    assert_eq!(probe.calls("get"), [1, 3, 1]);
}

#[test]
fn outside_a_runtime_calls_pass_straight_through() {
    let probe = Probe::open();
    let engine = layered(&probe);
    let call = engine.enqueue(Enqueue::each([numbered(1)]));
    let answered = futures_util::FutureExt::now_or_never(call).expect("memory answers at once");
    answered.unwrap().value.remove(0).unwrap();
}
