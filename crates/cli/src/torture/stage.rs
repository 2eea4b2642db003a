//! Shared context of the clients of a process: the store, the journal, the orders, and how to classify results.
//! Knows nothing of how the process was started.

use super::client::{Counts, Message, Order, Spec, send};
use super::journal::Lines;
use super::{CALL_MAX, happens};
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use windlass_core::engine::{Engine, LaneStats, Stamped, StatsRequest};
use windlass_core::model::Part;
use windlass_core::random::{Random as _, Seeded};
use windlass_core::{Error, JobId, Result};
use windlass_kit::history::Recorded;

/// Maximum number of contract violations reported per process.
const BAD_MAX: u32 = 20;

/// Size of a result in bytes: as large as PostgreSQL stores inline in the row.
pub(super) const RESULT_BYTES: usize = 1_600;

/// Shared context of the clients of a process.
pub(super) struct Stage {
    pub(super) spec: Spec,
    pub(super) engine: Arc<dyn Engine>,
    journal: Arc<Lines>,
    clients: AtomicU32,
    pub(super) acknowledged: AtomicU64,
    pub(super) ended: AtomicU64,
    pub(super) bad: AtomicU32,
    orders: watch::Receiver<Order>,
}

impl Stage {
    pub(super) fn new(
        spec: Spec,
        engine: Arc<dyn Engine>,
        journal: Lines,
        orders: watch::Receiver<Order>,
    ) -> Self {
        Self {
            clients: AtomicU32::new(spec.client),
            acknowledged: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            bad: AtomicU32::new(0),
            journal: Arc::new(journal),
            engine,
            orders,
            spec,
        }
    }

    /// The result of a completed job. Where ended jobs are removed, large results fill the partitions of a store,
    /// which are removed as a whole only if that is worth it.
    pub(super) fn result(&self) -> Option<Part> {
        let text = || format!("\"{}\"", "r".repeat(RESULT_BYTES));
        self.spec.retention_ms.map(|_| Part::new(text()))
    }

    /// Sends the current counts to the parent.
    pub(super) fn report_counts(&self, left: Option<u64>) {
        let acknowledged = self.acknowledged.load(Ordering::Relaxed);
        send(&Message::Counts(Counts {
            acknowledged,
            ended: self.ended.load(Ordering::Relaxed),
            left,
        }));
    }

    /// A new client, whose calls are recorded.
    pub(super) fn client(&self) -> Recorded {
        let number = self.clients.fetch_add(1, Ordering::Relaxed);
        Recorded::new(self.engine.clone(), self.journal.clone(), number)
    }

    /// The random generator of the client with this number, different in each incarnation of the process.
    pub(super) fn random(&self, number: u64) -> Seeded {
        let life = u64::from(self.spec.client);
        Seeded::new(self.spec.seed.wrapping_mul(1_000_003).wrapping_add(life * 100 + number))
    }

    pub(super) fn order(&self) -> Order {
        *self.orders.borrow()
    }

    /// Waits for this order or a later one.
    pub(super) async fn ordered(&self, order: Order) {
        // If the sender is gone, the process is about to end.
        let _ = self.orders.clone().wait_for(|reported| *reported >= order).await;
    }

    /// Sleeps, but wakes up at this order.
    pub(super) async fn rest(&self, ms: u64, unless: Order) {
        let _ = tokio::time::timeout(Duration::from_millis(ms), self.ordered(unless)).await;
    }

    /// Reports a result that the contract does not allow.
    pub(super) fn bad(&self, what: &str, why: impl Display) {
        if self.bad.fetch_add(1, Ordering::Relaxed) < BAD_MAX {
            send(&Message::Bad(format!("{what}: {why}")));
        }
    }

    /// The result of a call; `None` if it is unanswered or fails with one of these codes.
    pub(super) async fn ask<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<Stamped<T>>>,
        codes: &[&str],
    ) -> Option<T> {
        let answer = tokio::time::timeout(CALL_MAX, call).await.ok()?;
        self.expected(what, answer.map(|answer| answer.value), codes)
    }

    /// The value of a result; `None` if the store is unavailable or the error has one of these codes. Reports
    /// any other error.
    pub(super) fn expected<T>(&self, what: &str, answer: Result<T>, codes: &[&str]) -> Option<T> {
        match answer {
            Ok(value) => Some(value),
            // The store is down, a stalled process holds a lock, or the disk is full.
            Err(Error::Unavailable { .. } | Error::Busy { .. } | Error::StoreFull { .. }) => None,
            Err(error) if codes.contains(&error.code()) => None,
            Err(error) => {
                self.bad(what, error);
                None
            }
        }
    }
}

/// Whether the bytes are those that [`payload`] makes for this job.
pub(super) fn is_payload_of(id: JobId, bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && bytes.len().is_multiple_of(16)
        && bytes.chunks(16).all(|chunk| chunk == id.as_bytes())
}

/// A payload that repeats the job's own id, mostly 1 to 8 times, sometimes 200 times, so that a reader can
/// verify which job it belongs to.
pub(super) fn payload(id: JobId, random: &Seeded) -> Vec<u8> {
    let times = if happens(random, 30) { 200 } else { 1 + random.below(8) };
    id.as_bytes().repeat(times as usize)
}

/// The number of unfinished jobs in a queue.
pub(super) async fn left(engine: &dyn Engine, queue: &str) -> Result<u64> {
    let lanes = engine.stats(StatsRequest::queue(queue)).await?.value;
    Ok(lanes.iter().map(|lane: &LaneStats| lane.depth() + lane.running).sum())
}
