//! The cost of a job from enqueue to completion and removal, by the number of waiting jobs: it must not
//! depend on that.
//!
//! `cargo bench -p windlass-memory`

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Arc;
use tokio::runtime::Runtime;
use windlass_core::engine::{
    Admin, Claim, Claimant, Configure, Enqueue, Jobs, Maintain, MaintainRequest, OpenSession,
    Outcome, SessionId, Settle, SettleItem, Work,
};
use windlass_core::model::{NewJob, QueuePatch};
use windlass_core::policy::Retention;
use windlass_core::random::SystemRandom;
use windlass_core::time::SystemClock;
use windlass_memory::MemoryEngine;

/// Jobs per call.
const BATCH: u32 = 100;

fn job() -> NewJob {
    NewJob::new("noop").queue("bench").json(r#"{"to":"ada@example.org","n":12345}"#)
}

/// An engine with `waiting` jobs in the lane the benchmark works on.
fn filled(runtime: &Runtime, waiting: usize) -> (MemoryEngine, SessionId) {
    let engine = MemoryEngine::with(Arc::new(SystemClock), Arc::new(SystemRandom));
    runtime.block_on(async {
        for _ in 0..waiting / 1_000 {
            engine.enqueue(Enqueue::each((0..1_000).map(|_| job()))).await.expect("enqueue");
        }
        let nothing_kept = QueuePatch::retention(Retention::uniform_ms(0));
        engine.configure(vec![Configure::queue("bench", nothing_kept)]).await.expect("configure");
        let session = engine.open_session(OpenSession::new("bench")).await.expect("session");
        (engine.clone(), session.value.id)
    })
}

/// Enqueues a batch, claims as many from the head of the line, completes and removes them.
async fn pass(engine: &MemoryEngine, session: &SessionId, claim_no: u64, jobs: Vec<NewJob>) {
    engine.enqueue(Enqueue::each(jobs)).await.expect("enqueue");
    let by = Claimant::Session { session: session.clone(), claim_no };
    let claimed = engine.claim(Claim::new(by, "bench", BATCH)).await.expect("claim").value.jobs;
    let done =
        claimed.iter().map(|job| SettleItem::new(job.header.id, job.lease.clone(), Outcome::DONE));
    black_box(engine.settle(Settle::new(done)).await.expect("settle"));
    let retain = MaintainRequest::new(Work::Retain, BATCH);
    black_box(engine.maintain(retain).await.expect("retain"));
}

fn depth(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
    let mut group = criterion.benchmark_group("whole_life");
    group.throughput(Throughput::Elements(BATCH.into())).sample_size(30);
    for waiting in [1_000, 10_000, 100_000, 1_000_000] {
        let (engine, session) = filled(&runtime, waiting);
        let mut claim_no = 0;
        group.bench_function(format!("{waiting}_waiting"), |bencher| {
            bencher.iter_batched(
                || (0..BATCH).map(|_| job()).collect::<Vec<_>>(),
                |jobs| {
                    claim_no += 1;
                    runtime.block_on(pass(&engine, &session, claim_no, jobs));
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, depth);
criterion_main!(benches);
