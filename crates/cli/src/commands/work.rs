//! `windlass work`: runs a worker whose handlers are shell commands and HTTP calls. Also hosts the services, so
//! that a store needs no other process.

use crate::config::{Config, LogHandle};
use crate::exporter;
use crate::output::{note, print, print_json};
use crate::store::{Common, block_on};
use crate::traces::Traces;
use crate::values;
use crate::work::{Environment, HELP, Http, Limits, Probes, address, bind, serve};
use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::json;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use windlass::{Client, Url};
use windlass_core::model::{DEFAULT_QUEUE, Rate};
use windlass_services::{Services, ServicesHandle};
use windlass_worker::process::Process;
use windlass_worker::{BuildError, Worker, WorkerHandle};

/// Engine name of a store behind a server; the server counts outcomes itself.
const SERVED_ENGINE: &str = "remote";
/// Default log levels: everything the worker does, but only warnings of the services.
const LOG_DEFAULT: &str = "info,windlass_services=warn";
/// Interval at which `--until-empty` checks the queues.
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Queue to claim jobs from, in order of preference; can be repeated
    #[arg(long, short, value_name = "NAME", default_value = DEFAULT_QUEUE)]
    queue: Vec<String>,
    /// Shell command to run for each job of the kind; can be repeated
    #[arg(long, value_name = "KIND=COMMAND", value_parser = pair, required_unless_present = "http")]
    exec: Vec<Pair>,
    /// URL to post each job of the kind to; can be repeated
    #[arg(long, value_name = "KIND=URL", value_parser = pair)]
    http: Vec<Pair>,
    /// Number of jobs to run at a time [default: one per CPU]
    #[arg(long, short, value_name = "N")]
    concurrency: Option<u32>,
    /// Number of jobs of a kind to run at a time in this worker; can be repeated
    #[arg(long, value_name = "KIND=N", value_parser = kind_count)]
    kind_concurrency: Vec<(String, u32)>,
    /// Starts of jobs of a kind per period in this worker, e.g. mail=10/1s; can be repeated
    #[arg(long, value_name = "KIND=N/TIME", value_parser = kind_rate)]
    kind_rate: Vec<(String, Rate)>,
    /// Share of the started jobs that is guaranteed to jobs with this priority or a higher number, e.g. 10=20%; can be
    /// repeated
    #[arg(long, value_name = "PRIORITY=PERCENT", value_parser = floor, allow_hyphen_values = true)]
    floor: Vec<(i32, u32)>,
    /// Timeout of jobs that do not set their own
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "1h")]
    timeout: Duration,
    /// Time that running jobs have to finish after SIGTERM or SIGINT
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "25s")]
    grace: Duration,
    /// Delay before a job whose command exited with code 75 runs again
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "30s")]
    snooze: Duration,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    environment: Environment,
    /// Name of this worker [default: windlass-work-PID]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Address at which to serve /healthz and /metrics, e.g. 9090 (on the loopback interface) or 0.0.0.0:9090
    #[arg(long, value_name = "ADDR", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Exit when these queues have no more jobs of these kinds, neither ready nor scheduled
    #[arg(long)]
    until_empty: bool,
}

/// A kind and its handler: a shell command or a URL.
#[derive(Clone, Debug)]
struct Pair {
    kind: String,
    what: String,
}

fn pair(text: &str) -> Result<Pair, String> {
    match text.split_once('=') {
        Some((kind, what)) if !kind.is_empty() && !what.trim().is_empty() => {
            Ok(Pair { kind: kind.to_owned(), what: what.to_owned() })
        }
        _ => Err(format!(
            "invalid handler {text:?}: use KIND=COMMAND or KIND=URL, e.g. resize='./resize.sh'"
        )),
    }
}

/// Parses the number of jobs of a kind.
fn kind_count(text: &str) -> Result<(String, u32), String> {
    let read = text.rsplit_once('=').and_then(|(kind, count)| Some((kind, count.parse().ok()?)));
    let wrong = || format!("invalid number of jobs {text:?} (try resize=2)");
    read.map(|(kind, count)| (kind.to_owned(), count)).ok_or_else(wrong)
}

/// Parses the rate of a kind.
fn kind_rate(text: &str) -> Result<(String, Rate), String> {
    let wrong = || format!("invalid rate {text:?} (try mail=10/1s)");
    let (kind, rate) = text.rsplit_once('=').ok_or_else(wrong)?;
    let (amount, per_ms) = values::rate(rate).map_err(|_| wrong())?;
    Ok((kind.to_owned(), Rate::bucket(amount, per_ms)))
}

/// Parses the floor of a priority.
fn floor(text: &str) -> Result<(i32, u32), String> {
    let read = text.split_once('=').and_then(|(priority, percent)| {
        let percent = percent.strip_suffix('%').unwrap_or(percent);
        Some((priority.parse().ok()?, percent.parse().ok()?))
    });
    read.ok_or_else(|| format!("invalid floor {text:?} (try 10=20%)"))
}

impl Args {
    pub(super) const fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn run(self) -> Result<ExitCode> {
        if self.limits.any() && self.exec.is_empty() {
            bail!("--memory-max, --processes-max and --cpu-max require --exec");
        }
        if self.environment.any() && self.exec.is_empty() {
            bail!("--env and --pass-env require --exec");
        }
        let commands = self.commands()?;
        hide_environment().context("cannot hide the environment of this worker")?;
        let mut config = self.common.config()?;
        config.log_by_default(LOG_DEFAULT)?;
        block_on(async {
            let traces = Traces::start(&config.fixed.traces);
            LogHandle::start(&config.fixed, traces.tracer())?;
            let worked = self.work(commands, config).await;
            traces.stop().await;
            worked
        })
    }

    /// The commands of `--exec`, checked to be able to run under their limits.
    fn commands(&self) -> Result<Vec<Process>> {
        let commands = self.exec.iter().map(|Pair { what, .. }| {
            let process = self.limits.on(Process::shell(what).snooze(self.snooze));
            let process = self.environment.on(process);
            process.check().map_err(in_flags)?;
            Ok(process)
        });
        commands.collect()
    }

    async fn work(self, commands: Vec<Process>, config: Config) -> Result<ExitCode> {
        let mut signals = Signals::listen()?;
        let listener = match self.listen {
            Some(address) => Some((bind(address).await?, exporter::record()?)),
            None => None,
        };
        let client = self.common.open_for_work().await?;
        let worker = self.worker(&client, commands)?;
        let services = self.services(&client, &config)?;
        let handle = worker.start();
        let probes = listener.map(|(listener, metrics)| {
            let address = listener.local_addr();
            let address = address.map_or_else(|error| error.to_string(), |it| it.to_string());
            note(&format!("serving /healthz and /metrics on http://{address}"));
            let probes = Probes {
                health: health(handle.clone()),
                metrics: Arc::new(move || metrics.render()),
            };
            AbortOnDrop(tokio::spawn(serve(listener, probes)))
        });
        let drain = async {
            tokio::select! {
                () = signals.next() => {}
                () = self.empty(&client), if self.until_empty => {}
            }
        };
        tokio::select! {
            _ = handle.stopped() => {}
            () = drain => {}
        }
        let stopped = tokio::select! {
            stopped = handle.drain() => stopped,
            () = signals.next() => handle.abort().await,
        };
        if let Some(services) = services {
            services.stop().await;
        }
        drop(probes);
        self.end(&handle)?;
        Ok(match stopped.undelivered {
            0 => ExitCode::SUCCESS,
            jobs => {
                eprintln!("the outcome of {jobs} jobs could not be stored; they will run again");
                ExitCode::FAILURE
            }
        })
    }

    fn worker(&self, client: &Client, commands: Vec<Process>) -> Result<Worker> {
        let concurrency = self.concurrency.unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32)
        });
        let name = self.name();
        let mut builder = Worker::builder(Arc::clone(client.engine()))
            .name(name)
            .counts_outcomes(client.engine().capabilities().engine != SERVED_ENGINE)
            .concurrency(concurrency)
            .timeout(self.timeout)
            .grace(self.grace);
        for queue in &self.queue {
            builder = builder.queue(queue);
        }
        for (kind, jobs) in &self.kind_concurrency {
            builder = builder.kind_limit(kind, *jobs);
        }
        for (kind, rate) in &self.kind_rate {
            builder = builder.kind_rate(kind, *rate);
        }
        for (from_priority, percent) in &self.floor {
            builder = builder.floor(*from_priority, *percent);
        }
        for (Pair { kind, .. }, process) in self.exec.iter().zip(commands) {
            builder = builder.handle_process(kind, process);
        }
        for Pair { kind, what } in &self.http {
            let http = Http::new(what).map_err(anyhow::Error::msg);
            builder = builder.handle_kind(kind, http.with_context(|| format!("--http {kind}"))?);
        }
        builder.build().map_err(in_flags)
    }

    fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("windlass-work-{}", std::process::id()))
    }

    fn services(&self, client: &Client, config: &Config) -> Result<Option<ServicesHandle>> {
        let Some(mut options) = config.fixed.services.hosted().cloned() else { return Ok(None) };
        options.label = self.name();
        // A store that only this process uses needs no leader election, and so no wait for the old leadership
        // to expire after a crash.
        options.leadership &= !matches!(self.common.url()?, Url::Memory | Url::File(_));
        Ok(Some(Services::builder(Arc::clone(client.engine())).options(options).start()?))
    }

    /// Waits until no job of this worker's queues and kinds is left.
    async fn empty(&self, client: &Client) {
        let is_ours = |queue: &str, kind: &str| {
            let mut pairs = self.exec.iter().chain(&self.http);
            self.queue.iter().any(|it| it == queue) && pairs.any(|pair| pair.kind == kind)
        };
        loop {
            // An unavailable store does not count as empty.
            if let Ok(lanes) = client.stats().await
                && !lanes.iter().any(|lane| {
                    let left = lane.scheduled + lane.blocked + lane.available + lane.running;
                    left > 0 && is_ours(&lane.queue, &lane.kind)
                })
            {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn end(&self, handle: &WorkerHandle) -> Result<()> {
        let stats = handle.stats();
        if self.common.json {
            return print_json(&json!({
                "claimed": stats.claimed, "completed": stats.completed, "retried": stats.retried,
                "failed": stats.failed, "snoozed": stats.snoozed, "released": stats.released,
                "cancelled": stats.cancelled, "leases_lost": stats.leases_lost,
            }));
        }
        print(&format!(
            "{} completed, {} failed attempts, {} failed permanently, {} released\n",
            stats.completed, stats.retried, stats.failed, stats.released
        ))
    }
}

/// Ends a task with its owner.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether the worker is healthy, and its counters as JSON.
fn health(handle: WorkerHandle) -> Arc<dyn Fn() -> (bool, String) + Send + Sync> {
    Arc::new(move || {
        let (health, stats) = (handle.health(), handle.stats());
        let text = json!({
            "healthy": health.healthy, "consuming": health.consuming,
            "heartbeat_age_ms": health.heartbeat_age.map(windlass_core::time::millis),
            "in_flight": health.in_flight, "buffered": health.buffered,
            "claimed": stats.claimed, "completed": stats.completed, "retried": stats.retried,
            "failed": stats.failed, "store_errors": stats.store_errors,
        });
        (health.healthy, text.to_string())
    })
}

/// Prevents commands that run as the same user from reading this process's environment in `/proc`, which may
/// contain keys and passwords. Side effects: no core dumps, and no debugger without root.
fn hide_environment() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Rewrites the option in an error to the name of its flag.
fn in_flags(error: BuildError) -> anyhow::Error {
    match error {
        BuildError::Option { option, value, expected } => {
            anyhow!("--{} is {value}: {expected}", flag(option))
        }
        BuildError::Unknown { option, name } => {
            anyhow!("--{} names {name:?}, which has no --exec and no --http", flag(option))
        }
        error => error.into(),
    }
}

/// The flag that sets an option of a worker.
fn flag(option: &str) -> String {
    match option {
        "kind_limit" => "kind-concurrency".to_owned(),
        option => option.replace('_', "-"),
    }
}

/// SIGTERM and SIGINT, which stop a worker.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(Self { terminate: listen(terminate)?, interrupt: listen(interrupt)? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
