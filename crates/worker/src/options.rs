//! The settings of a worker, their defaults and their bounds.

use std::time::Duration;
use windlass_core::limits;
use windlass_core::model::PartSet;

/// Jobs a worker runs at a time, unless told otherwise.
pub const CONCURRENCY_DEFAULT: u32 = 100;
/// The most jobs one worker may run at a time. Results that wait for the store come on top, as many
/// again, and a heartbeat declares both.
pub const CONCURRENCY_MAX: u32 = (limits::DECLARED_LEASES_MAX / 2) as u32;
/// Threads for blocking handlers, unless told otherwise.
pub const BLOCKING_THREADS_DEFAULT: u32 = 32;
/// The most threads for blocking handlers.
pub const BLOCKING_THREADS_MAX: u32 = 4_096;
/// How long a handler may run, unless its job or its kind says otherwise.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(3_600);
/// How long a draining worker lets its handlers finish.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(25);
/// How long a cancelled handler has to end by itself.
pub const CANCEL_GRACE_DEFAULT: Duration = Duration::from_secs(10);
/// How long a handler that must stop now is waited for, where waiting can help: blocking handlers
/// that ran out of time or lost their lease, and any handler at the end of a drain.
pub const STOP_GRACE_DEFAULT: Duration = Duration::from_secs(2);
/// Without an answer from the store for this long, a worker says it is unhealthy.
pub const UNHEALTHY_AFTER_DEFAULT: Duration = Duration::from_secs(30);
/// How long one call to the store may take before it counts as unanswered and is repeated.
pub const CALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(15);
/// The longest any of the times above may be set to.
pub const TIME_MAX: Duration = Duration::from_millis(limits::TIMEOUT_MAX_MS);

/// Results that may wait for the store, per job that may run: while more wait, nothing is claimed.
pub(crate) const BUFFERED_PER_SLOT: u32 = 1;
/// Calls that report or claim, on their way at a time. The second one lets results travel while the
/// first one waits for a disk.
pub(crate) const CALLS_MAX: usize = 2;
/// Claims without an answer at a time, where a store has plenty: while one is carried out, the other
/// travels. They share the slots, if half of them are a batch worth a call.
pub(crate) const CLAIMS_MAX: usize = 2;
/// The fewest jobs worth a claim of their own where slots are shared.
pub(crate) const CLAIM_SHARE_MIN: u32 = 100;
/// How long one wait for work lasts before it is asked again.
pub(crate) const WAIT: Duration = Duration::from_secs(30);
/// Progress and log lines gather for this long before they are sent together.
pub(crate) const NEWS_EVERY: Duration = Duration::from_millis(250);
/// How long a worker that is done tries to deliver its last results and to close its session.
pub(crate) const FLUSH_MAX: Duration = Duration::from_secs(5);
/// Store calls are repeated after this long at first …
pub(crate) const RETRY_FIRST: Duration = Duration::from_millis(100);
/// … and twice as long each time, up to this.
pub(crate) const RETRY_MAX: Duration = Duration::from_secs(5);
/// Claims in a row that may find nothing although the store said there was something, before the
/// next one is put off.
pub(crate) const VAIN_CLAIMS_MAX: u32 = 3;
/// For how long it is put off.
pub(crate) const VAIN_CLAIM_PAUSE: Duration = Duration::from_millis(20);

/// The settings that are not about single queues or kinds.
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
    /// Parts a claim brings along.
    pub(crate) parts: PartSet,
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
        }
    }
}
