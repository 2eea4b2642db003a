//! A job held by a worker, from its claim until the store has its outcome.

use crate::batch::{Batching, Group};
use crate::draft::Draft;
use crate::shared::Shared;
use crate::signal::{Cause, Signal};
use crate::trace;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;
use tokio::time::Instant;
use tracing::Span;
use tracing::field::Empty;
use windlass_core::Timestamp;
use windlass_core::engine::{ClaimedJob, Held, Lease};
use windlass_core::model::{Header, Parts};
use windlass_core::sync::lock;

/// One attempt at a job. Shared by the runtime, the task of the handler and every [`Ctx`](crate::Ctx).
pub(crate) struct Running {
    pub(crate) header: Header,
    pub(crate) lease: Lease,
    pub(crate) claimed_at: Timestamp,
    /// The parts that the claim loaded.
    pub(crate) parts: Parts,
    /// Index of its queue among the worker's queues.
    pub(crate) queue: usize,
    pub(crate) kind: usize,
    pub(crate) signal: Signal,
    pub(crate) span: Span,
    pub(crate) shared: Arc<Shared>,
    /// Set when the handler starts, which is later than the claim for a suspect that waits to run alone.
    began: OnceLock<Instant>,
    /// The batch that the job has not joined yet.
    group: Mutex<Option<Arc<Group>>>,
    /// Allocated only when the handler reports something.
    draft: Mutex<Option<Box<Draft>>>,
}

impl Running {
    pub(crate) fn new(job: ClaimedJob, queue: usize, kind: usize, shared: Arc<Shared>) -> Self {
        let ClaimedJob { header, lease, started_at, parts, .. } = job;
        let span = tracing::info_span!(
            "job",
            kind = %header.kind,
            queue = %header.queue,
            id = %header.id,
            // OpenTelemetry has signed integers only; unsigned values would become strings.
            attempt = i64::from(header.counters.attempt),
            trace = header.trace.as_deref(),
            // Recorded at the end of the attempt.
            outcome = Empty,
            otel.kind = Empty,
            otel.name = Empty,
        );
        trace::begin(&span, &header);
        Self {
            header,
            lease,
            claimed_at: started_at,
            parts,
            queue,
            kind,
            signal: Signal::default(),
            span,
            shared,
            began: OnceLock::new(),
            group: Mutex::new(None),
            draft: Mutex::new(None),
        }
    }

    pub(crate) fn held(&self) -> Held {
        Held { id: self.header.id, lease: self.lease.clone() }
    }

    /// Marks the start of the handler.
    pub(crate) fn begin(&self, now: Instant) {
        self.began.get_or_init(|| now);
    }

    pub(crate) fn began(&self) -> Instant {
        *self.began.get_or_init(Instant::now)
    }

    pub(crate) fn is_blocking(&self) -> bool {
        self.shared.routes[self.kind].blocking
    }

    /// How jobs are gathered, if the handler takes several at once.
    pub(crate) fn batching(&self) -> Option<&Batching> {
        self.shared.routes[self.kind].batching.as_ref()
    }

    /// Assigns the job to a batch.
    pub(crate) fn put_group(&self, group: Arc<Group>) {
        *lock(&self.group) = Some(group);
    }

    /// The batch of the job, which it must join or leave.
    pub(crate) fn take_group(&self) -> Option<Arc<Group>> {
        lock(&self.group).take()
    }

    /// Maximum run time of the handler, set by the job, its kind, or the worker.
    pub(crate) fn timeout(&self) -> Duration {
        let of_job = self.header.policy.timeout_ms.map(Duration::from_millis);
        let of_kind = self.shared.routes[self.kind].timeout;
        of_job.or(of_kind).unwrap_or(self.shared.options.timeout)
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.began() + self.timeout()
    }

    /// How long the handler may continue after it was signalled this cause.
    pub(crate) fn grace(&self, cause: Cause) -> Duration {
        let options = &self.shared.options;
        match cause {
            _ if self.shared.is_aborted() => Duration::ZERO,
            Cause::Operator => options.cancel_grace,
            Cause::Shutdown => options.stop_grace,
            // An async handler is dropped; a blocking one can only be asked to stop.
            Cause::Timeout | Cause::LeaseLost if self.is_blocking() => options.stop_grace,
            Cause::Timeout | Cause::LeaseLost => Duration::ZERO,
        }
    }

    /// Accesses the draft; creates it if needed.
    pub(crate) fn draft<T>(&self, work: impl FnOnce(&mut Draft) -> T) -> T {
        work(self.lock().get_or_insert_default())
    }

    /// Accesses the draft if there is one.
    pub(crate) fn drafted<T>(&self, work: impl FnOnce(&mut Draft) -> T) -> Option<T> {
        self.lock().as_deref_mut().map(work)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<Draft>>> {
        lock(&self.draft)
    }
}
