//! The options every command shares, and the way from them to a store.

use crate::config::{Config, Given};
use crate::exit::NoStore;
use anyhow::{Context as _, Result};
use std::future::Future;
use std::path::PathBuf;
use windlass::{Client, Url};
use windlass_core::Error as EngineError;

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
        Ok(self.reach().await?.0)
    }

    /// The same, and whether it is reached through a server.
    pub(crate) async fn reach(&self) -> Result<(Client, bool)> {
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
        Ok(self.reach_or_create().await?.0)
    }

    /// The same, and whether it is reached through a server.
    pub(crate) async fn reach_or_create(&self) -> Result<(Client, bool)> {
        let url = self.url()?;
        let error = match url.open().await {
            Ok(engine) => return Ok((Client::new(engine), matches!(url, Url::Http(_)))),
            Err(error) => error,
        };
        let windlass::Error::Open {
            source: EngineError::InUse { address: Some(address), .. }, ..
        } = &error
        else {
            return Err(error.into());
        };
        let url: Url = address.parse().with_context(|| error.to_string())?;
        Ok((Client::new(url.open().await.with_context(|| error.to_string())?), true))
    }
}

/// Runs a command's async part to its end.
pub(crate) fn block_on<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the async runtime")?.block_on(command)
}
