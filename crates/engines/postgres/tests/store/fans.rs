//! Graphs as wide as the limits allow.

#![expect(clippy::disallowed_methods, reason = "it measures")]

use crate::common::{OwnSchema, open};
use std::time::{Duration, Instant};
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::limits::{CLAIM_BATCH_MAX, DEPENDENCIES_MAX, ENQUEUE_BATCH_MAX};
use windlass_core::model::{NewJob, State};
use windlass_core::random::SystemRandom;
use windlass_core::time::HOUR_MS;
use windlass_postgres::PostgresEngine;

fn job() -> NewJob {
    NewJob::new("k").queue("q")
}

async fn enqueue(engine: &PostgresEngine, jobs: Vec<NewJob>) -> Vec<JobId> {
    let stored = engine.enqueue(Enqueue::each(jobs)).await.expect("enqueue").value;
    stored.into_iter().map(|item| item.expect("enqueue").id).collect()
}

async fn state(engine: &PostgresEngine, id: JobId) -> State {
    let found = engine.get(Get::new([id])).await.expect("get").value.remove(0);
    found.expect("it exists").state
}

/// Completes jobs, the largest batch at a time, until none is ready.
async fn complete_all(engine: &PostgresEngine) -> usize {
    let mut done = 0;
    loop {
        let claim_id = ClaimId::random(&SystemRandom);
        let by = Claimant::Alone { claim_id, worker: "w".into(), lease_ms: HOUR_MS };
        let claimed = engine.claim(Claim::new(by, "q", CLAIM_BATCH_MAX)).await.expect("claim");
        let report = |job: ClaimedJob| SettleItem::new(job.header.id, job.lease, Outcome::DONE);
        let reports: Vec<SettleItem> = claimed.value.jobs.into_iter().map(report).collect();
        if reports.is_empty() {
            return done;
        }
        done += reports.len();
        let reply = engine.settle(Settle::new(reports)).await.expect("settle").value;
        assert!(reply.items.iter().all(Result::is_ok));
    }
}

/// Resolves what is left, in steps of this many; returns their number and the longest time of one.
async fn promote_all(engine: &PostgresEngine, budget: u32) -> (u32, Duration) {
    let (mut steps, mut longest) = (0, Duration::ZERO);
    loop {
        let start = Instant::now();
        let request = MaintainRequest::new(Work::Promote, budget);
        let step = engine.maintain(request).await.expect("maintain").value;
        (steps, longest) = (steps + 1, longest.max(start.elapsed()));
        assert!(step.done <= budget, "{step:?}");
        if !step.more {
            return (steps, longest);
        }
    }
}

/// Prints figures for `docs/adr/measurements/006-flows.md`.
#[tokio::test]
#[ignore = "long: a minute in release builds"]
async fn figures_of_a_fan_out_a_chain_and_a_tree() {
    let schema = OwnSchema::new();
    let engine = open(&schema).await;
    let first = enqueue(&engine, vec![job()]).await[0];
    let start = Instant::now();
    for _ in 0..DEPENDENCIES_MAX / ENQUEUE_BATCH_MAX {
        enqueue(&engine, vec![job().after(first); ENQUEUE_BATCH_MAX]).await;
    }
    eprintln!("fan-out of {DEPENDENCIES_MAX}: enqueued in {:?}", start.elapsed());
    let start = Instant::now();
    let by = Claimant::Alone {
        claim_id: ClaimId::random(&SystemRandom),
        worker: "w".into(),
        lease_ms: HOUR_MS,
    };
    let claimed = engine.claim(Claim::new(by, "q", 1)).await.expect("claim").value.jobs.remove(0);
    let report = SettleItem::new(claimed.header.id, claimed.lease, Outcome::DONE);
    engine.settle(Settle::new([report])).await.expect("settle");
    eprintln!("its end: {:?}", start.elapsed());
    let start = Instant::now();
    let (steps, longest) = promote_all(&engine, 1_000).await;
    eprintln!("resolved in {:?}, {steps} steps, the longest {longest:?}", start.elapsed());
    let start = Instant::now();
    assert_eq!(complete_all(&engine).await, DEPENDENCIES_MAX);
    eprintln!("completed in {:?}", start.elapsed());

    let now = engine.health().await.expect("health").now;
    let id = || JobId::new(now, &SystemRandom);
    let mut chain: Vec<NewJob> = vec![job().id(id())];
    while chain.len() < 1_000 {
        let before = chain.last().and_then(|job| job.id).expect("an id");
        chain.push(job().id(id()).after(before));
    }
    let start = Instant::now();
    engine.enqueue(Enqueue::all_or_nothing(chain)).await.expect("enqueue");
    eprintln!("chain of 1000: enqueued in {:?}", start.elapsed());
    let start = Instant::now();
    assert_eq!(complete_all(&engine).await, 1_000);
    eprintln!("completed in {:?}, one claim and one report per job", start.elapsed());

    // Five children each, on six levels: more do not fit into one enqueue.
    let mut tree: Vec<NewJob> = vec![job().id(id())];
    let mut level = 0..1;
    for _ in 1..6 {
        let begin = tree.len();
        for parent in level.clone() {
            let children: Vec<JobId> = (0..5).map(|_| id()).collect();
            for child in children {
                tree[parent].after.push(child.into());
                tree.push(job().id(child));
            }
        }
        level = begin..tree.len();
    }
    let count = tree.len();
    let start = Instant::now();
    engine.enqueue(Enqueue::all_or_nothing(tree)).await.expect("enqueue");
    eprintln!("tree of {count}: enqueued in {:?}", start.elapsed());
    let start = Instant::now();
    assert_eq!(complete_all(&engine).await, count);
    eprintln!("completed in {:?}", start.elapsed());
}

/// The server ends a transaction that is silent for 2 s, which a debug build with a busy machine behind it can be.
#[tokio::test]
#[ignore = "long: a slow debug build is silent for longer than a transaction may be"]
async fn a_job_runs_after_as_many_others_as_the_limit_allows() {
    let schema = OwnSchema::new();
    let engine = open(&schema).await;
    let mut upstream = Vec::new();
    for _ in 0..DEPENDENCIES_MAX / ENQUEUE_BATCH_MAX {
        upstream.extend(enqueue(&engine, vec![job(); ENQUEUE_BATCH_MAX]).await);
    }
    let start = Instant::now();
    let last = upstream.iter().fold(job(), |job, id| job.after(*id));
    let last = enqueue(&engine, vec![last]).await[0];
    eprintln!("enqueue: {:?}", start.elapsed());
    assert_eq!(complete_all(&engine).await, DEPENDENCIES_MAX + 1);
    eprintln!("all: {:?}", start.elapsed());
    assert_eq!(state(&engine, last).await, State::Completed);
    assert!(start.elapsed() < Duration::from_secs(600));
}
