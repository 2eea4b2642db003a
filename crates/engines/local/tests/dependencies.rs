//! Dependencies across a restart: open edges stay open, and the resolution of a wide fan continues.

use std::path::Path;
use std::sync::Arc;
use windlass_core::JobId;
use windlass_core::engine::{
    Admin as _, Claim, ClaimId, Claimant, ClaimedJob, Enqueue, Get, Jobs as _, Maintain as _,
    MaintainRequest, Outcome, Settle, SettleItem, Work,
};
use windlass_core::limits::{CLAIM_BATCH_MAX, RESOLUTIONS_MAX};
use windlass_core::model::{Job, NewJob, Part, State};
use windlass_core::random::{Random as _, Seeded, SystemRandom};
use windlass_core::time::{HOUR_MS, ManualClock};
use windlass_kit::START;
use windlass_local::{LocalEngine, Options};

fn open(dir: &Path) -> LocalEngine {
    let random = Arc::new(Seeded::new(SystemRandom.next_u64()));
    let clock = Arc::new(ManualClock::at(START));
    LocalEngine::open(Options::new(dir).clock(clock).random(random)).expect("open")
}

async fn enqueue(engine: &LocalEngine, jobs: Vec<NewJob>) -> Vec<JobId> {
    let stored = engine.enqueue(Enqueue::each(jobs)).await.expect("enqueue").value;
    stored.into_iter().map(|item| item.expect("enqueue").id).collect()
}

async fn claim(engine: &LocalEngine) -> Vec<ClaimedJob> {
    let claim_id = ClaimId::random(&SystemRandom);
    let by = Claimant::Alone { claim_id, worker: "w".into(), lease_ms: HOUR_MS };
    engine.claim(Claim::new(by, "q", CLAIM_BATCH_MAX)).await.expect("claim").value.jobs
}

async fn get(engine: &LocalEngine, id: JobId) -> Job {
    engine.get(Get::new([id])).await.expect("get").value.remove(0).expect("a job")
}

async fn complete(engine: &LocalEngine, job: &ClaimedJob) {
    let outcome = Outcome::Complete { result: Some(Part::new("7")) };
    let item = SettleItem::new(job.header.id, job.lease.clone(), outcome);
    let reply = engine.settle(Settle::new([item])).await.expect("settle").value;
    reply.items.into_iter().for_each(|item| drop(item.expect("settle")));
}

async fn assert_sound(engine: &LocalEngine) {
    assert_eq!(engine.check(false).await.expect("check").value.findings, []);
}

fn job() -> NewJob {
    NewJob::new("k").queue("q")
}

#[tokio::test]
async fn open_dependencies_and_their_results_are_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = open(dir.path());
    let upstream = enqueue(&engine, vec![job(), job()]).await;
    let dependent = job().after(upstream[0]).after(upstream[1]).flow("f");
    let dependent = enqueue(&engine, vec![dependent]).await[0];
    let running = claim(&engine).await;
    complete(&engine, &running[0]).await;
    drop(engine);

    let engine = open(dir.path());
    let stored = get(&engine, dependent).await;
    assert_eq!((stored.state, stored.dependencies.open), (State::Blocked, 1));
    assert_eq!(stored.header.flow.as_deref(), Some("f"));
    assert_eq!(stored.inputs[0].result, Some(Part::new("7")));
    assert_sound(&engine).await;
    // The lease of a claim without a session outlives the process.
    complete(&engine, &running[1]).await;
    assert_eq!(get(&engine, dependent).await.state, State::Available);
    assert_sound(&engine).await;
}

#[tokio::test]
async fn a_wide_fan_goes_on_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = open(dir.path());
    let upstream = enqueue(&engine, vec![job()]).await[0];
    let width = 2 * RESOLUTIONS_MAX as usize + 7;
    let dependents = enqueue(&engine, vec![job().after(upstream); width]).await;
    complete(&engine, &claim(&engine).await[0]).await;
    drop(engine);

    let engine = open(dir.path());
    assert!(get(&engine, upstream).await.followed);
    assert_sound(&engine).await;
    loop {
        let request = MaintainRequest::new(Work::Promote, 300);
        if !engine.maintain(request).await.expect("maintain").value.more {
            break;
        }
    }
    for id in dependents {
        assert_eq!(get(&engine, id).await.state, State::Available, "{id}");
    }
    assert!(!get(&engine, upstream).await.followed);
    assert_sound(&engine).await;
}
