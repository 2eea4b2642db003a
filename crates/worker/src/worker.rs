//! The public API of a worker: build, start, observe, drain.

use crate::builder::Builder;
use crate::runtime::{Runtime, Stopped};
use crate::shared::{Order, Shared};
use crate::stats::{Health, Stats};
use futures_util::future::join_all;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::watch;
use windlass_core::engine::Engine;

/// Runs jobs: claims them from an engine, calls their handlers, and reports their outcomes.
///
/// A process may have several workers, each with its own queues, kinds and limits.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use std::sync::Arc;
/// use windlass_core::{TypedJob, engine::{Enqueue, Jobs}, model::NewJob};
/// use windlass_worker::{Ctx, Data, Stop, Worker};
///
/// #[derive(Serialize, Deserialize)]
/// struct SendEmail { to: String }
/// impl TypedJob for SendEmail {
///     const KIND: &'static str = "send_email";
///     type Output = ();
///
///     fn template() -> NewJob {
///         NewJob::new(Self::KIND).queue("mail") // workers with its handler serve this queue
///     }
/// }
///
/// #[derive(Clone)]
/// struct Mailer(tokio::sync::mpsc::UnboundedSender<String>);
///
/// async fn send_email(job: SendEmail, Data(mailer): Data<Mailer>, ctx: Ctx) -> Result<(), Stop> {
///     tracing::info!(attempt = ctx.attempt(), "sending");
///     mailer.0.send(job.to)?; // an error is a retry
///     Ok(())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let engine = Arc::new(windlass_memory::MemoryEngine::new());
/// let (mailer, mut sent) = tokio::sync::mpsc::unbounded_channel();
/// let worker = Worker::builder(engine.clone())
///     .data(Mailer(mailer))
///     .handle(send_email)
///     .build()
///     .unwrap()
///     .start();
///
/// let job = SendEmail::template().json(r#"{"to":"ada@example.org"}"#);
/// engine.enqueue(Enqueue::each([job])).await.unwrap();
/// assert_eq!(sent.recv().await.unwrap(), "ada@example.org");
/// worker.drain().await;
/// assert_eq!(worker.stats().completed, 1);
/// # });
/// ```
#[must_use = "a worker does nothing until it is started"]
pub struct Worker {
    shared: Arc<Shared>,
    companions: Vec<Companion>,
    /// Futures to wait for before the worker counts as stopped.
    leftovers: Vec<Task>,
}

impl Worker {
    /// Returns a builder for a worker on this engine.
    pub fn builder(engine: Arc<dyn Engine>) -> Builder {
        Builder::new(engine)
    }

    pub(crate) const fn new(
        shared: Arc<Shared>,
        companions: Vec<Companion>,
        leftovers: Vec<Task>,
    ) -> Self {
        Self { shared, companions, leftovers }
    }

    /// Starts the worker in the background. It runs until it is drained or aborted, even if every handle is
    /// dropped.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start(self) -> WorkerHandle {
        let runtime = Runtime::new(self.shared.clone());
        self.launch(runtime)
    }

    /// Starts the worker in the background and drains it as soon as it holds no job and finds nothing to
    /// claim: for tests, and for commands that process the current backlog.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start_until_idle(self) -> WorkerHandle {
        let runtime = Runtime::new(self.shared.clone()).until_idle();
        self.launch(runtime)
    }

    fn launch(self, runtime: Runtime) -> WorkerHandle {
        let Self { shared, companions, leftovers } = self;
        let (over, stopped) = watch::channel(None);
        let handle = WorkerHandle { shared: shared.clone(), stopped };
        tokio::spawn(async move {
            let until = watch::Sender::new(false);
            let companions: Vec<_> =
                companions.into_iter().map(|each| each.start(&shared, &until)).collect();
            let stopped = runtime.run().await;
            until.send_replace(true);
            let grace = tokio::time::sleep(shared.options.stop_grace);
            tokio::pin!(grace);
            for mut companion in companions {
                tokio::select! {
                    _ = &mut companion => {}
                    () = &mut grace => companion.abort(),
                }
            }
            join_all(leftovers).await;
            over.send_replace(Some(stopped));
        });
        handle
    }

    /// Starts the worker and waits until it is drained or aborted through a handle, e.g. one in a handler's
    /// data. Most programs use [`run_until_signal`](Self::run_until_signal).
    pub async fn run(self) -> Stopped {
        self.start().stopped().await
    }

    /// Runs until the process is asked to end (ctrl-c, SIGTERM), then drains. A second signal ends the worker
    /// at once; its remaining jobs are reclaimed when the session expires.
    ///
    /// # Errors
    /// If signal handlers cannot be installed.
    pub async fn run_until_signal(self) -> std::io::Result<Stopped> {
        let mut signals = Signals::listen()?;
        let handle = self.start();
        tokio::select! {
            stopped = handle.stopped() => return Ok(stopped),
            () = signals.next() => handle.shared.order(Order::Drain),
        }
        tokio::select! {
            stopped = handle.stopped() => Ok(stopped),
            () = signals.next() => Ok(handle.abort().await),
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Worker({})", self.shared.options.name)
    }
}

/// A handle to a running worker. Cheap to clone; the worker keeps running without it.
#[derive(Clone)]
pub struct WorkerHandle {
    shared: Arc<Shared>,
    stopped: watch::Receiver<Option<Stopped>>,
}

impl WorkerHandle {
    /// Health of the worker.
    pub fn health(&self) -> Health {
        let leaked = self.shared.pool.leaked();
        self.shared.counts.health(self.shared.options.unhealthy_after, leaked.into())
    }

    /// Counters of the worker since its start.
    pub fn stats(&self) -> Stats {
        self.shared.counts.stats(self.shared.pool.leaked_ever())
    }

    /// Stops gracefully: claims nothing more, lets handlers finish within the grace time, stops the remaining
    /// ones, releases their jobs so that others can start them at once, and delivers every result. All
    /// processes of commands have ended when this returns.
    pub async fn drain(&self) -> Stopped {
        self.shared.order(Order::Drain);
        self.stopped().await
    }

    /// Stops immediately. Handlers are dropped; their jobs are reclaimed when the session expires.
    pub async fn abort(&self) -> Stopped {
        self.shared.order(Order::Abort);
        self.stopped().await
    }

    /// Waits until the worker has stopped, for whatever reason.
    pub async fn stopped(&self) -> Stopped {
        let mut stopped = self.stopped.clone();
        let seen = stopped.wait_for(Option::is_some).await;
        // The channel closed without a value: the Tokio runtime of the worker is gone.
        seen.ok().and_then(|stopped| *stopped).unwrap_or_default()
    }
}

impl fmt::Debug for WorkerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerHandle({})", self.shared.options.name)
    }
}

/// The stop signal of a task that runs beside a worker.
#[derive(Clone, Debug)]
pub struct Until(watch::Receiver<bool>);

impl Until {
    /// Waits until the task should end.
    pub async fn stopped(&mut self) {
        // If the worker is gone, there is nothing left to wait for.
        let _ = self.0.wait_for(|stop| *stop).await;
    }

    /// Whether the task should end.
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

/// A boxed future without a result.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A task that runs beside a worker.
pub(crate) struct Companion {
    name: &'static str,
    make: Box<dyn FnOnce(Arc<dyn Engine>, Until) -> Task + Send>,
}

impl Companion {
    pub(crate) fn new<F, Fut>(name: &'static str, task: F) -> Self
    where
        F: FnOnce(Arc<dyn Engine>, Until) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Self { name, make: Box::new(move |engine, until| Box::pin(task(engine, until))) }
    }

    fn start(self, shared: &Shared, until: &watch::Sender<bool>) -> tokio::task::JoinHandle<()> {
        tracing::debug!(worker = %shared.options.name, task = self.name, "starting beside the worker");
        tokio::spawn((self.make)(shared.engine.clone(), Until(until.subscribe())))
    }
}

/// The signals that ask the process to end.
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    fn listen() -> std::io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
