//! The client process itself: opens the store, runs the clients, reports their counts, and obeys orders. The
//! behaviour of each client is in `producer`, `worker`, `rogue` and `operator`.

use super::journal::Lines;
use super::operator::Operator;
use super::participants::Role;
use super::producer::Producer;
use super::rogue::Rogue;
use super::stage::{Stage, left};
use super::{CALL_MAX, worker};
use crate::connect::Url;
use crate::store::block_on;
use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::io::BufRead as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use windlass_core::engine::Engine;
use windlass_core::{Error, Result as EngineResult};
use windlass_layers::Coalesce;

/// Interval at which counts are sent to the parent.
const COUNTS_EVERY: Duration = Duration::from_millis(300);
/// Delay between two attempts to open an unavailable store.
const OPEN_AGAIN: Duration = Duration::from_millis(50);
/// Maximum number of idle connections to a server.
const CONNECTIONS_KEPT: usize = 8;

/// The specification of a client process, sent as the first line of its stdin. Not as an argument: other users
/// can read those, and a URL may contain a password.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Spec {
    /// URL of the store, or of the proxy in front of it.
    pub(super) url: Url,
    /// The queue of this run.
    pub(super) queue: String,
    /// The roles of the clients in this process.
    pub(super) roles: Vec<Role>,
    /// Name of the process and of its journal.
    pub(super) name: String,
    /// Directory of the journal.
    pub(super) evidence: PathBuf,
    /// Number of the first client; the others have the following numbers.
    pub(super) client: u32,
    /// Seed of the clients' random decisions.
    pub(super) seed: u64,
    /// Retention of ended jobs, if they are removed during the run.
    pub(super) retention_ms: Option<u64>,
    /// Whether jobs run under limits.
    pub(super) limits: bool,
    /// Whether some jobs form graphs.
    pub(super) flows: bool,
}

/// An order to a client process, sent on later lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// All clients work.
    Work,
    /// Producers and operators end; the others process the remaining jobs.
    Rest,
    /// All clients end.
    Stop,
}

/// A message from a client process, one per line of its stdout.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    /// The store is open.
    Open,
    /// The current counts.
    Counts(Counts),
    /// A result that the contract does not allow.
    Bad(String),
}

/// Counts of the clients of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    /// Jobs whose enqueue was acknowledged.
    pub(super) acknowledged: u64,
    /// Jobs that the clients ended.
    pub(super) ended: u64,
    /// Unfinished jobs according to the store; sent only by a process that owns the store.
    pub(super) left: Option<u64>,
}

/// Runs the client process.
pub(crate) fn run_client() -> Result<ExitCode> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let spec: Spec = serde_json::from_str(&line).context(
        "cannot read the specification of the client; this command is for `windlass torture` only",
    )?;
    // A stopped process cannot notice that its parent has ended; the kernel can.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let (order, orders) = watch::channel(Order::Work);
    std::thread::spawn(move || obey(&order));
    block_on(run(spec, orders))
}

/// Forwards orders; exits at the end of the input, which means that the parent has ended.
fn obey(order: &watch::Sender<Order>) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        if let Ok(reported) = serde_json::from_str(&line) {
            order.send_replace(reported);
        }
    }
    std::process::exit(1);
}

async fn run(spec: Spec, orders: watch::Receiver<Order>) -> Result<ExitCode> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let journal = Lines::create(&spec.evidence, &spec.name)?;
    let Some(engine) = open(&spec.url, &orders).await? else { return Ok(ExitCode::SUCCESS) };
    send(&Message::Open);
    let stage = Arc::new(Stage::new(spec, engine, journal, orders));
    let counting = tokio::spawn(count(stage.clone()));
    let mut clients = JoinSet::new();
    for (number, role) in stage.spec.roles.clone().into_iter().enumerate() {
        let (stage, number) = (stage.clone(), number as u64);
        match role {
            Role::Producer => clients.spawn(Producer::new(stage, number).run()),
            Role::Worker => clients.spawn(worker::run(stage, number)),
            Role::Rogue => clients.spawn(Rogue::new(stage, number).run()),
            Role::Forgetful => clients.spawn(Rogue::forgetful(stage, number).run()),
            Role::Operator => clients.spawn(Operator::new(stage, number).run()),
        };
    }
    while let Some(ended) = clients.join_next().await {
        ended.context("a client panicked")?;
    }
    counting.abort();
    stage.report_counts(None);
    Ok(ExitCode::SUCCESS)
}

/// Opens the store, retrying while it is unavailable; `None` if the process was ordered to stop.
async fn open(url: &Url, orders: &watch::Receiver<Order>) -> Result<Option<Arc<dyn Engine>>> {
    while *orders.borrow() != Order::Stop {
        match tokio::time::timeout(CALL_MAX, open_once(url, CALL_MAX)).await {
            Ok(Err(Error::Unavailable { .. } | Error::InUse { .. })) | Err(_) => {
                tokio::time::sleep(OPEN_AGAIN).await;
            }
            Ok(opened) => return Ok(Some(opened.with_context(|| format!("cannot open {url}"))?)),
        }
    }
    Ok(None)
}

/// Opens the engine as applications do, with `patience` as the timeout of a server.
pub(super) async fn open_once(url: &Url, patience: Duration) -> EngineResult<Arc<dyn Engine>> {
    match url {
        Url::Http(server) => {
            let mut options = windlass_remote::Options::new(server);
            options.connect_timeout = patience;
            options.answer_timeout = patience;
            options.idle_connections_max = CONNECTIONS_KEPT;
            Ok(Arc::new(windlass_remote::RemoteEngine::open(options).await?))
        }
        Url::Postgres(at) => {
            let options = windlass_postgres::Options::new(at.server()).schema(at.schema());
            let engine = windlass_postgres::PostgresEngine::connect(options).await?;
            Ok(Arc::new(Coalesce::new(Arc::new(engine))))
        }
        Url::Redis(at) => {
            let engine = windlass_redis::RedisEngine::connect(at.options()).await?;
            Ok(Arc::new(Coalesce::new(Arc::new(engine))))
        }
        Url::File(dir) => {
            let options = windlass_local::Options::new(dir);
            let opening =
                tokio::task::spawn_blocking(|| windlass_local::LocalEngine::open(options));
            let broken = |error: tokio::task::JoinError| Error::Corrupt {
                store: dir.display().to_string(),
                reason: format!("opening it panicked: {error}"),
            };
            Ok(Arc::new(Coalesce::new(Arc::new(opening.await.map_err(broken)??))))
        }
        _ => {
            Err(Error::invalid("url", url, "file:DIR, postgres://…, redis://… or http://HOST:PORT"))
        }
    }
}

/// Sends the counts until the task is aborted.
async fn count(stage: Arc<Stage>) {
    loop {
        let left = match &stage.spec.url {
            // Only this process can read a directory that it owns.
            Url::File(_) => left(&*stage.engine, &stage.spec.queue).await.ok(),
            _ => None,
        };
        stage.report_counts(left);
        tokio::time::sleep(COUNTS_EVERY).await;
    }
}

/// Writes a message. An error means that the parent has ended, and is ignored.
pub(super) fn send(reported: &Message) {
    use std::io::Write as _;
    let line = serde_json::to_string(reported).unwrap_or_default();
    let _ = writeln!(std::io::stdout(), "{line}");
}
