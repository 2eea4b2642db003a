//! Shared by the tests: engines, a store that can fail, and waiting for conditions.
#![allow(dead_code, reason = "each test binary uses the part it needs")]

pub(crate) mod flaky;

use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::engine::{
    Change, ChangeItem, Claim, Claimant, Engine, Enqueue, Get, Lease, MaintainRequest, OpenSession,
    Outcome, Settle, SettleItem, Work,
};
use windlass_core::model::{Job, NewJob, PartSet, State};
use windlass_core::random::Seeded;
use windlass_core::time::{Clock, ManualClock, SystemClock};
use windlass_core::{JobId, TypedJob};
use windlass_local::LocalEngine;
use windlass_memory::MemoryEngine;
use windlass_worker::{Builder, Worker};

/// Nothing in these tests takes anywhere near this long, whatever else the machine does.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn memory() -> Arc<dyn Engine> {
    Arc::new(MemoryEngine::new())
}

/// A memory engine on a clock that is moved by hand, starting now.
pub(crate) fn travelling() -> (Arc<dyn Engine>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(SystemClock.now()));
    (Arc::new(MemoryEngine::with(clock.clone(), Arc::new(Seeded::new(1)))), clock)
}

/// A local engine in a directory of its own.
pub(crate) fn local() -> (Arc<dyn Engine>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let engine = LocalEngine::open(windlass_local::Options::new(dir.path())).unwrap();
    (Arc::new(engine), dir)
}

/// A worker with short times, as far as tests want them short.
pub(crate) fn worker(engine: &Arc<dyn Engine>) -> Builder {
    Worker::builder(engine.clone())
        .name("test")
        .session(Duration::from_secs(2), Duration::from_millis(50))
        .grace(Duration::from_secs(10))
        .stop_grace(Duration::from_millis(200))
        .cancel_grace(Duration::from_millis(200))
}

pub(crate) async fn enqueue(engine: &Arc<dyn Engine>, job: NewJob) -> JobId {
    enqueue_all(engine, [job]).await[0]
}

pub(crate) async fn enqueue_all(
    engine: &Arc<dyn Engine>,
    jobs: impl IntoIterator<Item = NewJob>,
) -> Vec<JobId> {
    let answers = engine.enqueue(Enqueue::each(jobs)).await.unwrap().value;
    answers.into_iter().map(|item| item.unwrap().id).collect()
}

/// A job of a typed kind.
pub(crate) fn typed<T: TypedJob>(job: &T) -> NewJob {
    T::template().json(serde_json::to_string(job).unwrap())
}

pub(crate) async fn get(engine: &Arc<dyn Engine>, id: JobId) -> Job {
    let jobs = engine.get(Get::new([id]).parts(PartSet::ALL)).await.unwrap().value;
    jobs.into_iter().next().unwrap().unwrap()
}

pub(crate) async fn change(engine: &Arc<dyn Engine>, id: JobId, change: Change) {
    let changed = engine.change(vec![ChangeItem::new(id, change)]).await.unwrap().value;
    changed.into_iter().next().unwrap().unwrap();
}

pub(crate) async fn maintain(engine: &Arc<dyn Engine>, work: Work) {
    engine.maintain(MaintainRequest::new(work, 1_000)).await.unwrap();
}

/// Waits until `check` answers with something.
pub(crate) async fn eventually<T, Fut>(what: &str, check: impl Fn() -> Fut) -> T
where
    Fut: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = check().await {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    eventually(what, || async { holds().then_some(()) }).await;
}

/// Waits until a job is in this state.
pub(crate) async fn reaches(engine: &Arc<dyn Engine>, id: JobId, state: State) -> Job {
    eventually(&format!("job {id} to be {state}"), || async {
        let job = get(engine, id).await;
        (job.state == state).then_some(job)
    })
    .await
}

/// A job on which this many workers have died.
pub(crate) async fn crashed(
    store: &Arc<dyn Engine>,
    clock: &ManualClock,
    job: NewJob,
    crashes: u32,
) {
    let kind = job.kind.clone();
    enqueue(store, job.max_crashes(10)).await;
    for _ in 0..crashes {
        let session = store.open_session(OpenSession::new("doomed")).await.unwrap().value.id;
        let by = Claimant::Session { session, claim_no: 1 };
        let claim = Claim::new(by, "default", 1).kind(kind.clone(), 1);
        assert_eq!(store.claim(claim).await.unwrap().value.jobs.len(), 1);
        for _ in 0..2 {
            clock.advance(60_000);
            maintain(store, Work::Reclaim).await;
            maintain(store, Work::Promote).await;
        }
    }
}

/// Snoozes a running job for an hour under the lease of its worker, which thereby loses it.
pub(crate) async fn take_away(engine: &Arc<dyn Engine>, id: JobId) {
    let outcome = Outcome::Snooze { delay_ms: 3_600_000 };
    let item = SettleItem::new(id, lease_of(engine, id).await, outcome);
    engine.settle(Settle::new([item])).await.unwrap();
}

/// The lease that a worker holds on a job: repeating its claim returns the job again.
async fn lease_of(engine: &Arc<dyn Engine>, id: JobId) -> Lease {
    let sessions = engine.sessions().await.unwrap().value;
    let session = sessions.iter().find(|session| session.running > 0).unwrap().id.clone();
    for claim_no in 1..10 {
        let by = Claimant::Session { session: session.clone(), claim_no };
        let jobs = engine.claim(Claim::new(by, "nowhere", 10)).await.unwrap().value.jobs;
        if let Some(job) = jobs.into_iter().find(|job| job.header.id == id) {
            return job.lease;
        }
    }
    panic!("no claim of the worker got job {id}");
}
