//! Assembles the services: which run, under one leadership, and how they end.

use crate::board::{Board, ServiceName};
use crate::breaker::BreakerService;
use crate::bulk::BulkService;
use crate::handle::ServicesHandle;
use crate::lead::{Keeper, Lead, Leader, leader};
use crate::options::{Pace, ServiceOptions, Upkeep};
use crate::runner::Runner;
use crate::sample::Sampler;
use crate::schedule::Scheduler;
use crate::service::Service;
use crate::trim::Trim;
use crate::upkeep::UpkeepService;
use std::fmt;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::info;
use windlass_core::engine::Engine;
use windlass_core::time::millis;
use windlass_core::{Error, Result};

/// The background services of a store.
#[derive(Debug)]
pub struct Services;

impl Services {
    /// A builder for the services of this engine.
    pub fn builder(engine: Arc<dyn Engine>) -> ServicesBuilder {
        ServicesBuilder { engine, options: ServiceOptions::default() }
    }

    /// The process that currently leads the services of a store, wherever it runs.
    pub async fn leader(engine: &dyn Engine) -> Result<Option<Leader>> {
        leader(engine).await
    }
}

/// A builder for services.
#[must_use = "services do nothing until they are started"]
pub struct ServicesBuilder {
    engine: Arc<dyn Engine>,
    options: ServiceOptions,
}

impl fmt::Debug for ServicesBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServicesBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}

impl ServicesBuilder {
    /// Sets the options.
    pub fn options(mut self, options: ServiceOptions) -> Self {
        self.options = options;
        self
    }

    /// Starts the services in the background, on the current Tokio runtime. The store need not be available
    /// yet.
    pub fn start(self) -> Result<ServicesHandle> {
        let Self { engine, options } = self;
        options.check()?;
        if tokio::runtime::Handle::try_current().is_err() {
            let expected = "start services inside a tokio runtime with its timer enabled";
            return Err(Error::invalid("runtime", "none", expected));
        }
        let (keeper, lead) = if options.leadership {
            let (keeper, lead) =
                Keeper::new(engine.clone(), options.label.clone(), millis(options.lead_ttl));
            (Some(keeper), lead)
        } else {
            (None, Lead::always())
        };
        let mut starting = Starting {
            engine,
            lead: lead.clone(),
            stop: CancellationToken::new(),
            boards: Vec::new(),
            runners: JoinSet::new(),
        };
        starting.hire(&options);
        let Starting { stop, boards, runners, engine, .. } = starting;
        info!(
            engine = engine.capabilities().engine,
            services = boards.len(),
            leadership = options.leadership,
            lead_ttl_ms = millis(options.lead_ttl),
            "services started"
        );
        let ended = CancellationToken::new();
        tokio::spawn(supervise(runners, keeper, ended.clone()));
        Ok(ServicesHandle::new(lead, boards, stop, ended))
    }
}

/// Keeps the leadership while a service runs, and releases it after the last one.
async fn supervise(mut runners: JoinSet<()>, keeper: Option<Keeper>, ended: CancellationToken) {
    let _ended = ended.drop_guard();
    let idle = CancellationToken::new();
    let keeping = keeper.map(|keeper| tokio::spawn(keeper.run(idle.clone())));
    // Panics of steps are caught; a runner that ends was stopped.
    while runners.join_next().await.is_some() {}
    idle.cancel();
    if let Some(keeping) = keeping {
        // If the keeper panicked, the leadership expires.
        let _ = keeping.await;
    }
    info!("services stopped");
}

/// The services of one process, while they are started.
struct Starting {
    engine: Arc<dyn Engine>,
    lead: Lead,
    stop: CancellationToken,
    boards: Vec<Arc<Board>>,
    runners: JoinSet<()>,
}

impl Starting {
    fn hire(&mut self, options: &ServiceOptions) {
        self.upkeep(options.promote, UpkeepService::promote);
        self.upkeep(options.reclaim, UpkeepService::reclaim);
        self.upkeep(options.expire, UpkeepService::expire);
        self.upkeep(options.retain, UpkeepService::retain);
        let history_ms = millis(options.history);
        self.upkeep(options.compact, |batch| UpkeepService::compact(batch, history_ms));
        self.paced(options.trim, Trim::new);
        self.paced(options.schedule, Scheduler::default);
        self.paced(options.breaker, BreakerService::default);
        let engine = Arc::clone(&self.engine);
        self.paced(options.bulk, || BulkService::new(engine));
        self.paced(options.sample, || Sampler::new(options.gauges));
    }

    fn upkeep(&mut self, upkeep: Upkeep, service: impl FnOnce(u32) -> UpkeepService) {
        if upkeep.enabled {
            let service = service(upkeep.batch);
            let (interval_ms, batch) = (millis(upkeep.interval), upkeep.batch);
            info!(service = service.name().as_str(), interval_ms, batch, "service set up");
            self.start(service, interval_ms);
        }
    }

    fn paced<S: Service + 'static>(&mut self, pace: Pace, service: impl FnOnce() -> S) {
        if pace.enabled {
            let service = service();
            let interval_ms = millis(pace.interval);
            info!(service = service.name().as_str(), interval_ms, "service set up");
            self.start(service, interval_ms);
        }
    }

    fn start(&mut self, service: impl Service + 'static, interval_ms: u64) {
        let name: ServiceName = service.name();
        let board = Arc::new(Board::new(name));
        self.boards.push(board.clone());
        let runner = Runner {
            engine: self.engine.clone(),
            lead: self.lead.clone(),
            stop: self.stop.clone(),
            board,
            interval_ms,
        };
        self.runners.spawn(runner.run(service));
    }
}
