//! The options every command shares, and the way from them to a store.

use crate::config::{Config, Given};
use crate::exit::NoStore;
use crate::operator;
use anyhow::{Context as _, Result};
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use windlass::{Client, Url};
use windlass_core::Error as EngineError;
use windlass_core::engine::Engine;
use windlass_services::{Audit, Audited};

/// Where the store is, and how to answer.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Common {
    /// The store: `file:DIR` (durable, in one directory), `postgres://USER@HOST/DATABASE` (shared by
    /// any number of processes) or `memory:` (nothing is kept) [default: that of the configuration, or
    /// file:./windlass-data]
    #[arg(
        long,
        global = true,
        visible_alias = "url",
        env = "WINDLASS_STORE",
        hide_env_values = true,
        value_name = "URL"
    )]
    store: Option<String>,
    /// The file with settings [default: ./windlass.toml if it is there, or WINDLASS_CONFIG]
    #[arg(long, global = true, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Answer in JSON, for machines
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl Common {
    /// Where the store is. Not read by clap, which shows what it cannot read: there may be a password
    /// in it.
    pub(crate) fn url(&self) -> Result<Url> {
        match &self.store {
            Some(store) => store.parse().context("--store"),
            None => Ok(self.config()?.store()?.clone()),
        }
    }

    /// What the file and the variables say. A file with mistakes is refused: whoever goes on without it
    /// looks at another store than the server's.
    pub(crate) fn config(&self) -> Result<Config> {
        Ok(Config::load(&Given::around(self.config.clone(), Vec::new()))?)
    }

    /// A client of the store, which must be there: looking at nothing must not leave a directory behind.
    pub(crate) async fn open(&self) -> Result<Client> {
        Ok(self.reach().await?.client)
    }

    /// Like [`open`](Self::open), for commands that add to the audit log themselves.
    pub(crate) async fn reach(&self) -> Result<Reached> {
        let url = self.url()?;
        if let Url::File(dir) = &url
            && !dir.exists()
        {
            return Err(NoStore(url).into());
        }
        self.reach_or_create().await
    }

    /// A client of the store, which is made if it is not there. A directory that another process owns
    /// is reached through that process, if it serves it.
    pub(crate) async fn open_or_create(&self) -> Result<Client> {
        Ok(self.reach_or_create().await?.client)
    }

    /// Like [`open_or_create`](Self::open_or_create), for commands that add to the audit log themselves.
    pub(crate) async fn reach_or_create(&self) -> Result<Reached> {
        let (engine, served) = self.engine().await?;
        if served {
            // The server keeps the audit log, with the name of the key that it is asked with.
            return Ok(Reached { client: Client::new(engine), audited: None });
        }
        let audit = Audit::new(engine.clone());
        let audited = Audited::new(engine, audit, Arc::new(operator::principal()));
        Ok(Reached { client: Client::new(Arc::new(audited.clone())), audited: Some(audited) })
    }

    /// A client for a worker, whose services change the store all the time: they are not audited.
    pub(crate) async fn open_for_work(&self) -> Result<Client> {
        Ok(Client::new(self.engine().await?.0))
    }

    /// The store's engine, and whether it is reached through a server.
    async fn engine(&self) -> Result<(Arc<dyn Engine>, bool)> {
        let url = self.url()?;
        let error = match url.open().await {
            Ok(engine) => return Ok((engine, matches!(url, Url::Http(_)))),
            Err(error) => error,
        };
        let (Url::File(dir), windlass::Error::Open { source: EngineError::InUse { .. }, .. }) =
            (&url, &error)
        else {
            return Err(error.into());
        };
        // The key goes there: not just anybody may say where.
        let address = windlass_local::server_address(dir).with_context(|| error.to_string())?;
        let Some(address) = address else { return Err(error.into()) };
        let url: Url = address.parse().with_context(|| error.to_string())?;
        Ok((url.open().await.with_context(|| error.to_string())?, true))
    }
}

/// A store that was opened.
pub(crate) struct Reached {
    /// A client of it. Without a server in between, its changes go to the audit log.
    pub(crate) client: Client,
    /// The same, for what the engine cannot see; none if a server keeps the log.
    pub(crate) audited: Option<Audited>,
}

/// Runs a command's async part to its end.
pub(crate) fn block_on<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the async runtime")?.block_on(command)
}
