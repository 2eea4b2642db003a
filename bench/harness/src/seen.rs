//! Records the start of each job's handler, and the latency since its enqueue call.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::Semaphore;

/// Size of the ring of enqueue times: far larger than the number of jobs in flight.
const PLACES: usize = 1 << 16;
/// Jobs with numbers from here on are not counted: the job that shows that a worker is running.
pub(crate) const UNCOUNTED: u64 = u64::MAX >> 12;

/// Shared by the callers that enqueue and the handlers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Seen {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    began: Instant,
    /// Time of the enqueue call in microseconds since `began`, by job number.
    called: Box<[AtomicU64]>,
    /// Number of started jobs.
    started: AtomicU64,
    /// Number of started jobs that are not counted.
    uncounted: AtomicU64,
    latencies_ms: Option<Mutex<Vec<f64>>>,
    /// Permits for more jobs in flight.
    room: Semaphore,
}

impl Seen {
    /// `timed`: records the latency of each job. `room`: maximum number of jobs in flight.
    pub(crate) fn new(timed: bool, room: usize) -> Self {
        let called = std::iter::repeat_with(|| AtomicU64::new(0)).take(PLACES).collect();
        Self {
            inner: Arc::new(Inner {
                began: now(),
                called,
                started: AtomicU64::new(0),
                uncounted: AtomicU64::new(0),
                latencies_ms: timed.then(Mutex::default),
                room: Semaphore::new(room),
            }),
        }
    }

    /// Records that the handler of job `n` starts.
    pub fn start(&self, n: u64) {
        if n >= UNCOUNTED {
            self.inner.uncounted.fetch_add(1, Ordering::SeqCst);
            return;
        }
        if let Some(latencies_ms) = &self.inner.latencies_ms {
            let waited = self.micros().saturating_sub(self.place(n).load(Ordering::Relaxed));
            let mut latencies_ms = latencies_ms.lock().unwrap_or_else(PoisonError::into_inner);
            latencies_ms.push(waited as f64 / 1e3);
            self.inner.room.add_permits(1);
        }
        self.inner.started.fetch_add(1, Ordering::SeqCst);
    }

    /// Records that enqueue is about to be called for job `n`.
    pub(crate) fn call(&self, n: u64) {
        self.place(n).store(self.micros(), Ordering::Relaxed);
    }

    pub(crate) fn started(&self) -> u64 {
        self.inner.started.load(Ordering::SeqCst)
    }

    pub(crate) fn is_awake(&self) -> bool {
        self.inner.uncounted.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn room(&self) -> &Semaphore {
        &self.inner.room
    }

    pub(crate) fn latencies_ms(&self) -> Vec<f64> {
        let kept = self.inner.latencies_ms.as_ref();
        kept.map(|it| it.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }

    fn micros(&self) -> u64 {
        self.inner.began.elapsed().as_micros() as u64
    }

    fn place(&self, n: u64) -> &AtomicU64 {
        &self.inner.called[n as usize % PLACES]
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures wall time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
