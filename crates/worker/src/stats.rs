//! Statistics of a worker: counters, health, and the metrics they are published as.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::engine::Outcome;
use windlass_core::sync::lock;

/// How a handler's attempt ended, as counters and metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Completed,
    Retried,
    Failed,
    Snoozed,
    Released,
    Waiting,
    Cancelled,
    Lost,
}

impl End {
    pub(crate) const ALL: [Self; 8] = [
        Self::Completed,
        Self::Retried,
        Self::Failed,
        Self::Snoozed,
        Self::Released,
        Self::Waiting,
        Self::Cancelled,
        Self::Lost,
    ];

    pub(crate) const fn of(outcome: Option<&Outcome>) -> Self {
        match outcome {
            None => Self::Lost,
            Some(Outcome::Complete { .. }) => Self::Completed,
            Some(Outcome::Retry { .. }) => Self::Retried,
            Some(Outcome::Fail { .. }) => Self::Failed,
            Some(Outcome::Snooze { .. }) => Self::Snoozed,
            Some(Outcome::Wait(_) | Outcome::WaitForJobs) => Self::Waiting,
            Some(Outcome::Cancel) => Self::Cancelled,
            // An outcome unknown to this version counts as a release.
            Some(_) => Self::Released,
        }
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Retried => "retried",
            Self::Failed => "failed",
            Self::Snoozed => "snoozed",
            Self::Released => "released",
            Self::Waiting => "waiting",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
        }
    }
}

/// Counters since the worker started. Outcomes count when the store has acknowledged them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Jobs claimed.
    pub claimed: u64,
    /// Attempts that completed their job.
    pub completed: u64,
    /// Attempts that failed and whose job will be retried, or is dead because no attempts are left.
    pub retried: u64,
    /// Attempts that failed fatally.
    pub failed: u64,
    /// Attempts that were snoozed.
    pub snoozed: u64,
    /// Jobs released unfinished.
    pub released: u64,
    /// Attempts that ended with their job waiting for a signal.
    pub waiting: u64,
    /// Attempts that ended with their job cancelled.
    pub cancelled: u64,
    /// Leases lost before the job was settled.
    pub leases_lost: u64,
    /// Sessions lost because the store considered this worker dead.
    pub sessions_lost: u64,
    /// Outcomes that the store refused permanently; reported as failures instead.
    pub refused: u64,
    /// Calls that the store did not answer and that were repeated.
    pub store_errors: u64,
    /// Threads leaked by blocking handlers since the start.
    pub threads_leaked: u64,
}

/// Health of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether the store has answered recently. Use this for liveness probes.
    pub healthy: bool,
    /// Whether the worker claims jobs: it is started, not draining, and the store answers.
    pub consuming: bool,
    /// Age of the latest heartbeat that the store answered, since it was sent; `None` before the first.
    pub heartbeat_age: Option<Duration>,
    /// Running handlers.
    pub in_flight: u64,
    /// Results that wait for the store.
    pub buffered: u64,
    /// Threads whose blocking handler ignored its stop signal.
    pub leaked_threads: u64,
}

/// Counters written only by the runtime and read by handles.
#[derive(Debug)]
pub(crate) struct Counts {
    ends: [AtomicU64; End::ALL.len()],
    pub(crate) claimed: AtomicU64,
    pub(crate) sessions_lost: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) store_errors: AtomicU64,
    pub(crate) in_flight: AtomicU64,
    pub(crate) buffered: AtomicU64,
    pub(crate) consuming: AtomicBool,
    times: Mutex<Times>,
}

#[derive(Clone, Copy, Debug)]
struct Times {
    answered: Instant,
    heartbeat: Option<Instant>,
}

impl Counts {
    pub(crate) fn new() -> Self {
        Self {
            ends: Default::default(),
            claimed: AtomicU64::new(0),
            sessions_lost: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            store_errors: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            buffered: AtomicU64::new(0),
            consuming: AtomicBool::new(false),
            times: Mutex::new(Times { answered: Instant::now(), heartbeat: None }),
        }
    }

    pub(crate) fn end(&self, end: End) {
        self.ends[end as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self, end: End) -> u64 {
        self.ends[end as usize].load(Ordering::Relaxed)
    }

    /// Records that the store answered a call.
    pub(crate) fn answered(&self) {
        self.with_times(|times| times.answered = Instant::now());
    }

    /// Records that the store answered a heartbeat, by the time it was sent.
    pub(crate) fn heartbeat(&self, sent: Instant) {
        self.with_times(|times| times.heartbeat = Some(sent));
    }

    fn with_times<T>(&self, work: impl FnOnce(&mut Times) -> T) -> T {
        work(&mut lock(&self.times))
    }

    pub(crate) fn stats(&self, threads_leaked: u64) -> Stats {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Stats {
            claimed: load(&self.claimed),
            completed: self.ended(End::Completed),
            retried: self.ended(End::Retried),
            failed: self.ended(End::Failed),
            snoozed: self.ended(End::Snoozed),
            released: self.ended(End::Released),
            waiting: self.ended(End::Waiting),
            cancelled: self.ended(End::Cancelled),
            leases_lost: self.ended(End::Lost),
            sessions_lost: load(&self.sessions_lost),
            refused: load(&self.refused),
            store_errors: load(&self.store_errors),
            threads_leaked,
        }
    }

    pub(crate) fn health(&self, unhealthy_after: Duration, leaked_threads: u64) -> Health {
        let times = self.with_times(|times| *times);
        Health {
            healthy: times.answered.elapsed() < unhealthy_after,
            consuming: self.consuming.load(Ordering::Relaxed),
            heartbeat_age: times.heartbeat.map(|sent| sent.elapsed()),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            buffered: self.buffered.load(Ordering::Relaxed),
            leaked_threads,
        }
    }
}
