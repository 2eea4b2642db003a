//! State shared by all requests: the engine, the limits and the shutdown signal.

use crate::access::{Access, KeyChanges, Who};
use crate::admit::{RateLimits, Registry};
use crate::budget::Budgets;
use crate::event_stream;
use crate::health::StoreHealth;
use crate::meter::Rates;
use crate::metrics::StoreGauges;
use crate::options::{Limits, Options};
use crate::series::LastHour;
use crate::server::Base;
use crate::waits::Waits;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use windlass_core::engine::{Answer, Claim, Engine, Stamped};
use windlass_core::model::PartName;
use windlass_core::{Error, Result};
use windlass_services::{Audit, Audited, Flows};

/// Shared application state, one per server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct App {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) engine: Arc<dyn Engine>,
    /// Rules of registered kinds.
    pub(crate) registry: Arc<Registry>,
    /// Enqueue rate limits per principal.
    pub(crate) rate_limits: RateLimits,
    /// Recent throughput rates, for the dashboard.
    pub(crate) rates: Rates,
    /// Counts of this server that are not yet written to the store.
    pub(crate) flows: Flows,
    /// The last hour across all servers, for the dashboard.
    pub(crate) hour: LastHour,
    /// Options as given at startup.
    pub(crate) options: Options,
    /// Current values of the limits that can change at run time.
    pub(crate) limits: watch::Receiver<Limits>,
    /// Memory budgets for requests and replies.
    pub(crate) budgets: Budgets,
    /// Limits how many large bodies are parsed at a time, so that parsing cannot occupy all
    /// processors.
    pub(crate) readers: Semaphore,
    /// Cancelled at shutdown: waiting requests then answer at once.
    pub(crate) stopping: CancellationToken,
    /// Number of requests that wait for claimable jobs.
    pub(crate) waiting: Arc<AtomicUsize>,
    /// The queues that these requests wait for.
    pub(crate) waits: Waits,
    /// Places for readers that wait for events.
    pub(crate) event_readers: Arc<Semaphore>,
    /// Authentication and authorization.
    pub(crate) access: Access,
    /// The audit log.
    pub(crate) audit: Audit,
    /// Health of the store.
    pub(crate) health: StoreHealth,
    /// Store statistics for metrics.
    pub(crate) gauges: StoreGauges,
}

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl App {
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        registry: Arc<Registry>,
        rates: Rates,
        flows: Flows,
        key_changes: Arc<KeyChanges>,
        base: &Base,
    ) -> Self {
        let options = base.options.clone();
        let budgets = Budgets::new(options.bodies_bytes_max);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let waits = Waits::default();
        let rate_limits = RateLimits::new(options.jobs_per_second.and_then(NonZeroU32::new));
        let gauges =
            StoreGauges::new(engine.clone(), options.metrics_by_kind, options.metrics_by_priority);
        let inner = Inner {
            hour: LastHour::new(engine.clone()),
            access: Access::new(engine.clone(), &options, base.limits.clone(), key_changes),
            audit: Audit::new(engine.clone()),
            engine,
            registry,
            rate_limits,
            rates,
            flows,
            options,
            limits: base.limits.clone(),
            budgets,
            readers: Semaphore::new((processors / 2).max(1)),
            stopping: base.stop.clone(),
            waiting: base.counts.waiting.clone(),
            waits,
            event_readers: Arc::new(Semaphore::new(event_stream::READERS_MAX)),
            health: base.health.clone(),
            gauges,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The engine on behalf of a principal: changes are written to the audit log.
    pub(crate) fn acting(&self, who: &Who) -> Audited {
        Audited::new(self.engine.clone(), self.audit.clone(), who.0.clone())
    }

    /// A claim that returns at most as many jobs as the memory for replies can hold.
    pub(crate) fn limited(&self, mut claim: Claim) -> Claim {
        if claim.parts.has(PartName::Payload) {
            let payload_bytes_max = self.engine.capabilities().payload_bytes_max;
            claim.limit = claim.limit.min(self.options.claim_jobs_max(payload_bytes_max));
        }
        claim
    }

    /// The current limits.
    pub(crate) fn limits(&self) -> Limits {
        *self.limits.borrow()
    }

    /// Awaits an engine call within the call timeout.
    pub(crate) async fn call<T>(&self, answer: Answer<'_, T>) -> Result<Stamped<T>> {
        self.call_within(answer, 0).await
    }

    /// Awaits an engine call that may wait on purpose for up to `wait_ms`; the call timeout is
    /// added to it.
    pub(crate) async fn call_within<T>(
        &self,
        answer: Answer<'_, T>,
        wait_ms: u64,
    ) -> Result<Stamped<T>> {
        self.in_time(answer, wait_ms).await
    }

    /// Awaits a future of several engine calls within the call timeout plus `wait_ms`.
    pub(crate) async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T>>,
        wait_ms: u64,
    ) -> Result<T> {
        let limit = self.limits().call_timeout.saturating_add(Duration::from_millis(wait_ms));
        match tokio::time::timeout(limit, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Unavailable {
                store: format!("the {} engine", self.engine.capabilities().engine),
                reason: format!("no answer within {limit:?}"),
            }),
        }
    }
}
