//! Builds a worker. All options are validated in [`Builder::build`].

use crate::blocking::Pool;
use crate::error::BuildError;
use crate::extract::{Kinded, Values};
use crate::handler::{BlockingHandler, Handler, Route};
use crate::middleware::{Middleware, Stack};
use crate::options::{BLOCKING_THREADS_MAX, CONCURRENCY_MAX, Options, TIME_MAX};
use crate::shared::{Inbox, Order, Served, Shared};
use crate::stats::Counts;
use crate::worker::{Companion, Task, Until, Worker};
use std::any::type_name;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::engine::{Engine, OpenSession};
use windlass_core::limits::{CLAIM_KINDS_MAX, CLAIM_QUEUES_MAX};
use windlass_core::model::{DEFAULT_QUEUE, PartName, PartSet};
use windlass_core::random::{Random, SystemRandom};
use windlass_core::{check_name, check_text};
use windlass_services::{Host, Outcomes, ServiceOptions};

/// Builds a [`Worker`]. Options that are not set have the defaults in [`crate::defaults`].
#[must_use = "a builder does nothing until it is built"]
pub struct Builder {
    engine: Arc<dyn Engine>,
    options: Options,
    queues: Vec<Served>,
    routes: Vec<Route>,
    middleware: Vec<Box<dyn Fn(crate::Ctx, crate::Next) -> crate::handler::Attempt + Send + Sync>>,
    states: Values,
    random: Arc<dyn Random>,
    companions: Vec<Companion>,
    /// Futures that wait for processes that stopped handlers have left running.
    leftovers: Vec<Task>,
    host: Host,
    hosting: Hosting,
    /// Whether this worker reports the outcomes of its jobs to the circuit breakers.
    counts_outcomes: bool,
    queue_limits: Vec<(String, u32)>,
    kind_limits: Vec<(String, u32)>,
    kind_timeouts: Vec<(String, Duration)>,
    /// The first error of a builder method, returned by `build`.
    wrong: Option<BuildError>,
}

/// Whether the worker hosts the services of the store.
enum Hosting {
    Off,
    /// Hosts the services, with these options if any were given.
    On(Option<ServiceOptions>),
}

/// Queues, kinds and limits.
impl Builder {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self {
            host: Host::new(engine.clone()),
            hosting: Hosting::Off,
            counts_outcomes: false,
            engine,
            options: Options::default(),
            queues: Vec::new(),
            routes: Vec::new(),
            middleware: Vec::new(),
            states: Values::default(),
            random: Arc::new(SystemRandom),
            companions: Vec::new(),
            leftovers: Vec::new(),
            queue_limits: Vec::new(),
            kind_limits: Vec::new(),
            kind_timeouts: Vec::new(),
            wrong: None,
        }
    }

    /// Adds a queue to serve. Queues are served strictly in the order in which they are added: a queue gets a
    /// turn only while the earlier ones have no jobs. A worker without any queue serves `default`.
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.queues.push(Served { name: name.into().into(), weight: None, limit: None });
        self
    }

    /// Serves these queues by weight: while all of them have jobs, a queue of weight 3 starts three times as
    /// many jobs as a queue of weight 1.
    pub fn weighted<N: Into<String>>(mut self, queues: impl IntoIterator<Item = (N, u32)>) -> Self {
        let served = |(name, weight): (N, u32)| Served {
            name: name.into().into(),
            weight: Some(weight),
            limit: None,
        };
        self.queues.extend(queues.into_iter().map(served));
        self
    }

    /// Maximum number of jobs that run at a time.
    pub const fn concurrency(mut self, jobs: u32) -> Self {
        self.options.concurrency = jobs;
        self
    }

    /// Maximum number of jobs of this queue that run at a time.
    pub fn queue_limit(mut self, queue: impl Into<String>, jobs: u32) -> Self {
        self.queue_limits.push((queue.into(), jobs));
        self
    }

    /// Maximum number of jobs of this kind that run at a time.
    pub fn kind_limit(mut self, kind: impl Into<String>, jobs: u32) -> Self {
        self.kind_limits.push((kind.into(), jobs));
        self
    }

    /// Maximum number of threads for blocking handlers.
    pub const fn blocking_threads(mut self, threads: u32) -> Self {
        self.options.blocking_threads = threads;
        self
    }
}

/// Handlers, state and middleware.
impl Builder {
    /// Adds a handler for the kind that its first argument names.
    pub fn handle<J: Kinded + 'static, A: 'static>(self, handler: impl Handler<J, A>) -> Self {
        self.handle_kind(J::KIND, handler)
    }

    /// Adds a handler for this kind.
    pub fn handle_kind<J: 'static, A: 'static>(
        mut self,
        kind: &str,
        handler: impl Handler<J, A>,
    ) -> Self {
        self.routes.push(Route::new(kind, handler));
        self
    }

    /// Adds a function that may block as the handler of the kind that its first argument names.
    pub fn handle_blocking<J: Kinded + 'static, A: 'static>(
        self,
        handler: impl BlockingHandler<J, A>,
    ) -> Self {
        self.handle_kind_blocking(J::KIND, handler)
    }

    /// Adds a function that may block as the handler of this kind.
    pub fn handle_kind_blocking<J: 'static, A: 'static>(
        mut self,
        kind: &str,
        handler: impl BlockingHandler<J, A>,
    ) -> Self {
        self.routes.push(Route::blocking(kind, handler));
        self
    }

    /// Runs a command for jobs of this kind; see [`process`](crate::process). The program must have called
    /// [`process::enter`](crate::process::enter).
    #[cfg(all(feature = "process", unix))]
    pub fn handle_process(mut self, kind: &str, process: crate::process::Process) -> Self {
        if let Err(wrong) = process.check_for(kind) {
            self.wrong.get_or_insert(wrong);
        }
        let commands = crate::process::Commands::default();
        self.leftovers.push(Box::pin(commands.clone().finish()));
        self.handle_kind(kind, crate::process::Run::new(process, commands))
    }

    /// Adds shared state that handlers take as [`State<T>`](crate::State).
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, state: T) -> Self {
        if !self.states.put(state) {
            let state = type_name::<T>();
            self.wrong.get_or_insert(BuildError::StateTwice { state });
        }
        self
    }

    /// Adds middleware around every handler, inside the middleware added before.
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        self.middleware.push(Stack::erase(middleware));
        self
    }

    /// Adds middleware around every handler and all other middleware.
    pub fn outermost(mut self, middleware: impl Middleware) -> Self {
        self.middleware.insert(0, Stack::erase(middleware));
        self
    }

    /// Loads this part with every claim, so that handlers need not fetch it one by one.
    pub fn bring(mut self, part: PartName) -> Self {
        self.options.parts = self.options.parts.with(part);
        self
    }

    /// Runs a task beside the worker: starts with the worker, is asked to end when the worker has drained,
    /// and is dropped if it does not.
    pub fn beside<F, Fut>(mut self, name: &'static str, task: F) -> Self
    where
        F: FnOnce(Arc<dyn Engine>, Until) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.companions.push(Companion::new(name, task));
        self
    }
}

/// The services of the store.
impl Builder {
    /// Whether the worker hosts the services that maintain its store: promote due jobs, reclaim jobs of dead
    /// workers, fire schedules and so on. Only one process at a time does this work.
    /// `windlass::Client::worker` turns this on; without it, another process must host the services.
    pub fn services(mut self, host: bool) -> Self {
        self.hosting = if host { Hosting::On(None) } else { Hosting::Off };
        self.counts_outcomes(host)
    }

    /// Whether this worker reports the outcomes of its jobs to the circuit breakers of kinds that have one.
    /// On by default if the worker hosts services; a worker connected to a server leaves this to the server.
    pub const fn counts_outcomes(mut self, counts: bool) -> Self {
        self.counts_outcomes = counts;
        self
    }

    /// Hosts the services with these options. All workers on one [`Host`] share one set of services:
    /// [`build`](Self::build) refuses options that differ from those of another worker.
    pub fn service_options(mut self, options: ServiceOptions) -> Self {
        self.hosting = Hosting::On(Some(options));
        self.counts_outcomes(true)
    }

    /// Hosts the services on this host, shared with its other workers.
    pub fn services_of(mut self, host: Host) -> Self {
        self.host = host;
        self.services(true)
    }

    /// Adds the task that hosts the services from the start of the worker until it has drained.
    fn host_services(mut self) -> Result<Self, BuildError> {
        let Hosting::On(options) = &mut self.hosting else { return Ok(self) };
        if let Some(options) = options.take() {
            self.host.choose(options)?;
        }
        let host = self.host.clone();
        Ok(self.beside("services", async move |_, mut until| match host.join() {
            Ok(guest) => {
                until.stopped().await;
                guest.leave().await;
            }
            Err(error) => tracing::error!(%error, "the worker cannot host the services"),
        }))
    }
}

/// Times and names.
impl Builder {
    /// The name of the worker, shown in the store and in logs.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.options.name = name.into();
        self
    }

    /// Declares that the store may outlive this process, or restart without it (see
    /// [`OpenSession::remote`](windlass_core::engine::OpenSession)).
    pub const fn remote(mut self) -> Self {
        self.options.remote = true;
        self
    }

    /// Maximum run time of handlers if neither the job nor its kind sets one.
    pub const fn timeout(mut self, time: Duration) -> Self {
        self.options.timeout = time;
        self
    }

    /// Maximum run time of handlers of this kind if the job does not set one.
    pub fn kind_timeout(mut self, kind: impl Into<String>, time: Duration) -> Self {
        self.kind_timeouts.push((kind.into(), time));
        self
    }

    /// How long handlers may continue while the worker drains.
    pub const fn grace(mut self, time: Duration) -> Self {
        self.options.grace = time;
        self
    }

    /// How long a handler may continue after its job was cancelled.
    pub const fn cancel_grace(mut self, time: Duration) -> Self {
        self.options.cancel_grace = time;
        self
    }

    /// How long to wait for a handler that must stop now: see
    /// [`STOP_GRACE_DEFAULT`](crate::defaults::STOP_GRACE_DEFAULT).
    pub const fn stop_grace(mut self, time: Duration) -> Self {
        self.options.stop_grace = time;
        self
    }

    /// How long the store may be unresponsive before the worker reports itself as unhealthy.
    pub const fn unhealthy_after(mut self, time: Duration) -> Self {
        self.options.unhealthy_after = time;
        self
    }

    /// Timeout of one call to the store, after which it is repeated.
    pub const fn call_timeout(mut self, time: Duration) -> Self {
        self.options.call_timeout = time;
        self
    }

    /// How long the store keeps the worker's leases without a heartbeat, and the interval of heartbeats.
    pub const fn session(mut self, ttl: Duration, heartbeat: Duration) -> Self {
        self.options.session_ttl = ttl;
        self.options.heartbeat = heartbeat;
        self
    }

    /// The source of randomness for jitter, so that tests are repeatable.
    pub fn random(mut self, random: Arc<dyn Random>) -> Self {
        self.random = random;
        self
    }
}

/// Validation.
impl Builder {
    /// Validates all options and creates the worker. It does nothing until it is started.
    pub fn build(mut self) -> Result<Worker, BuildError> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        if self.queues.is_empty() {
            self = self.queue(DEFAULT_QUEUE);
        }
        self.check_queues()?;
        self.check_routes()?;
        self.assign()?;
        self.check_options()?;
        self = self.host_services()?;
        crate::panics::install_hook();
        let inbox = Inbox::new();
        if self.counts_outcomes {
            self.engine = Arc::new(Outcomes::new(self.engine));
        }
        let shared = Shared {
            pool: Pool::new(self.options.blocking_threads, inbox.bell.clone()),
            engine: self.engine,
            options: self.options,
            queues: self.queues,
            routes: self.routes,
            stack: Stack::new(self.middleware),
            states: self.states,
            random: self.random,
            starter: Arc::default(),
            inbox,
            counts: Counts::new(),
            order: tokio::sync::watch::Sender::new(Order::Work),
        };
        Ok(Worker::new(Arc::new(shared), self.companions, self.leftovers))
    }

    fn check_queues(&self) -> Result<(), BuildError> {
        within("queues", self.queues.len() as u64, 1..=CLAIM_QUEUES_MAX as u64)?;
        let weighted = self.queues[0].weight.is_some();
        for (at, queue) in self.queues.iter().enumerate() {
            check_name("queue", &queue.name)?;
            if self.queues[..at].iter().any(|other| other.name == queue.name) {
                return Err(option("queue", &queue.name, "name it once"));
            }
            match queue.weight {
                Some(0) => {
                    return Err(option("weight", 0, "a queue without a share is not served"));
                }
                Some(weight) => within("weight", weight.into(), 1..=WEIGHT_MAX)?,
                None => {}
            }
            if queue.weight.is_some() != weighted {
                let without = self.queues.iter().find(|queue| queue.weight.is_none());
                let queue = without.map_or_else(String::new, |queue| queue.name.to_string());
                return Err(BuildError::MixedQueues { queue });
            }
        }
        Ok(())
    }

    fn check_routes(&self) -> Result<(), BuildError> {
        if self.routes.is_empty() {
            return Err(BuildError::NoHandlers);
        }
        within("kinds", self.routes.len() as u64, 1..=CLAIM_KINDS_MAX as u64)?;
        for (at, route) in self.routes.iter().enumerate() {
            check_name("kind", &route.kind)?;
            let kind = || route.kind.to_string();
            if self.routes[..at].iter().any(|other| other.kind == route.kind) {
                return Err(BuildError::TwoHandlers { kind: kind() });
            }
            if let Some(need) = route.needs.iter().find(|need| !self.states.has(**need)) {
                return Err(BuildError::MissingState { kind: kind(), state: need.name });
            }
        }
        Ok(())
    }

    /// Assigns the per-queue and per-kind options to their queues and kinds.
    fn assign(&mut self) -> Result<(), BuildError> {
        let unknown = |option, name: &str| BuildError::Unknown { option, name: name.to_owned() };
        for (name, limit) in &self.queue_limits {
            within("queue_limit", (*limit).into(), 1..=CONCURRENCY_MAX.into())?;
            let queue = self.queues.iter_mut().find(|queue| *queue.name == **name);
            queue.ok_or_else(|| unknown("queue_limit", name))?.limit = Some(*limit);
        }
        for (name, limit) in &self.kind_limits {
            within("kind_limit", (*limit).into(), 1..=CONCURRENCY_MAX.into())?;
            let route = self.routes.iter_mut().find(|route| *route.kind == **name);
            route.ok_or_else(|| unknown("kind_limit", name))?.limit = Some(*limit);
        }
        for (name, time) in &self.kind_timeouts {
            time_within("kind_timeout", *time, MILLISECOND)?;
            let route = self.routes.iter_mut().find(|route| *route.kind == **name);
            route.ok_or_else(|| unknown("kind_timeout", name))?.timeout = Some(*time);
        }
        Ok(())
    }

    fn check_options(&self) -> Result<(), BuildError> {
        let options = &self.options;
        within("concurrency", options.concurrency.into(), 1..=CONCURRENCY_MAX.into())?;
        let threads = u64::from(options.blocking_threads);
        within("blocking_threads", threads, 1..=BLOCKING_THREADS_MAX.into())?;
        check_text("name", &options.name, windlass_core::limits::NAME_BYTES_MAX)?;
        time_within("timeout", options.timeout, MILLISECOND)?;
        time_within("grace", options.grace, Duration::ZERO)?;
        time_within("cancel_grace", options.cancel_grace, Duration::ZERO)?;
        time_within("stop_grace", options.stop_grace, Duration::ZERO)?;
        time_within("unhealthy_after", options.unhealthy_after, MILLISECOND)?;
        time_within("call_timeout", options.call_timeout, MILLISECOND)?;
        let ttl_ms = u64::try_from(options.session_ttl.as_millis()).unwrap_or(u64::MAX);
        OpenSession::new("worker").ttl_ms(ttl_ms).check()?;
        time_within("heartbeat", options.heartbeat, MILLISECOND)?;
        if options.heartbeat * 2 > options.session_ttl {
            let expected = format!(
                "at most half of the session's {:?}, so that one lost heartbeat does no harm",
                options.session_ttl
            );
            return Err(option("heartbeat", format_args!("{:?}", options.heartbeat), &expected));
        }
        debug_assert!(options.parts.has(PartName::Payload) && options.parts != PartSet::NONE);
        Ok(())
    }
}

/// The largest weight of a queue.
const WEIGHT_MAX: u64 = 1_000;
const MILLISECOND: Duration = Duration::from_millis(1);

fn option(option: &'static str, value: impl std::fmt::Display, expected: &str) -> BuildError {
    BuildError::Option { option, value: value.to_string(), expected: expected.to_owned() }
}

fn within(name: &'static str, value: u64, range: RangeInclusive<u64>) -> Result<(), BuildError> {
    if range.contains(&value) {
        return Ok(());
    }
    let expected = format!("it must be between {} and {}", range.start(), range.end());
    Err(option(name, value, &expected))
}

fn time_within(name: &'static str, value: Duration, least: Duration) -> Result<(), BuildError> {
    if (least..=TIME_MAX).contains(&value) {
        return Ok(());
    }
    let expected = format!("it must be between {least:?} and {TIME_MAX:?}");
    Err(option(name, format_args!("{value:?}"), &expected))
}
