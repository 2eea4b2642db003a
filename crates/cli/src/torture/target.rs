//! Prepares the store for one run: a new directory, schema or queue; with a database or a server started for
//! the run, and a proxy in front of it, where the plan requires them.

use super::client::open_once;
use super::limits;
use super::participants::{Network, Participants};
use super::postgres::OwnPostgres;
use super::proxy::{Proxy, Weather};
use super::{
    COMPACT_EVERY_MS, DEAD_BYTES_MAX, LEAD_TTL_MS, Plan, RETAIN_EVERY_MS, Store, TRIM_EVERY_MS,
};
use crate::bench::Served;
use crate::connect::Url;
use anyhow::{Context as _, Result};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use windlass_core::engine::{Configure, Engine};
use windlass_core::model::QueuePatch;
use windlass_core::policy::Retention;
use windlass_core::time::{Clock as _, SystemClock};

/// Timeout of calls outside the fault phase: the consistency check is slow.
const PATIENCE: Duration = Duration::from_secs(120);
/// Retention of the jobs of a run on a shared server after the run.
const CLEARED_MS: u64 = 1_000;

/// The store of a run and everything started for it.
pub(super) struct Target {
    /// The participants of the run.
    pub(super) participants: Participants,
    /// URL at which the clients reach the store.
    pub(super) client_url: Url,
    /// The queue of this run.
    pub(super) queue: String,
    /// Retention of ended jobs, if they are removed during the run.
    pub(super) retention_ms: Option<u64>,
    /// URL of the store itself, without the proxy or a server started for the run.
    store: Url,
    /// Declared before `directory`, so that the server is stopped before its files are removed.
    postgres: Option<OwnPostgres>,
    directory: Option<TempDir>,
    proxy: Option<Proxy>,
    server: Option<Served>,
    server_log: PathBuf,
}

impl Target {
    /// Prepares the store.
    pub(super) async fn prepare(plan: &Plan, evidence: &Path) -> Result<Self> {
        let run = SystemClock.now().as_millis();
        let (mut postgres, mut directory) = (None, None);
        let mut store = match &plan.store {
            Store::At(Url::File(parent)) => {
                let fresh = fresh_directory(parent)?;
                let store = Url::File(fresh.path().join("store"));
                directory = Some(fresh);
                store
            }
            Store::At(url) => url.clone(),
            Store::OwnPostgres(parent) => {
                let fresh = fresh_directory(parent)?;
                let log = evidence.join("store.log");
                let settings = plan.postgres_settings.clone();
                let server = OwnPostgres::start_in(fresh.path(), log, settings).await?;
                let url = server.url().parse()?;
                (postgres, directory) = (Some(server), Some(fresh));
                url
            }
        };
        if let Url::Postgres(at) = &store {
            let schema = format!("windlass_torture_{run}_{}", std::process::id());
            store = Url::Postgres(at.with_schema(schema));
        }
        if let Url::Redis(at) = &store {
            let name = format!("windlass_torture_{run}_{}", std::process::id());
            store = Url::Redis(at.with_name(name));
        }
        let owner = matches!(store, Url::File(_)) && !plan.serve;
        let (server, is_started) = (plan.serve, postgres.is_some());
        let participants = Participants {
            owner,
            server,
            store: is_started,
            network: Network::None,
            operators: plan.operators,
            limits: plan.limits,
            flows: plan.flows,
        };
        let mut target = Self {
            participants,
            client_url: store.clone(),
            queue: format!("windlass-torture-{run}-{}", std::process::id()),
            retention_ms: plan.retention_ms,
            store,
            postgres,
            directory,
            proxy: None,
            server: None,
            server_log: evidence.join("server.log"),
        };
        if plan.serve {
            target.start_server().await?;
            target.client_url = target.direct();
        } else if !owner {
            // Fails early if the store is unavailable, which clients would wait for. It also creates the tables
            // before any process is killed.
            target.open().await?.health().await?;
        }
        if let Some(ms) = plan.retention_ms {
            let mut patch = QueuePatch::retention(Retention::uniform_ms(ms));
            patch.dead_bytes_max = Some(Some(DEAD_BYTES_MAX));
            target.configure(patch).await?;
        }
        if plan.limits {
            target.change(limits::set_up(&target.queue)).await.context("--limits")?;
        }
        if !plan.direct {
            target.put_proxy_between(plan.seed).await?;
        }
        Ok(target)
    }

    /// Changes the settings of the queue. Opens the store, so no other process may own it.
    async fn configure(&self, patch: QueuePatch) -> Result<()> {
        self.change(vec![Configure::queue(self.queue.as_str(), patch)]).await
    }

    async fn change(&self, changes: Vec<Configure>) -> Result<()> {
        let items = self.open().await?.configure(changes).await?.value;
        Ok(items.into_iter().collect::<windlass_core::Result<()>>()?)
    }

    async fn put_proxy_between(&mut self, seed: u64) -> Result<()> {
        let Some((before, place, behind)) = parts(&self.client_url) else { return Ok(()) };
        let proxy = Proxy::start(place, seed).await?;
        if self.retention_ms.is_some() {
            proxy.enqueues_once();
        }
        self.client_url = format!("{before}{}{behind}", proxy.address()).parse()?;
        self.participants.network = match &self.client_url {
            Url::Http(_) => Network::Http,
            _ => Network::Bytes,
        };
        self.proxy = Some(proxy);
        Ok(())
    }

    /// URL of the store without the proxy.
    pub(super) fn direct(&self) -> Url {
        self.server.as_ref().map_or_else(|| self.store.clone(), Served::url)
    }

    /// Opens the store without the proxy; no other process may own it.
    pub(super) async fn open(&self) -> Result<Arc<dyn Engine>> {
        let url = self.direct();
        open_once(&url, PATIENCE).await.with_context(|| format!("cannot open {url}"))
    }

    pub(super) async fn start_server(&mut self) -> Result<()> {
        let Url::File(dir) = &self.store else { return Ok(()) };
        let log = OpenOptions::new().create(true).append(true).open(&self.server_log);
        let log: File = log.context("cannot write the server's log")?;
        let mut options = vec!["--lead-ttl-ms".to_owned(), LEAD_TTL_MS.to_string()];
        if self.retention_ms.is_some() {
            let paces = [
                ("retain", RETAIN_EVERY_MS),
                ("compact", COMPACT_EVERY_MS),
                ("trim", TRIM_EVERY_MS),
            ];
            for (service, ms) in paces {
                options.extend(["--set".to_owned(), format!("services.{service}.interval={ms}ms")]);
            }
        }
        let server = Served::start_with(dir, &options, log.into()).await?;
        if let (Some(proxy), Some((_, place, _))) = (&self.proxy, parts(&server.url())) {
            proxy.toward(place);
        }
        self.server = Some(server);
        Ok(())
    }

    pub(super) async fn kill_server(&mut self) -> Result<()> {
        match self.server.take() {
            Some(server) => server.stop().await,
            None => Ok(()),
        }
    }

    pub(super) async fn start_store(&mut self) -> Result<()> {
        match &mut self.postgres {
            Some(postgres) if !postgres.is_up() => postgres.start().await,
            _ => Ok(()),
        }
    }

    pub(super) async fn kill_store(&mut self) -> Result<()> {
        match &mut self.postgres {
            Some(postgres) => postgres.kill().await,
            None => Ok(()),
        }
    }

    pub(super) fn server_pid(&self) -> Option<u32> {
        self.server.as_ref().and_then(Served::pid)
    }

    pub(super) fn weather(&self, weather: Weather) {
        if let Some(proxy) = &self.proxy {
            proxy.set(weather);
        }
    }

    /// Waits until no repeated request is in flight between the clients and the store.
    pub(super) async fn calm_down(&self) {
        if let Some(proxy) = &self.proxy {
            proxy.calm_down().await;
        }
    }

    /// Removes every trace of the run from the store.
    pub(super) async fn remove(mut self) -> Result<()> {
        self.kill_server().await?;
        self.kill_store().await?;
        if let Some(directory) = self.directory.take() {
            let path = directory.path().to_owned();
            return directory.close().with_context(|| format!("cannot remove {}", path.display()));
        }
        match &self.store {
            Url::Postgres(at) => Ok(windlass_postgres::remove(at.server(), at.schema()).await?),
            Url::Redis(at) => Ok(windlass_redis::remove(at.server(), at.name()).await?),
            _ => {
                if self.participants.limits {
                    self.change(limits::clear(&self.queue)).await?;
                }
                self.configure(QueuePatch::retention(Retention::uniform_ms(CLEARED_MS))).await
            }
        }
    }

    /// Describes what the run created in the store, so that the user can find it later.
    pub(super) fn place(&self) -> String {
        match (&self.store, &self.directory) {
            (Url::Postgres(_), Some(home)) => format!("PostgreSQL in {}", home.path().display()),
            _ => self.place_in_store(),
        }
    }

    fn place_in_store(&self) -> String {
        match &self.store {
            Url::File(_) => self.store.to_string(),
            Url::Postgres(at) => format!("schema {} in {}", at.schema(), self.store),
            Url::Redis(at) => format!("store {} in {}", at.name(), self.store),
            _ => format!("queue {} of {}", self.queue, self.store),
        }
    }

    /// Keeps the files of the run; stops the server and the database started for it.
    pub(super) async fn keep(mut self) -> Result<()> {
        self.kill_server().await?;
        self.kill_store().await?;
        self.directory.take().map(TempDir::keep);
        Ok(())
    }
}

fn fresh_directory(parent: &Path) -> Result<TempDir> {
    std::fs::create_dir_all(parent)
        .and_then(|()| tempfile::Builder::new().prefix("windlass-torture-").tempdir_in(parent))
        .with_context(|| {
            format!("cannot make a directory in {}; use a writable one", parent.display())
        })
}

/// Splits a URL into the part before its `host:port`, the `host:port`, and the part after it. `None` if there
/// is no single host and port.
fn parts(url: &Url) -> Option<(String, String, String)> {
    let port = match url {
        Url::Http(_) => 80,
        Url::Postgres(_) => 5432,
        Url::Redis(_) => 6379,
        _ => return None,
    };
    let whole = String::from(url.clone());
    let (scheme, rest) = whole.split_once("://")?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    let (user, place) = match authority.rsplit_once('@') {
        Some((user, place)) => (format!("{user}@"), place),
        None => (String::new(), authority),
    };
    // An encoded socket path or a list of hosts cannot be replaced by a proxy.
    if place.is_empty() || place.contains(['%', ',']) {
        return None;
    }
    let has_port = place.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let place = if has_port { place.to_owned() } else { format!("{place}:{port}") };
    Some((format!("{scheme}://{user}"), place, behind.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_can_stand_in_for_one_host_with_a_port() {
        let split =
            |url: &str| parts(&url.parse().unwrap()).map(|(a, b, c)| format!("{a}|{b}|{c}"));
        assert_eq!(split("http://127.0.0.1:7474").unwrap(), "http://|127.0.0.1:7474|");
        assert_eq!(split("http://host/jobs").unwrap(), "http://|host:80|/jobs");
        assert_eq!(
            split("postgres://ada:p@w@db/jobs?schema=x").unwrap(),
            "postgres://ada:p@w@|db:5432|/jobs?schema=x"
        );
        for url in
            ["file:x", "postgres:///jobs?host=/run", "postgres://a,b/jobs", "postgres://%2Frun/x"]
        {
            assert_eq!(split(url), None, "{url}");
        }
    }
}
