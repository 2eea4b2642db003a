//! Runs due jobs through the handlers of a worker, one job at a time, until nothing is ready.

use super::{TestQueue, at_once};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use windlass_core::JobId;
use windlass_core::engine::{Admin as _, Get};
use windlass_core::model::{Attempt, AttemptEnd, Name, State};
use windlass_core::sync::lock;
use windlass_memory::MemoryEngine;
use windlass_worker::{Builder, Ctx, Next};

/// Maximum number of attempts of one drain. More mean that handlers enqueue each other's jobs forever.
pub const DRAIN_ATTEMPTS_MAX: usize = 10_000;

impl TestQueue {
    /// Runs everything that is due now through the handlers of this worker, one job at a time in the order of
    /// the queue, until nothing is ready. This includes jobs that handlers enqueue or create as follow-ups.
    /// The clock does not move meanwhile, so a retry waits until time is [advanced](TestQueue::advance). The
    /// worker behaves as in production, from payload to outcome, except that it runs one job at a time, hosts
    /// no services and ends.
    ///
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use windlass::testing::TestQueue;
    /// use windlass::worker::Builder;
    /// use windlass::{Client, Ctx, Job, Stop};
    /// # use std::time::Duration;
    ///
    /// #[derive(Job, Serialize, Deserialize)]
    /// #[job(backoff = "fixed(1m)")]
    /// struct Call {
    ///     number: String,
    /// }
    ///
    /// async fn call(_: Call, ctx: Ctx) -> Result<(), Stop> {
    ///     if ctx.attempt() == 1 { Err(Stop::retry("engaged")) } else { Ok(()) }
    /// }
    ///
    /// /// The application's worker, in production and in tests.
    /// fn worker(client: &Client) -> Builder {
    ///     client.worker().handle(call)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// let queue = TestQueue::new();
    /// let client = queue.client();
    /// client.enqueue(Call { number: "555".into() }).await?;
    ///
    /// let drained = queue.drain(worker(&client)).await;
    /// assert_eq!(drained.failures().next().unwrap().error(), "error: engaged");
    ///
    /// queue.advance(Duration::from_secs(90));
    /// queue.drain(worker(&client)).await.assert_all_completed();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If the worker cannot be built, and after [`DRAIN_ATTEMPTS_MAX`] attempts. A handler that never ends is
    /// stopped by its timeout, as in production.
    pub async fn drain(&self, worker: Builder) -> Drained {
        self.advance(Duration::ZERO);
        let log = Arc::new(Log::new(self.engine.clone()));
        let begin = log.clone();
        let built = worker
            .services(false)
            .one_at_a_time()
            .outermost(move |ctx: Ctx, next: Next| {
                begin.begin(&ctx);
                next.run(ctx)
            })
            .build();
        let worker = built.unwrap_or_else(|error| panic!("cannot drain: {error}"));
        let handle = worker.start_until_idle();
        tokio::select! {
            _ = handle.stopped() => {}
            () = log.overrun.notified() => {
                handle.abort().await;
                panic!(
                    "jobs are still ready after {DRAIN_ATTEMPTS_MAX} attempts: handlers that release, \
                     or enqueue each other's jobs, never end"
                );
            }
        }
        let left = self.jobs().iter().filter(|job| job.state == State::Available).count();
        Drained { attempts: log.take(), left }
    }
}

/// The result of a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// All attempts, in order.
    pub attempts: Vec<Attempted>,
    /// Jobs still ready: of kinds without a handler, on queues that the worker does not serve, or paused.
    pub left: usize,
}

/// One attempt at a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempted {
    /// The job.
    pub id: JobId,
    /// Its kind.
    pub kind: Name,
    /// The entry of the attempt in the job's history.
    pub attempt: Attempt,
}

impl Attempted {
    /// How the attempt ended.
    pub const fn end(&self) -> AttemptEnd {
        self.attempt.end
    }

    /// Code and message of its error; empty if it did not fail.
    pub fn error(&self) -> String {
        self.attempt.error.as_ref().map(ToString::to_string).unwrap_or_default()
    }
}

impl Drained {
    /// Number of attempts that completed their job.
    pub fn completed(&self) -> usize {
        self.ended(AttemptEnd::Complete)
    }

    /// Number of attempts that ended this way.
    pub fn ended(&self, end: AttemptEnd) -> usize {
        self.attempts.iter().filter(|attempted| attempted.end() == end).count()
    }

    /// The failed attempts, whether the job is retried or dead.
    pub fn failures(&self) -> impl Iterator<Item = &Attempted> {
        let failed = |end| matches!(end, AttemptEnd::Retry | AttemptEnd::Fail);
        self.attempts.iter().filter(move |attempted| failed(attempted.end()))
    }

    /// Asserts that every attempt completed its job and that no job is left ready.
    #[track_caller]
    pub fn assert_all_completed(&self) {
        let mut wrong = String::new();
        for other in self.attempts.iter().filter(|each| each.end() != AttemptEnd::Complete) {
            let Attempted { id, kind, attempt } = other;
            let (number, end, error) = (attempt.number, attempt.end, other.error());
            // Writing to a String cannot fail.
            let _ = write!(wrong, "\n  {kind} job {id}, attempt {number}: {end:?} {error}");
        }
        if self.left > 0 {
            let left = self.left;
            let _ = write!(wrong, "\n  {left} jobs are ready, but this worker does not take them");
        }
        assert!(wrong.is_empty(), "not everything completed:{wrong}");
    }
}

/// The attempts of a drain, collected while it runs.
struct Log {
    engine: MemoryEngine,
    lines: Mutex<Lines>,
    overrun: Notify,
}

#[derive(Default)]
struct Lines {
    begun: usize,
    /// Attempts that the store has not recorded yet, as far as is known here: usually only the current one.
    open: Vec<(JobId, u32)>,
    done: Vec<Attempted>,
}

impl Log {
    fn new(engine: MemoryEngine) -> Self {
        Self { engine, lines: Mutex::default(), overrun: Notify::new() }
    }

    fn begin(&self, ctx: &Ctx) {
        self.with(|lines| {
            // Read after every attempt: a job keeps only its latest attempts.
            lines.close(&self.engine);
            lines.open.push((ctx.id(), ctx.attempt()));
            lines.begun += 1;
            if lines.begun > DRAIN_ATTEMPTS_MAX {
                self.overrun.notify_one();
            }
        });
    }

    fn take(&self) -> Vec<Attempted> {
        self.with(|lines| {
            lines.close(&self.engine);
            std::mem::take(&mut lines.done)
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Lines) -> T) -> T {
        work(&mut lock(&self.lines))
    }
}

impl Lines {
    /// Moves attempts that the store has recorded from `open` to the finished ones.
    fn close(&mut self, engine: &MemoryEngine) {
        self.open.retain(|(id, number)| {
            let found = at_once(engine.get(Get::new([*id])));
            let Some(job) = found.into_iter().flatten().next() else { return false };
            let Some(attempt) = job.history.iter().find(|each| each.number == *number) else {
                return true;
            };
            let (kind, attempt) = (job.header.kind.clone(), attempt.clone());
            self.done.push(Attempted { id: *id, kind, attempt });
            false
        });
    }
}
