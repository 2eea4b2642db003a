//! Limits across a restart: slots, tokens and lines are what they were.

use std::path::Path;
use std::sync::Arc;
use windlass_core::engine::Admin as _;
use windlass_core::engine::{
    Claim, ClaimId, Claimant, ClaimedJob, Configure, Enqueue, Get, Jobs as _, Maintain as _,
    Outcome, Settle, SettleItem, Take, Took,
};
use windlass_core::model::{Limit, NewJob, QueuePatch, Rate, Rule, State};
use windlass_core::random::{Random as _, Seeded, SystemRandom};
use windlass_core::time::{HOUR_MS, ManualClock};
use windlass_kit::START;
use windlass_local::{LocalEngine, Options};

fn open(dir: &Path, clock: &Arc<ManualClock>) -> LocalEngine {
    let random = Arc::new(Seeded::new(SystemRandom.next_u64()));
    LocalEngine::open(Options::new(dir).clock(clock.clone()).random(random)).expect("open")
}

/// Claims everything, under leases that outlive a restart.
async fn claim(engine: &LocalEngine) -> Vec<ClaimedJob> {
    let claim_id = ClaimId::random(&SystemRandom);
    let by = Claimant::Alone { claim_id, worker: "w".into(), lease_ms: HOUR_MS };
    engine.claim(Claim::new(by, "q", 100)).await.expect("claim").value.jobs
}

async fn limit(engine: &LocalEngine, limit: Limit) {
    let list = Configure::queue("q", QueuePatch::limits(["l"]));
    let changes = vec![Configure::limit("l", limit), list];
    for change in engine.configure(changes).await.expect("configure").value {
        change.expect("configure");
    }
}

#[tokio::test]
async fn slots_and_lines_are_kept() {
    let (dir, clock) =
        (tempfile::tempdir().expect("a directory"), Arc::new(ManualClock::at(START)));
    let engine = open(dir.path(), &clock);
    limit(&engine, Limit::max_running(2).by_group()).await;
    let jobs = (0..10).map(|n| NewJob::new("k").queue("q").group(if n < 7 { "a" } else { "b" }));
    let ids = engine.enqueue(Enqueue::each(jobs)).await.expect("enqueue").value;
    let ids: Vec<_> = ids.into_iter().map(|item| item.expect("enqueue").id).collect();
    let running = claim(&engine).await;
    assert_eq!(running.len(), 4, "two of each group");
    drop(engine);

    let engine = open(dir.path(), &clock);
    assert!(claim(&engine).await.is_empty(), "leases of other processes still count");
    let waiting =
        engine.get(Get::new([ids[6]])).await.expect("get").value.remove(0).expect("a job");
    assert_eq!((waiting.state, waiting.limits), (State::Blocked, vec!["l".into()]));
    let done =
        running.iter().map(|job| SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE));
    for item in engine.settle(Settle::new(done)).await.expect("settle").value.items {
        item.expect("settle");
    }
    assert_eq!(claim(&engine).await.len(), 3, "two of one group, the last of the other");
    assert_eq!(engine.check(false).await.expect("check").value.findings, []);
}

#[tokio::test]
async fn tokens_are_kept() {
    for by_group in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let clock = Arc::new(ManualClock::at(START));
        let engine = open(dir.path(), &clock);
        let rule = Limit::new(Rule::rate(Rate::window(3, 60_000)));
        limit(&engine, if by_group { rule.by_group() } else { rule }).await;
        let jobs = vec![NewJob::new("k").queue("q").group("g"); 6];
        engine.enqueue(Enqueue::each(jobs)).await.expect("enqueue");
        assert_eq!(claim(&engine).await.len(), 3);
        drop(engine);

        let engine = open(dir.path(), &clock);
        assert!(claim(&engine).await.is_empty(), "by group: {by_group}");
        let took = engine.take(Take::new("l").group("g")).await.expect("take").value;
        assert_eq!(took, Took::At(START.plus(60_000)));
        clock.advance(59_999);
        assert!(claim(&engine).await.is_empty());
        clock.advance(1);
        assert_eq!(claim(&engine).await.len(), 3);
        assert_eq!(engine.check(false).await.expect("check").value.findings, []);
    }
}
