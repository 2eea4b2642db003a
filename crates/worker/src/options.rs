//! Options of a worker: defaults and bounds.

use crate::floors::Share;
use std::time::Duration;
use windlass_core::limits;
use windlass_core::model::PartSet;

/// Default number of jobs that a worker runs at a time.
pub const CONCURRENCY_DEFAULT: u32 = 100;
/// Maximum number of jobs that a worker may run at a time. As many results again may wait for the store, and
/// a heartbeat declares the leases of both.
pub const CONCURRENCY_MAX: u32 = (limits::DECLARED_LEASES_MAX / 2) as u32;
/// Default number of threads for blocking handlers.
pub const BLOCKING_THREADS_DEFAULT: u32 = 32;
/// Maximum number of threads for blocking handlers.
pub const BLOCKING_THREADS_MAX: u32 = 4_096;
/// Default maximum run time of a handler, if neither its job nor its kind sets one.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(3_600);
/// Default time for handlers to finish while the worker drains.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(25);
/// Default time for a cancelled handler to end by itself.
pub const CANCEL_GRACE_DEFAULT: Duration = Duration::from_secs(10);
/// Default time to wait for a handler that must stop now, where waiting can help: blocking handlers that
/// timed out or lost their lease, and any handler at the end of a drain.
pub const STOP_GRACE_DEFAULT: Duration = Duration::from_secs(2);
/// A worker reports itself as unhealthy if the store has not answered for this long (default).
pub const UNHEALTHY_AFTER_DEFAULT: Duration = Duration::from_secs(30);
/// Default timeout of one call to the store, after which it is repeated.
pub const CALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(15);
/// Longest time for which a batch that is not full may wait for more jobs.
pub const BATCH_LINGER_MAX: Duration = Duration::from_secs(1);
/// Upper bound of each of the times above.
pub const TIME_MAX: Duration = Duration::from_millis(limits::TIMEOUT_MAX_MS);

/// Results that may wait for the store, per job slot. While more wait, nothing is claimed.
pub(crate) const BUFFERED_PER_SLOT: u32 = 1;
/// Maximum number of settle and claim calls in flight. The second one transmits results while the first one
/// waits for the store's disk.
pub(crate) const CALLS_MAX: usize = 2;
/// Maximum number of claims in flight while the store has plenty of jobs: one travels while the other is
/// executed. They share the job slots if half of the slots are a batch that is worth a call.
pub(crate) const CLAIMS_MAX: usize = 2;
/// Minimum number of jobs per claim when two claims share the slots.
pub(crate) const CLAIM_SHARE_MIN: u32 = 100;
/// Maximum duration of one wait for work, after which it is repeated.
pub(crate) const WAIT: Duration = Duration::from_secs(30);
/// Progress and log lines are collected for this long before they are sent together.
pub(crate) const NEWS_EVERY: Duration = Duration::from_millis(250);
/// How long the first jobs of a batch wait for the others to pass the middleware. Jobs that take longer run
/// in batches of their own.
pub(crate) const BATCH_GATHER_MAX: Duration = Duration::from_millis(100);
/// How long a drained worker tries to deliver its last results and to close its session.
pub(crate) const FLUSH_MAX: Duration = Duration::from_secs(5);
/// First delay before a failed store call is repeated; doubles with each repetition.
pub(crate) const RETRY_FIRST: Duration = Duration::from_millis(100);
/// Longest delay before a failed store call is repeated.
pub(crate) const RETRY_MAX: Duration = Duration::from_secs(5);
/// Number of consecutive empty claims, although the store reported ready jobs, after which the next claim is
/// delayed.
pub(crate) const VAIN_CLAIMS_MAX: u32 = 3;
/// Delay of a claim after too many empty ones.
pub(crate) const VAIN_CLAIM_PAUSE: Duration = Duration::from_millis(20);

/// How long a floor without jobs is not claimed from again.
pub(crate) const FLOOR_PAUSE: Duration = Duration::from_millis(250);
/// Maximum number of floors.
pub(crate) const FLOORS_MAX: usize = 8;

/// Options of the whole worker, as opposed to those of single queues or kinds.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) name: String,
    pub(crate) remote: bool,
    pub(crate) concurrency: u32,
    pub(crate) blocking_threads: u32,
    pub(crate) timeout: Duration,
    pub(crate) grace: Duration,
    pub(crate) cancel_grace: Duration,
    pub(crate) stop_grace: Duration,
    pub(crate) unhealthy_after: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) session_ttl: Duration,
    pub(crate) heartbeat: Duration,
    /// Parts loaded with every claim.
    pub(crate) parts: PartSet,
    /// Guaranteed shares of low priorities.
    pub(crate) floors: Vec<Share>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: "worker".to_owned(),
            remote: false,
            concurrency: CONCURRENCY_DEFAULT,
            blocking_threads: BLOCKING_THREADS_DEFAULT,
            timeout: TIMEOUT_DEFAULT,
            grace: GRACE_DEFAULT,
            cancel_grace: CANCEL_GRACE_DEFAULT,
            stop_grace: STOP_GRACE_DEFAULT,
            unhealthy_after: UNHEALTHY_AFTER_DEFAULT,
            call_timeout: CALL_TIMEOUT_DEFAULT,
            session_ttl: Duration::from_millis(limits::SESSION_TTL_DEFAULT_MS),
            heartbeat: Duration::from_millis(limits::HEARTBEAT_MS),
            parts: PartSet::PAYLOAD,
            floors: Vec::new(),
        }
    }
}
