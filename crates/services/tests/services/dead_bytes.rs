//! Dead letters within the bytes of their queue, on any engine.

use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::JobId;
use windlass_core::engine::{
    Claim, ClaimId, Claimant, Configure, Engine, Enqueue, Get, Outcome, RemovedQuery, Settle,
    SettleItem,
};
use windlass_core::model::{NewJob, QueuePatch, State};
use windlass_services::{ServiceOptions, Services};

/// Bytes of one dead letter.
pub(crate) const BYTES: usize = 1_000;

/// Makes dead letters, oldest first.
pub(crate) async fn die(engine: &dyn Engine, queue: &str, count: u32) -> Vec<JobId> {
    let mut ids = Vec::new();
    for number in 0..count {
        let job = NewJob::new("k").queue(queue).payload(vec![b' '; BYTES]);
        let answer = engine.enqueue(Enqueue::each([job])).await.expect("stored").value.remove(0);
        ids.push(answer.expect("stored").id);
        let claim_id = ClaimId::new(format!("{queue}-{number}"));
        let by = Claimant::Alone { claim_id, worker: "w".into(), lease_ms: 60_000 };
        let job =
            engine.claim(Claim::new(by, queue, 1)).await.expect("claimed").value.jobs.remove(0);
        let item = SettleItem::new(job.header.id, job.lease, Outcome::fail("no", "good"));
        let settled = engine.settle(Settle::new([item])).await.expect("settled").value;
        settled.items[0].as_ref().expect("dead");
    }
    ids
}

async fn left(engine: &dyn Engine, ids: &[JobId]) -> Vec<bool> {
    let jobs = engine.get(Get::new(ids.iter().copied())).await.expect("jobs").value;
    jobs.iter().map(|job| job.as_ref().is_some_and(|job| job.state == State::Dead)).collect()
}

/// The oldest jobs are deleted, jobs of other queues stay, and the history records it.
pub(crate) async fn play(engine: Arc<dyn Engine>) {
    let (full, free) = (die(&*engine, "full", 5).await, die(&*engine, "free", 3).await);
    let patch = QueuePatch::dead_bytes_max(Some(2 * BYTES as u64 + 10));
    let set = engine.configure(vec![Configure::queue("full", patch)]).await.expect("set").value;
    set.into_iter().collect::<Result<Vec<()>, _>>().expect("set");
    let mut options = ServiceOptions::default();
    options.trim.interval = Duration::from_millis(50);
    let services = Services::builder(engine.clone()).options(options).start().expect("services");
    let deadline = Instant::now() + Duration::from_secs(30);
    while left(&*engine, &full).await != [false, false, false, true, true] {
        assert!(Instant::now() < deadline, "left: {:?}", left(&*engine, &full).await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let rows = engine.removed(RemovedQuery::default()).await.expect("removed").value.rows;
    let counts: Vec<_> =
        rows.iter().map(|row| (&*row.key.queue, row.key.outcome, row.count)).collect();
    assert_eq!(counts, [("full", State::Dead, 3)]);
    services.stop().await;
    assert_eq!(left(&*engine, &free).await, [true; 3]);
    assert_eq!(left(&*engine, &full).await, [false, false, false, true, true], "and no more went");
}
