//! Shared by the tests: engines, options, and waiting on a condition with a deadline.

use crate::clock::RuntimeClock;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::{Job, NewJob, State};
use windlass_core::random::Seeded;
use windlass_memory::MemoryEngine;
use windlass_services::{ServiceOptions, Services, ServicesHandle};

/// How long anything may take: paused time makes it short, a busy machine makes it long.
const PATIENCE: Duration = Duration::from_secs(60);

/// An engine on the runtime's time.
pub(crate) fn memory() -> Arc<MemoryEngine> {
    memory_on(Arc::new(RuntimeClock::new()))
}

/// An engine on this clock.
pub(crate) fn memory_on(clock: Arc<RuntimeClock>) -> Arc<MemoryEngine> {
    Arc::new(MemoryEngine::with(clock, Arc::new(Seeded::new(7))))
}

/// Options with every service off.
pub(crate) fn nothing() -> ServiceOptions {
    let mut options = ServiceOptions::default();
    options.promote.enabled = false;
    options.reclaim.enabled = false;
    options.expire.enabled = false;
    options.retain.enabled = false;
    options.compact.enabled = false;
    options.trim.enabled = false;
    options.schedule.enabled = false;
    options.breaker.enabled = false;
    options.bulk.enabled = false;
    options.sample.enabled = false;
    options
}

/// Options with only some services on.
pub(crate) fn only(enable: impl FnOnce(&mut ServiceOptions)) -> ServiceOptions {
    let mut options = nothing();
    enable(&mut options);
    options
}

pub(crate) fn start(
    engine: &Arc<impl Engine + 'static>,
    options: ServiceOptions,
) -> ServicesHandle {
    Services::builder(engine.clone()).options(options).start().expect("good options")
}

/// Waits until `read` finds something.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut read: impl FnMut() -> F,
) -> T {
    let found = async {
        loop {
            if let Some(found) = read().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let late = |_| panic!("{what}: not within {PATIENCE:?}");
    tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(late)
}

pub(crate) async fn enqueue(engine: &dyn Engine, job: NewJob) -> JobId {
    let answer = engine.enqueue(Enqueue::each([job])).await.expect("the store answers");
    answer.value[0].as_ref().expect("a good job").id
}

pub(crate) async fn job(engine: &dyn Engine, id: JobId) -> Option<Job> {
    engine.get(Get::new([id])).await.expect("the store answers").value.remove(0)
}

pub(crate) async fn state(engine: &dyn Engine, id: JobId) -> Option<State> {
    job(engine, id).await.map(|job| job.state)
}

/// Waits until a job is in a state, or gone.
pub(crate) async fn reaches(engine: &dyn Engine, id: JobId, wanted: Option<State>) {
    let read = || async { (state(engine, id).await == wanted).then_some(()) };
    until(&format!("job {id} gets to {wanted:?}"), read).await;
}

/// All jobs, oldest first.
pub(crate) async fn jobs(engine: &dyn Engine) -> Vec<Job> {
    let list = List::new(Filter::default()).order(ListOrder::Oldest).limit(1_000);
    engine.list(list).await.expect("the store answers").value.rows
}

/// Claims and completes a job of the default queue.
pub(crate) async fn complete(engine: &dyn Engine, claim: &str) -> JobId {
    let claim_id = ClaimId::new(claim);
    let by = Claimant::Alone { claim_id, worker: "tester".into(), lease_ms: 10_000 };
    let claimed = engine.claim(Claim::new(by, "default", 1)).await.expect("claims").value.jobs;
    let claimed = claimed.first().expect("something to claim");
    let (id, lease) = (claimed.header.id, claimed.lease.clone());
    let settle = Settle::new([SettleItem::new(id, lease, Outcome::DONE)]);
    engine.settle(settle).await.expect("settles").value.items[0].as_ref().expect("settled");
    id
}
