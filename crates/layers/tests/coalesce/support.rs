//! Callers, and waiting for conditions with a deadline.

use crate::probe::Probe;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::task::JoinHandle;
use windlass_core::engine::{Admin as _, Answer, Enqueue, Enqueued, Jobs as _, List};
use windlass_core::model::NewJob;
use windlass_core::{Error, Result};
use windlass_layers::Coalesce;
use windlass_layers::coalesce::Options;

/// The longest any condition may take to come true.
const DEADLINE: Duration = Duration::from_secs(20);

/// One call on its way at a time, so that a test knows who gathers behind it.
pub(crate) fn one_at_a_time() -> Options {
    Options::default().in_flight_max(1)
}

/// The layer over a probe, one call on its way at a time.
pub(crate) fn layered(probe: &Arc<Probe>) -> Arc<Coalesce> {
    Arc::new(Coalesce::with(probe.clone(), one_at_a_time()).unwrap())
}

/// Waits until `condition` holds.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let held = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(tokio::time::timeout(DEADLINE, held).await.is_ok(), "never came true: {what}");
}

/// Enqueues one job.
pub(crate) async fn enqueue(engine: &Coalesce, job: NewJob) -> Result<Enqueued> {
    engine.enqueue(Enqueue::each([job])).await?.value.remove(0)
}

/// A task that enqueues one job.
pub(crate) fn caller(engine: &Arc<Coalesce>, job: NewJob) -> JoinHandle<Result<Enqueued>> {
    let engine = engine.clone();
    tokio::spawn(async move { enqueue(&engine, job).await })
}

/// A job with a number of its own in its tags.
pub(crate) fn numbered(number: usize) -> NewJob {
    NewJob::new("noop").tag(number.to_string()).json("{}")
}

/// Starts a call that stays at the shut gate of the probe, so that whatever follows gathers.
pub(crate) async fn occupy(
    engine: &Arc<Coalesce>,
    probe: &Probe,
) -> JoinHandle<Result<Enqueued, Error>> {
    let first = caller(engine, NewJob::new("first"));
    until("the first call is at the gate", || probe.calls("enqueue").len() == 1).await;
    first
}

/// Runs the tasks that are ready, so that spawned callers have got in line. Only for a runtime of one
/// thread, where a turn goes round.
pub(crate) async fn let_callers_line_up() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

/// Polls a call once and says whether it has to wait.
pub(crate) async fn is_pending<T>(call: &mut Answer<'_, T>) -> bool {
    poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending())).await
}

/// Every tag in the store, sorted.
pub(crate) async fn stored_tags(engine: &Coalesce) -> Vec<String> {
    let page = engine.list(List::new(Default::default()).limit(1_000)).await.unwrap().value;
    assert_eq!(page.next, None, "one page holds what these tests store");
    let mut tags: Vec<String> = page.rows.into_iter().flat_map(|job| job.header.tags).collect();
    tags.sort();
    tags
}
