//! What every request shares: the engine, the bounds, and the news that the server stops.

use crate::access::{Access, KeyNews, Who};
use crate::admit::{Paces, Registry};
use crate::budget::Budgets;
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
use windlass_core::engine::{Answer, Engine, Stamped};
use windlass_core::{Error, Result};
use windlass_services::{Audit, Audited, Flows};

/// Cheap to clone; one per server.
#[derive(Clone)]
pub(crate) struct App {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) engine: Arc<dyn Engine>,
    /// What is known of registered kinds.
    pub(crate) registry: Arc<Registry>,
    /// How fast everybody hands over jobs.
    pub(crate) paces: Paces,
    /// What went in and out of late, for people.
    pub(crate) rates: Rates,
    /// What went in and out of this server and is not stored yet.
    pub(crate) flows: Flows,
    /// The last hour over all servers, for people.
    pub(crate) hour: LastHour,
    /// What it was told at its start.
    pub(crate) options: Options,
    /// The bounds that may have changed since.
    pub(crate) limits: watch::Receiver<Limits>,
    /// Memory for requests and replies.
    pub(crate) budgets: Budgets,
    /// Long requests that are read at a time: they must not take all processors.
    pub(crate) readers: Semaphore,
    /// Cancelled when the server stops: whoever waits answers with what there is.
    pub(crate) stopping: CancellationToken,
    /// Requests that wait for something to claim.
    pub(crate) waiting: Arc<AtomicUsize>,
    /// What they wait for.
    pub(crate) waits: Waits,
    /// Who may do what.
    pub(crate) access: Access,
    /// Who did what.
    pub(crate) audit: Audit,
    /// Whether the store answers.
    pub(crate) health: StoreHealth,
    /// The numbers of the store, for metrics.
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
        news: Arc<KeyNews>,
        base: &Base,
    ) -> Self {
        let options = base.options.clone();
        let budgets = Budgets::new(options.bodies_bytes_max);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let waits = Waits::default();
        let paces = Paces::new(options.jobs_per_second.and_then(NonZeroU32::new));
        let gauges =
            StoreGauges::new(engine.clone(), options.metrics_by_kind, options.metrics_by_priority);
        let inner = Inner {
            hour: LastHour::new(engine.clone()),
            access: Access::new(engine.clone(), &options, base.limits.clone(), news),
            audit: Audit::new(engine.clone()),
            engine,
            registry,
            paces,
            rates,
            flows,
            options,
            limits: base.limits.clone(),
            budgets,
            readers: Semaphore::new((processors / 2).max(1)),
            stopping: base.stop.clone(),
            waiting: base.counts.waiting.clone(),
            waits,
            health: base.health.clone(),
            gauges,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The engine as somebody acts on it: what he changes is told to the audit log.
    pub(crate) fn acting(&self, who: &Who) -> Audited {
        Audited::new(self.engine.clone(), self.audit.clone(), who.0.clone())
    }

    /// The bounds of a request that comes now.
    pub(crate) fn limits(&self) -> Limits {
        *self.limits.borrow()
    }

    /// The engine's answer, if it comes in time.
    pub(crate) async fn call<T>(&self, answer: Answer<'_, T>) -> Result<Stamped<T>> {
        self.call_within(answer, 0).await
    }

    /// The engine's answer, where it was asked to wait for up to `wait_ms`.
    pub(crate) async fn call_within<T>(
        &self,
        answer: Answer<'_, T>,
        wait_ms: u64,
    ) -> Result<Stamped<T>> {
        self.in_time(answer, wait_ms).await
    }

    /// The answer of something that calls the engine more than once, if it comes in time.
    pub(crate) async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T>>,
        wait_ms: u64,
    ) -> Result<T> {
        let limit_ms = self.limits().call_timeout_ms.saturating_add(wait_ms);
        match tokio::time::timeout(Duration::from_millis(limit_ms), answer).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Unavailable {
                store: format!("the {} engine", self.engine.capabilities().engine),
                reason: format!("no answer within {limit_ms} ms"),
            }),
        }
    }
}
