//! A process with clients in it, from its own side: opens the store, lets the clients loose, tells what
//! they count, and obeys. What each does is in `producer`, `worker`, `rogue` and `operator`.

use super::cast::Role;
use super::journal::Lines;
use super::operator::Operator;
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

/// How often the counts are told.
const COUNTS_EVERY: Duration = Duration::from_millis(300);
/// Between two tries to open a store that does not answer.
const OPEN_AGAIN: Duration = Duration::from_millis(50);
/// Connections that a client in this process keeps to a server.
const CONNECTIONS_KEPT: usize = 8;

/// What a process is told on the first line of its input. Not in an argument: everybody can read those,
/// and a URL may hold a password.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Spec {
    /// The store, or the proxy in front of it.
    pub(super) url: Url,
    /// The queue of this run.
    pub(super) queue: String,
    /// Who lives here.
    pub(super) roles: Vec<Role>,
    /// What the process is called: its journal too.
    pub(super) name: String,
    /// Where the journal goes.
    pub(super) evidence: PathBuf,
    /// The number of the first client; the others follow.
    pub(super) client: u32,
    /// Decides what the clients leave to chance.
    pub(super) seed: u64,
    /// How long ended jobs are kept, if they are removed during the run.
    pub(super) retention_ms: Option<u64>,
}

/// What a process is told on later lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// Everybody at work.
    Work,
    /// Producers and operators end; others work on what is there.
    Rest,
    /// Everybody ends.
    Stop,
}

/// What a process tells, a line each.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Told {
    /// The store is open.
    Open,
    /// What was counted so far.
    Counts(Counts),
    /// An answer that the contract does not allow.
    Bad(String),
}

/// What the clients of a process counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    /// Jobs whose enqueue was acknowledged.
    pub(super) acknowledged: u64,
    /// Jobs that were ended.
    pub(super) ended: u64,
    /// Jobs that are still to be done, as far as the store says; told only by a process that owns it.
    pub(super) left: Option<u64>,
}

/// The process itself.
pub(crate) fn run_client() -> Result<ExitCode> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let spec: Spec = serde_json::from_str(&line).context(
        "cannot read what this process is to do; this command is for `windlass torture` alone",
    )?;
    // A process that stands still cannot notice that its parent is gone; the system can.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let (order, orders) = watch::channel(Order::Work);
    std::thread::spawn(move || obey(&order));
    block_on(run(spec, orders))
}

/// Passes orders on; the end of the input is the end of the parent.
fn obey(order: &watch::Sender<Order>) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        if let Ok(told) = serde_json::from_str(&line) {
            order.send_replace(told);
        }
    }
    std::process::exit(1);
}

async fn run(spec: Spec, orders: watch::Receiver<Order>) -> Result<ExitCode> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let journal = Lines::create(&spec.evidence, &spec.name)?;
    let Some(engine) = open(&spec.url, &orders).await? else { return Ok(ExitCode::SUCCESS) };
    say(&Told::Open);
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
    stage.tell(None);
    Ok(ExitCode::SUCCESS)
}

/// Opens the store, again and again while it does not answer; `None` if nobody waits for it any more.
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

/// The engine as applications have it, which a server may let wait for so long.
pub(super) async fn open_once(url: &Url, patience: Duration) -> EngineResult<Arc<dyn Engine>> {
    match url {
        Url::Http(server) => {
            let mut options = windlass_remote::Options::new(server);
            options.connect_timeout_ms = patience.as_millis() as u64;
            options.answer_timeout_ms = patience.as_millis() as u64;
            options.idle_connections_max = CONNECTIONS_KEPT;
            Ok(Arc::new(windlass_remote::RemoteEngine::open(options).await?))
        }
        Url::Postgres(at) => {
            let options = windlass_postgres::Options::new(at.server()).schema(at.schema());
            let engine = windlass_postgres::PostgresEngine::connect(options).await?;
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
        _ => Err(Error::invalid("url", url, "file:DIR, postgres://… or http://HOST:PORT")),
    }
}

/// Tells the counts, for as long as anybody works.
async fn count(stage: Arc<Stage>) {
    loop {
        let left = match &stage.spec.url {
            // Nobody else can look into a directory that this process owns.
            Url::File(_) => left(&*stage.engine, &stage.spec.queue).await.ok(),
            _ => None,
        };
        stage.tell(left);
        tokio::time::sleep(COUNTS_EVERY).await;
    }
}

/// Writes a line. Nobody reads it if the parent is gone, and then all is over anyway.
pub(super) fn say(told: &Told) {
    use std::io::Write as _;
    let line = serde_json::to_string(told).unwrap_or_default();
    let _ = writeln!(std::io::stdout(), "{line}");
}
