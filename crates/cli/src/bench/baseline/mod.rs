//! Baselines: two minimal stores, driven through the same harness as an engine, that show what is achievable.
//!
//! Both keep the costly guarantees of an engine: enqueues and completions are on disk before they are
//! acknowledged; claims are written, but not waited for. They have no fencing, retries or keys: an engine's
//! ratio to them shows the cost of its features.

mod log;
mod slim;

pub(super) use log::Log;
pub(super) use slim::Slim;

use super::meter::Counts;
use super::subject::{Numbered, Subject, Worker, number_in, payload};
use anyhow::{Context as _, Result, anyhow};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use tokio::sync::oneshot;

/// Maximum number of operations in one commit.
const COMMIT_OPS_MAX: usize = 1_024;
/// Lease duration that is written with a claim.
const LEASE_MS: i64 = 30_000;

/// One operation of a commit.
enum Op {
    /// Store jobs with these payloads.
    Enqueue(Vec<Vec<u8>>),
    /// Complete jobs and claim more.
    Next {
        /// Ids of the completed jobs.
        done: Vec<u128>,
        /// Maximum number of jobs to claim.
        want: usize,
        /// The claimed jobs.
        taken: Vec<Taken>,
    },
}

impl Op {
    /// Whether it must be on disk before it is acknowledged.
    fn durable(&self) -> bool {
        match self {
            Self::Enqueue(_) => true,
            Self::Next { done, .. } => !done.is_empty(),
        }
    }
}

/// A claimed job.
struct Taken {
    id: u128,
    payload: Vec<u8>,
}

/// A store with one writer.
trait Store: Send + 'static {
    /// Executes all operations in one commit; synced if one of them must be durable.
    fn commit(&mut self, ops: &mut [Op], durable: bool) -> Result<()>;
}

/// Wall clock time in milliseconds, for the columns that store a time.
fn now_ms() -> i64 {
    use windlass_core::time::{Clock as _, SystemClock};
    SystemClock.now().as_millis()
}

struct Request {
    op: Op,
    reply: oneshot::Sender<Result<Op, String>>,
}

/// A store behind its writer thread, which commits all waiting operations together.
#[derive(Clone)]
pub(super) struct Baseline {
    requests: mpsc::Sender<Request>,
    syncs: Arc<AtomicU64>,
}

impl Baseline {
    /// Starts the writer thread. It ends when the last handle is dropped.
    #[expect(private_bounds, reason = "the only stores are the two of this module")]
    pub(super) fn start(store: impl Store) -> Self {
        let (requests, waiting) = mpsc::channel();
        let syncs = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&syncs);
        std::thread::spawn(move || write(store, &waiting, &counter));
        Self { requests, syncs }
    }

    async fn call(&self, op: Op) -> Result<Op> {
        let (reply, answer) = oneshot::channel();
        self.requests
            .send(Request { op, reply })
            .ok()
            .context("the baseline's writer has ended")?;
        let answer = answer.await.context("the baseline's writer panicked")?;
        answer.map_err(|error| anyhow!("the baseline failed: {error}"))
    }
}

fn write(mut store: impl Store, waiting: &mpsc::Receiver<Request>, syncs: &AtomicU64) {
    let (mut ops, mut replies) = (Vec::new(), Vec::new());
    while let Ok(first) = waiting.recv() {
        for request in std::iter::once(first).chain(waiting.try_iter()).take(COMMIT_OPS_MAX) {
            ops.push(request.op);
            replies.push(request.reply);
        }
        let durable = ops.iter().any(Op::durable);
        let outcome = store.commit(&mut ops, durable).map_err(|error| format!("{error:#}"));
        syncs.fetch_add(u64::from(durable), Ordering::Relaxed);
        for (op, reply) in ops.drain(..).zip(replies.drain(..)) {
            // An error means that the caller no longer waits for the result.
            let _ = reply.send(outcome.clone().map(|()| op));
        }
    }
}

impl Subject for Baseline {
    type Worker = BaselineWorker;

    async fn enqueue(&self, numbers: Range<u64>, _lanes: usize) -> Result<()> {
        self.call(Op::Enqueue(numbers.map(|number| payload(number).into_bytes()).collect()))
            .await?;
        Ok(())
    }

    async fn worker(&self) -> Result<BaselineWorker> {
        Ok(BaselineWorker(self.clone()))
    }

    async fn counts(&self) -> Counts {
        Counts { syncs: Some(self.syncs.load(Ordering::Relaxed)), server_stats: None }
    }
}

/// A worker of a baseline.
pub(super) struct BaselineWorker(Baseline);

/// A job claimed from a baseline.
pub(super) struct BaselineHeld {
    id: u128,
    number: u64,
}

impl Numbered for BaselineHeld {
    fn number(&self) -> u64 {
        self.number
    }
}

impl Worker for BaselineWorker {
    type Held = BaselineHeld;

    async fn next(&mut self, done: Vec<BaselineHeld>, want: u32) -> Result<Vec<BaselineHeld>> {
        let done = done.iter().map(|job| job.id).collect();
        let next = Op::Next { done, want: want as usize, taken: Vec::new() };
        let Op::Next { taken, .. } = self.0.call(next).await? else { return Ok(Vec::new()) };
        let held = |job: &Taken| Ok(BaselineHeld { id: job.id, number: number_in(&job.payload)? });
        taken.iter().map(held).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores three jobs, claims two, completes one, and returns the numbers of the claimed ones.
    pub(super) fn exercise(store: &mut impl Store) -> Vec<u64> {
        let payloads = (0..3).map(|number| payload(number).into_bytes()).collect();
        store.commit(&mut [Op::Enqueue(payloads)], true).unwrap();
        let next = |done, want| Op::Next { done, want, taken: Vec::new() };
        let mut ops = [next(vec![], 1), next(vec![], 1)];
        store.commit(&mut ops, false).unwrap();
        let taken: Vec<&Taken> = ops.iter().flat_map(taken_by).collect();
        let numbers = taken.iter().map(|job| number_in(&job.payload).unwrap()).collect();
        store.commit(&mut [next(vec![taken[0].id], 0)], true).unwrap();
        assert!(store.commit(&mut [next(vec![u128::from(u64::MAX)], 0)], true).is_err());
        numbers
    }

    fn taken_by(op: &Op) -> &[Taken] {
        match op {
            Op::Next { taken, .. } => taken,
            Op::Enqueue(_) => &[],
        }
    }

    #[tokio::test]
    async fn jobs_go_through_a_baseline_once_and_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let baseline = Baseline::start(Log::create(dir.path()).unwrap());
        baseline.enqueue(0..5, 1).await.unwrap();
        let mut worker = baseline.worker().await.unwrap();
        let first = worker.next(vec![], 3).await.unwrap();
        assert_eq!(first.iter().map(Numbered::number).collect::<Vec<_>>(), [0, 1, 2]);
        let rest = worker.next(first, 3).await.unwrap();
        assert_eq!(rest.iter().map(Numbered::number).collect::<Vec<_>>(), [3, 4]);
        assert!(worker.next(rest, 1).await.unwrap().is_empty());
        assert_eq!(baseline.counts().await.syncs, Some(3));
    }
}
