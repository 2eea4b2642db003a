//! Builds a worker. All options are validated in [`Builder::build`].

mod validate;

use crate::batch::BatchHandler;
use crate::error::BuildError;
use crate::extract::{Kinded, Values};
use crate::floors::Share;
use crate::handler::{BlockingHandler, Handler, Route};
use crate::middleware::{Middleware, Stack};
use crate::options::Options;
use crate::shared::Served;
use crate::worker::{Companion, Task, Until};
use std::any::type_name;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::engine::Engine;
use windlass_core::model::{PartName, Rate};
use windlass_core::random::{Random, SystemRandom};
use windlass_services::{Host, ServiceOptions};

/// Builds a [`Worker`](crate::Worker). Options that are not set have the defaults in [`crate::defaults`].
#[must_use = "a builder does nothing until it is built"]
pub struct Builder {
    engine: Arc<dyn Engine>,
    options: Options,
    queues: Vec<Served>,
    routes: Vec<Route>,
    middleware: Vec<Box<dyn Fn(crate::Ctx, crate::Next) -> crate::handler::Attempt + Send + Sync>>,
    data: Values,
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
    kind_rates: Vec<(String, Rate)>,
    kind_timeouts: Vec<(String, Duration)>,
    batch_lingers: Vec<(String, Duration)>,
    one_at_a_time: bool,
    /// The first error of a builder method, returned by `build`.
    wrong: Option<BuildError>,
}

/// Whether the worker hosts the services of the store.
enum Hosting {
    Off,
    /// Hosts the services, with these options if any were given.
    On(Option<Box<ServiceOptions>>),
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
            data: Values::default(),
            random: Arc::new(SystemRandom),
            companions: Vec::new(),
            leftovers: Vec::new(),
            queue_limits: Vec::new(),
            kind_limits: Vec::new(),
            kind_rates: Vec::new(),
            kind_timeouts: Vec::new(),
            batch_lingers: Vec::new(),
            one_at_a_time: false,
            wrong: None,
        }
    }

    /// Adds a queue to serve. Queues are served strictly in the order in which they are added: a queue gets a
    /// turn only while the earlier ones have no jobs.
    ///
    /// Without any queue, a worker serves the queues of its handlers' job types, with equal weights, and
    /// `default` for handlers that were added by kind.
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

    /// Runs one job at a time, also in batch handlers, whatever else is set: for tests.
    pub const fn one_at_a_time(mut self) -> Self {
        self.one_at_a_time = true;
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

    /// How often this worker starts jobs of this kind. Jobs beyond the rate stay in the store, for other workers or for
    /// later. For a rate over all workers, use a [limit](windlass_core::model::Limit).
    pub fn kind_rate(mut self, kind: impl Into<String>, rate: Rate) -> Self {
        self.kind_rates.push((kind.into(), rate));
        self
    }

    /// Guarantees a share of the jobs that this worker starts, in percent, to jobs with this priority or a higher number,
    /// as long as there are any: without it, they start only while there are no more urgent ones. May be repeated for
    /// other priorities.
    ///
    /// For queues in [strict](windlass_core::model::Order::Strict) order. In the others no job starves, and the store
    /// refuses such claims; the worker then logs an error and works without floors.
    pub fn floor(mut self, from_priority: i32, percent: u32) -> Self {
        self.options.floors.push(Share { from_priority, percent });
        self
    }

    /// Maximum number of threads for blocking handlers.
    pub const fn blocking_threads(mut self, threads: u32) -> Self {
        self.options.blocking_threads = threads;
        self
    }
}

/// Handlers, data and middleware.
impl Builder {
    /// Adds a handler for the kind that its first argument names. It returns the output type of the job.
    ///
    /// Unless queues are added with [`queue`](Self::queue) or [`weighted`](Self::weighted), the worker serves
    /// the queue of this type. With them, [`build`](Self::build) refuses the worker if that queue is missing:
    /// the handler could never run.
    pub fn handle<J: Kinded + 'static, A: 'static>(
        mut self,
        handler: impl Handler<J, A, Output = J::Output>,
    ) -> Self {
        self.routes.push(Route::new(J::KIND, handler).on(J::queue()));
        self
    }

    /// Adds a handler for this kind, on any queue that the worker serves.
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
        mut self,
        handler: impl BlockingHandler<J, A, Output = J::Output>,
    ) -> Self {
        self.routes.push(Route::blocking(J::KIND, handler).on(J::queue()));
        self
    }

    /// Adds a function that may block as the handler of this kind, on any queue that the worker serves.
    pub fn handle_kind_blocking<J: 'static, A: 'static>(
        mut self,
        kind: &str,
        handler: impl BlockingHandler<J, A>,
    ) -> Self {
        self.routes.push(Route::blocking(kind, handler));
        self
    }

    /// Adds a handler that takes up to `jobs_max` jobs of the kind that its payloads name in one call; see
    /// [`BatchHandler`].
    pub fn handle_batch<J: Kinded + 'static, A: 'static>(
        mut self,
        handler: impl BatchHandler<J, A, Output = J::Output>,
        jobs_max: u32,
    ) -> Self {
        self.routes.push(Route::batch(J::KIND, handler, jobs_max).on(J::queue()));
        self
    }

    /// Adds a handler that takes up to `jobs_max` jobs of this kind in one call, on any queue that the worker
    /// serves; see [`BatchHandler`].
    pub fn handle_kind_batch<J: 'static, A: 'static>(
        mut self,
        kind: &str,
        handler: impl BatchHandler<J, A>,
        jobs_max: u32,
    ) -> Self {
        self.routes.push(Route::batch(kind, handler, jobs_max));
        self
    }

    /// How long a batch of this kind that is not full waits for jobs of later claims. Zero by default, at most
    /// [`BATCH_LINGER_MAX`](crate::defaults::BATCH_LINGER_MAX). Waiting jobs occupy their slots.
    pub fn batch_linger(mut self, kind: impl Into<String>, time: Duration) -> Self {
        self.batch_lingers.push((kind.into(), time));
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

    /// Adds shared data of the application (pools, clients, configuration), which handlers take as
    /// [`Data<T>`](crate::Data).
    pub fn data<T: Clone + Send + Sync + 'static>(mut self, data: T) -> Self {
        if !self.data.put(data) {
            let data = type_name::<T>();
            self.wrong.get_or_insert(BuildError::DataTwice { data });
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

    /// Whether this worker reports the outcomes of its jobs to the circuit breakers of kinds that have one, and enqueues
    /// the checks of kinds whose completed jobs are checked. On by default if the worker hosts services; a worker
    /// connected to a server leaves this to the server.
    pub const fn counts_outcomes(mut self, counts: bool) -> Self {
        self.counts_outcomes = counts;
        self
    }

    /// Hosts the services with these options. All workers on one [`Host`] share one set of services:
    /// [`build`](Self::build) refuses options that differ from those of another worker.
    pub fn service_options(mut self, options: ServiceOptions) -> Self {
        self.hosting = Hosting::On(Some(Box::new(options)));
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
            self.host.choose(*options)?;
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
