//! Which calls wait for a sync, and which do not.
#![allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]

use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::NewJob;
use windlass_core::random::Seeded;
use windlass_local::{LocalEngine, Options};

#[tokio::test]
async fn enqueues_and_reports_wait_for_the_disk_and_claims_and_heartbeats_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LocalEngine::open(Options::new(dir.path())).unwrap();
    let syncs = || engine.counters().syncs;

    let before = syncs();
    engine.enqueue(Enqueue::each([NewJob::new("k"), NewJob::new("k")])).await.unwrap();
    assert!(syncs() > before, "acknowledged, and not on disk");

    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let before = syncs();
    let by = Claimant::Session { session: session.clone(), claim_no: 1 };
    let jobs = engine.claim(Claim::new(by, "default", 2)).await.unwrap().value.jobs;
    assert_eq!(jobs.len(), 2);
    let held: Vec<Held> =
        jobs.iter().map(|job| Held { id: job.header.id, lease: job.lease.clone() }).collect();
    engine.heartbeat(Heartbeat::new(session, 1, held)).await.unwrap();
    assert_eq!(syncs(), before, "a claim that is forgotten is merely made again");

    let done = jobs.into_iter().map(|job| SettleItem::new(job.header.id, job.lease, Outcome::DONE));
    engine.settle(Settle::new(done)).await.unwrap();
    assert!(syncs() > before, "reported, and not on disk");
}

#[tokio::test]
async fn calls_without_changes_do_not_wait_for_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LocalEngine::open(Options::new(dir.path())).unwrap();
    let now = engine.health().await.unwrap().now;
    let job = NewJob::new("k").id(JobId::new(now, &Seeded::new(1)));
    let enqueue = || engine.enqueue(Enqueue::each([job.clone()]));
    enqueue().await.unwrap();
    let before = engine.counters();
    assert!(before.syncs > 0 && before.commits > 0);
    assert_eq!(
        enqueue().await.unwrap().value[0].as_ref().unwrap().disposition,
        Disposition::Existing
    );
    for work in Work::ALL {
        engine.maintain(MaintainRequest::new(work, 10)).await.unwrap();
    }
    engine.health().await.unwrap();
    let after = engine.counters();
    assert_eq!((after.syncs, after.commits), (before.syncs, before.commits));

    // The rows that a claim wrote are synced with the next durable call.
    let session = engine.open_session(OpenSession::new("w")).await.unwrap().value.id;
    let by = Claimant::Session { session, claim_no: 1 };
    assert_eq!(engine.claim(Claim::new(by, "default", 1)).await.unwrap().value.jobs.len(), 1);
    enqueue().await.unwrap();
    assert_eq!(engine.counters().syncs, before.syncs + 1);
}
