//! `windlass serve`: serves a store as an HTTP API. Opens the store and handles signals; the HTTP API itself is
//! in the server crate.

use crate::config::{Config, Flag, Inputs, LogHandle, Reloader, Setup};
use crate::connect::Url;
use crate::disk::Disk;
use crate::exporter;
use crate::open_files;
use crate::traces::Traces;
use anyhow::{Context as _, Result, bail, ensure};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tracing::warn;
use windlass::OpenOptions;
use windlass_core::Error;
use windlass_core::engine::Engine;
use windlass_local::LocalEngine;
use windlass_postgres::PostgresEngine;
use windlass_server::Server;
use windlass_services::KeyRing;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Configuration file [default: ./windlass.toml if it exists, or WINDLASS_CONFIG]
    #[arg(long, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Setting by its key in `windlass config example`, e.g. server.grace=30s; can be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// Store: file:DIR (durable, in one directory), postgres://USER@HOST/DATABASE or redis://HOST:PORT
    /// (shared by any number of processes) or memory: (not persistent) [default: file:./windlass-data]
    #[arg(long, visible_alias = "url", value_name = "URL")]
    store: Option<String>,
    /// Address to listen on [default: 127.0.0.1:7474]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Accepted host name besides localhost, e.g. that of a proxy in front of the server; can be repeated
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Listen on a non-loopback address even if the store has no keys, which gives everyone who can reach the
    /// server full access
    #[arg(long)]
    insecure: bool,
    /// PEM file with the TLS certificate; enables encryption
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// PEM file with the private key of the certificate
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// PEM file with the authorities whose client certificates are accepted (`keys create --certificate`)
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<String>,
    /// Refuse jobs of kinds that are not registered
    #[arg(long)]
    strict_kinds: bool,
    /// Default depth limit per queue, for queues without a --max-depth [default: 100000]
    #[arg(long, value_name = "JOBS")]
    soft_depth: Option<String>,
    /// Upper depth limit of any queue, even if its own --max-depth is higher [default: 500000]
    #[arg(long, value_name = "JOBS")]
    hard_depth: Option<String>,
    /// Maximum jobs per second from each client; the burst after a pause is as large [default: unlimited]
    #[arg(long, value_name = "JOBS")]
    jobs_per_second: Option<String>,
    /// Maximum size of a payload, up to 16M; the store keeps it [default: that of the store, 64K in a new one]
    #[arg(long, value_name = "SIZE")]
    payload_max: Option<String>,
    /// Do not migrate the tables of a PostgreSQL store; refuse to start if they are outdated
    #[arg(long)]
    no_migrate: bool,
    /// Label queue metrics by kind, too; adds series to /metrics
    #[arg(long)]
    metrics_by_kind: bool,
    /// Export the number of ready jobs and the wait of the oldest per priority at /metrics, too
    #[arg(long)]
    metrics_by_priority: bool,
    /// Disk limit of the store, e.g. 10G: warns when 80 % of it is used. Counts the size of the database or of
    /// the directory [default: a directory is measured by its file system, a database is not]
    #[arg(long, value_name = "SIZE")]
    disk_limit: Option<String>,
    /// Time until another process takes over the services after the one running them was killed, in
    /// milliseconds
    #[arg(long, hide = true, value_name = "MS")]
    lead_ttl_ms: Option<u64>,
    /// Log level on stderr: off, error, warn, info, debug or trace [default: warn]
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let pair = pair.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()));
    pair.ok_or_else(|| format!("invalid setting {text:?}: use KEY=VALUE, e.g. server.grace=30s"))
}

impl Args {
    /// Serves with the flags, the environment variables and the configuration file.
    pub(super) fn run(self) -> Result<ExitCode> {
        self.start(self.inputs())
    }

    /// Serves with the flags alone.
    pub(super) fn run_alone(self) -> Result<ExitCode> {
        self.start(Inputs { flags: self.flags(), ..Inputs::default() })
    }

    /// The flags, the environment variables and the configuration file.
    pub(super) fn inputs(&self) -> Inputs {
        Inputs::around(self.config.clone(), self.flags())
    }

    /// The flags as settings, by key.
    fn flags(&self) -> Vec<Flag> {
        let flag =
            |key: &str, flag, text: &str| Flag { key: key.to_owned(), flag, text: text.to_owned() };
        let mut flags: Vec<_> =
            self.settings.iter().map(|(key, text)| flag(key, "--set", text)).collect();
        let lead_ttl = self.lead_ttl_ms.map(|ms| format!("{ms}ms"));
        let inputs = [
            ("store.url", "--store", self.store.as_deref()),
            ("store.migrate", "--no-migrate", self.no_migrate.then_some("false")),
            ("store.payload_bytes_max", "--payload-max", self.payload_max.as_deref()),
            ("server.listen", "--listen", self.listen.as_deref()),
            ("store.disk_limit", "--disk-limit", self.disk_limit.as_deref()),
            ("server.insecure", "--insecure", self.insecure.then_some("true")),
            ("server.tls_cert", "--tls-cert", self.tls_cert.as_deref()),
            ("server.tls_key", "--tls-key", self.tls_key.as_deref()),
            ("server.tls_client_ca", "--tls-client-ca", self.tls_client_ca.as_deref()),
            ("server.metrics_by_kind", "--metrics-by-kind", self.metrics_by_kind.then_some("true")),
            (
                "server.metrics_by_priority",
                "--metrics-by-priority",
                self.metrics_by_priority.then_some("true"),
            ),
            ("server.strict_kinds", "--strict-kinds", self.strict_kinds.then_some("true")),
            ("server.soft_depth", "--soft-depth", self.soft_depth.as_deref()),
            ("server.hard_depth", "--hard-depth", self.hard_depth.as_deref()),
            ("server.jobs_per_second", "--jobs-per-second", self.jobs_per_second.as_deref()),
            ("services.lead_ttl", "--lead-ttl-ms", lead_ttl.as_deref()),
            ("log.level", "--log", self.log.as_deref()),
        ];
        let inputs = inputs
            .into_iter()
            .filter_map(|(key, name, text)| text.map(|text| flag(key, name, text)));
        flags.extend(inputs);
        if !self.hosts.is_empty() {
            flags.push(flag("server.hosts", "--host", &self.hosts.join(",")));
        }
        flags
    }

    fn start(&self, inputs: Inputs) -> Result<ExitCode> {
        let config = Config::load(&inputs)?;
        config.store()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.context("cannot start the async runtime")?.block_on(async {
            let traces = Traces::start(&config.fixed.traces);
            let log = LogHandle::start(&config.fixed, traces.tracer())?;
            let served = serve(inputs, config, log).await;
            traces.stop().await;
            served
        })
    }
}

async fn serve(inputs: Inputs, config: Config, log: LogHandle) -> Result<ExitCode> {
    open_files::raise_limit();
    let fixed = &config.fixed;
    // Before anything else, so that no signal is missed once the server has announced itself.
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for ctrl-c")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    let mut options = fixed.server.options.clone().services(fixed.services.hosted().cloned());
    options.tls = fixed.server.tls();
    options.traces = fixed.traces.endpoint.is_some();
    let disk = Disk::new(fixed.store.disk_limit);
    let options = options.store(fixed.store.url.to_string()).disk(disk.probe(&fixed.store.url)?);
    let server = Server::bind(options.exporter(exporter::install()?)).await?;
    let url = reachable(server.address(), fixed.server.tls_cert.is_some());
    let store = found_store(&config);
    let setup = Arc::new(Setup::new(config));
    let mut asks = KeyRequirement::Unknown;
    let with = setup.config().fixed.store.open_options();
    let (handle, changed) = match open(store.clone(), with, url.clone(), &disk).await {
        Ok(engine) => {
            asks = KeyRequirement::found(&*engine).await?;
            ensure_locked(&setup.config(), asks)?;
            let changed = setup.opened(engine.clone()).await?;
            (server.serve(engine)?, changed)
        }
        Err(error) if may_open_later(&error) => {
            ensure_locked(&setup.config(), asks).with_context(|| format!("{error:#}"))?;
            println!(
                "{error:#}\nserving without the store until it answers; requests get status 503\n"
            );
            let (at, setup) = (url.clone(), setup.clone());
            let open = move || reopen(store.clone(), with, at.clone(), disk.clone(), setup.clone());
            (server.serve_once_open(open)?, Vec::new())
        }
        Err(error) => return Err(error),
    };
    println!("{}", greeting(&setup.config(), &changed, &url, asks));
    let reloader = Reloader::new(inputs, setup, handle.clone(), log);
    let mut reloading = tokio::spawn(reloader.run(hangup));
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = &mut reloading => {}
    }
    say("stopping: finishing requests in flight; a second signal stops immediately");
    // The reloader holds a reference to the engine, which must be released.
    reloading.abort();
    if !reloading.is_finished() {
        let _ = reloading.await;
    }
    tokio::select! {
        () = handle.stop() => {}
        _ = interrupt.recv() => return Ok(ExitCode::FAILURE),
        _ = terminate.recv() => return Ok(ExitCode::FAILURE),
    }
    say("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Whether the server requires keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyRequirement {
    /// The store has keys, so clients need one.
    Keys,
    /// The store has no keys, so requests are not authenticated.
    Nothing,
    /// The store is not open yet.
    Unknown,
}

impl KeyRequirement {
    async fn found(engine: &dyn Engine) -> Result<Self> {
        let ring =
            KeyRing::read(engine, None).await.context("cannot read the keys of the store")?;
        Ok(if ring.is_empty() { Self::Nothing } else { Self::Keys })
    }
}

/// Fails if unauthenticated clients on other machines would have full access: a server on a non-loopback
/// address needs keys, client certificates, or `--insecure`.
fn ensure_locked(config: &Config, asks: KeyRequirement) -> Result<()> {
    let (server, store) = (&config.fixed.server, &config.fixed.store.url);
    let listen = server.options.listen;
    let is_locked = asks == KeyRequirement::Keys || server.tls_client_ca.is_some();
    if listen.ip().is_loopback() || server.options.insecure || is_locked {
        return Ok(());
    }
    ensure!(
        asks == KeyRequirement::Nothing,
        "server.listen is {listen}, which is reachable from other machines, and whether {store} has keys \
         is unknown while it is unavailable; start again when it answers, listen on 127.0.0.1, or use \
         --insecure (server.insecure = true) on a trusted network"
    );
    bail!(
        "server.listen is {listen}, which is reachable from other machines, and {store} has no keys, so \
         everyone would have full access; create the first key (`windlass keys create --name admin --may \
         admin --store {store}`), listen on 127.0.0.1, or use --insecure (server.insecure = true) on a \
         trusted network"
    )
}

/// Prints a line to stdout; a closed stdout is no error.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// The URL of the store, with migrations disabled if the configuration says so.
fn found_store(config: &Config) -> Url {
    match &config.fixed.store.url {
        // Only overridden here if disabled: the URL itself may disable migrations, too.
        Url::Postgres(at) if !config.fixed.store.migrate => {
            Url::Postgres(at.with_migrations(false))
        }
        other => other.clone(),
    }
}

/// Opens the store. A directory also stores `url`, at which other processes reach this server.
async fn open(store: Url, with: OpenOptions, url: String, disk: &Disk) -> Result<Arc<dyn Engine>> {
    let dir = match &store {
        Url::File(dir) => dir.clone(),
        Url::Postgres(at) => {
            let options = windlass_postgres::Options::new(at.server());
            let mut options = options.schema(at.schema()).migrate(at.migrates());
            if let Some(bytes_max) = with.payload_bytes_max {
                options = options.payload_bytes_max(bytes_max);
            }
            let opened = PostgresEngine::connect(options).await;
            let open = |source| windlass::Error::Open { url: store.to_string(), source };
            let engine = opened.map_err(open)?;
            disk.found(engine.clone());
            return Ok(Arc::new(engine));
        }
        _ => return Ok(store.open_with(with).await?),
    };
    let mut options = windlass_local::Options::new(&dir).address(url);
    if let Some(bytes_max) = with.payload_bytes_max {
        options = options.payload_bytes_max(bytes_max);
    }
    // Reading and recovering files blocks.
    let opened = tokio::task::spawn_blocking(move || {
        if let Some(warning) = windlass_local::exposure(&dir) {
            warn!("{warning}");
        }
        LocalEngine::open(options)
    })
    .await?;
    let engine = match opened {
        // A full disk may have space later, so this error is retried; others would recur.
        Err(source @ Error::StoreFull { .. }) => {
            return Err(windlass::Error::Open { url: store.to_string(), source }.into());
        }
        opened => opened.with_context(|| format!("cannot open {store}"))?,
    };
    disk.found_directory(engine.space());
    Ok(Arc::new(engine))
}

/// Whether opening the store may succeed later: it is unreachable, or its disk is full. Other errors would
/// recur.
fn may_open_later(error: &anyhow::Error) -> bool {
    let opened = error.downcast_ref::<windlass::Error>();
    let source = opened.and_then(|opened| match opened {
        windlass::Error::Open { source, .. } => Some(source),
        _ => None,
    });
    matches!(source, Some(Error::Unavailable { .. } | Error::StoreFull { .. }))
}

/// Opens the store again and applies the configuration to it.
async fn reopen(
    store: Url,
    with: OpenOptions,
    url: String,
    disk: Disk,
    setup: Arc<Setup>,
) -> windlass_core::Result<Arc<dyn Engine>> {
    let name = store.to_string();
    let opened = async {
        let engine = open(store, with, url, &disk).await?;
        for line in setup.opened(engine.clone()).await? {
            say(&line);
        }
        Ok(engine)
    };
    opened.await.map_err(|error: anyhow::Error| match error.downcast::<windlass::Error>() {
        Ok(windlass::Error::Open { source, .. }) => source,
        Ok(other) => Error::Unavailable { store: name, reason: other.to_string() },
        Err(other) => Error::Unavailable { store: name, reason: format!("{other:#}") },
    })
}

/// A URL at which this machine reaches `address`.
fn reachable(mut address: SocketAddr, tls: bool) -> String {
    if address.ip().is_unspecified() {
        let loopback =
            if address.is_ipv4() { [127, 0, 0, 1].into() } else { [0, 0, 0, 0, 0, 0, 0, 1].into() };
        address.set_ip(loopback);
    }
    let scheme = if tls { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// The text printed at the start: the store, the address, and commands to try.
fn greeting(config: &Config, changed: &[String], url: &str, asks: KeyRequirement) -> String {
    let store = &config.fixed.store.url;
    let kept = match store {
        Url::Memory => "in memory only, lost when the server stops",
        Url::File(_) => "durable; owned by one process at a time",
        Url::Postgres(_) => "durable; shared by any number of processes",
        Url::Redis(_) => "as durable as its server; shared by any number of processes",
        _ => "remote",
    };
    let (asks, curl) = match asks {
        KeyRequirement::Keys => (
            "requires a key: set WINDLASS_KEY=wl_… for the commands below\n",
            "curl -H \"Authorization: Bearer $WINDLASS_KEY\"",
        ),
        KeyRequirement::Nothing => (
            "no keys yet: accepts unauthenticated requests; create the first key with `windlass keys create`\n",
            "curl",
        ),
        KeyRequirement::Unknown => ("", "curl"),
    };
    let file = config.file.as_ref().map(|path| format!("configured by {}\n", path.display()));
    let file = file.unwrap_or_default();
    let said = config.notes.iter().chain(changed).map(|line| format!("  {line}\n"));
    let said: String = said.collect();
    format!(
        "windlass serves {store} ({kept})\n\
         {file}{said}\
         listening on {url}\n\
         {asks}\n\
         dashboard:        {url}/\n\
         metrics:          {url}/metrics\n\
         enqueue a job:    {curl} --json '{{\"kind\":\"hello\",\"payload\":{{\"name\":\"Ada\"}}}}' {url}/v1/jobs\n\
         claim a job:      {curl} --json '{{\"queues\":[\"default\"],\"wait_ms\":10000}}' {url}/v1/claim\n\
         settle it:        {curl} --json '{{\"items\":[{{\"id\":\"…\",\"lease\":\"…\",\"outcome\":\"complete\"}}]}}' {url}/v1/settle\n\
         list jobs:        {curl} {url}/v1/jobs\n\n\
         stop with ctrl-c"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_address_is_shown_as_a_reachable_one() {
        assert_eq!(reachable("0.0.0.0:7474".parse().unwrap(), false), "http://127.0.0.1:7474");
        assert_eq!(reachable("[::]:7474".parse().unwrap(), true), "https://[::1]:7474");
        assert_eq!(reachable("10.0.0.1:80".parse().unwrap(), false), "http://10.0.0.1:80");
    }
}
