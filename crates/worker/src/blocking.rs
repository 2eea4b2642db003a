//! A bounded thread pool for blocking handlers, owned by the worker. Process exit does not wait for it. The
//! pool only runs closures and is independent of jobs.
//!
//! A thread cannot be stopped from outside. When its caller is gone (timeout, lost lease, shutdown), the
//! thread counts as leaked until the handler returns; only then is its slot free again.

use crate::ctx::Ctx;
use crate::panics;
use crate::stop::{Ended, Stop};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use windlass_core::model::JobError;
use windlass_core::sync::lock;

/// A thread that has been idle for this long exits.
const IDLE_MAX: Duration = Duration::from_secs(10);

type Work = Box<dyn FnOnce() + Send>;

/// The thread pool. Callers must not submit more work than there are threads.
pub(crate) struct Pool {
    inner: Arc<Inner>,
}

struct Inner {
    threads_max: u32,
    queue: Mutex<Queue>,
    /// Notified when there is work, or when the pool shuts down.
    work: Condvar,
    leaked: AtomicU32,
    leaked_ever: AtomicU64,
    /// Notified when a leaked thread has finished its handler.
    returned: Arc<Notify>,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    threads: u32,
    idle: usize,
    closed: bool,
}

impl Pool {
    pub(crate) fn new(threads_max: u32, returned: Arc<Notify>) -> Self {
        let inner = Inner {
            threads_max,
            queue: Mutex::default(),
            work: Condvar::new(),
            leaked: AtomicU32::new(0),
            leaked_ever: AtomicU64::new(0),
            returned,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Threads whose caller no longer waits for them.
    pub(crate) fn leaked(&self) -> u32 {
        self.inner.leaked.load(Ordering::Relaxed)
    }

    /// Total number of threads leaked since the start.
    pub(crate) fn leaked_ever(&self) -> u64 {
        self.inner.leaked_ever.load(Ordering::Relaxed)
    }

    fn submit<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Call<T> {
        let (reply, answer) = oneshot::channel();
        let fate = Arc::new(AtomicU8::new(QUEUED));
        let call = Call { answer, fate: fate.clone(), pool: self.inner.clone() };
        let pool = self.inner.clone();
        let work = move || {
            let start = fate.compare_exchange(QUEUED, WORKING, Ordering::AcqRel, Ordering::Relaxed);
            if start.is_err() {
                return; // Its caller is gone.
            }
            let value = work();
            if fate.swap(DONE, Ordering::AcqRel) == LEFT {
                pool.leaked.fetch_sub(1, Ordering::Relaxed);
                pool.returned.notify_one();
            }
            // The caller may have gone away at this moment; the value is then dropped.
            let _ = reply.send(value);
        };
        self.inner.hand_over(Box::new(work));
        call
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.inner.lock().closed = true;
        self.inner.work.notify_all();
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    fn hand_over(self: &Arc<Self>, work: Work) {
        let mut queue = self.lock();
        queue.work.push_back(work);
        if queue.idle >= queue.work.len() {
            self.work.notify_one();
        } else if queue.threads < self.threads_max {
            let inner = self.clone();
            let name = "windlass-blocking".to_owned();
            let spawned = std::thread::Builder::new().name(name).spawn(move || inner.serve());
            match spawned {
                Ok(_) => queue.threads += 1,
                Err(error) => {
                    tracing::error!(%error, threads = queue.threads, "cannot start a thread for a blocking handler");
                    // Another thread will take the work; if there is none, dropping the sender reports the
                    // failure to the caller.
                    if queue.threads == 0 {
                        queue.work.clear();
                    }
                }
            }
        }
    }

    fn serve(&self) {
        let mut queue = self.lock();
        loop {
            if let Some(work) = queue.work.pop_front() {
                drop(queue);
                work();
                queue = self.lock();
                continue;
            }
            if queue.closed {
                break;
            }
            queue.idle += 1;
            let (back, wait) =
                self.work.wait_timeout(queue, IDLE_MAX).unwrap_or_else(PoisonError::into_inner);
            queue = back;
            queue.idle -= 1;
            if wait.timed_out() && queue.work.is_empty() {
                break;
            }
        }
        queue.threads -= 1;
    }
}

const QUEUED: u8 = 0;
const WORKING: u8 = 1;
const DONE: u8 = 2;
const LEFT: u8 = 3;

/// The caller that waits for a closure. Dropping it leaks the thread until the closure returns.
struct Call<T> {
    answer: oneshot::Receiver<T>,
    fate: Arc<AtomicU8>,
    pool: Arc<Inner>,
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        let step = |from| match from {
            QUEUED | WORKING => Some(LEFT),
            _ => None,
        };
        let left = self.fate.fetch_update(Ordering::AcqRel, Ordering::Acquire, step);
        if left == Ok(WORKING) {
            self.pool.leaked.fetch_add(1, Ordering::Relaxed);
            self.pool.leaked_ever.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Runs a blocking handler on the worker's pool.
pub(crate) async fn run(ctx: Ctx, handler: impl FnOnce(&Ctx) -> Ended + Send + 'static) -> Ended {
    let runtime = tokio::runtime::Handle::current();
    let on_thread = ctx.clone();
    let mut call = ctx.shared().pool.submit(move || -> Result<Ended, JobError> {
        let _runtime = runtime.enter();
        let _span = on_thread.span().enter();
        panics::catch(|| handler(&on_thread))
    });
    match (&mut call.answer).await {
        Ok(Ok(ended)) => ended,
        Ok(Err(panic)) => Err(Stop::failed(panic)),
        Err(_) => Err(Stop::retry("the worker could not get a thread for a blocking handler")),
    }
}
