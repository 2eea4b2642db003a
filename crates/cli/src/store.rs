//! The options that all commands share, and how to open the store that they select.

use crate::config::{Config, Inputs};
use crate::exit::NoStore;
use crate::{hints, operator, output};
use anyhow::{Context as _, Result, bail};
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use windlass::{Client, OpenOptions, Url};
use windlass_core::Error as EngineError;
use windlass_core::engine::Engine;
use windlass_services::{Audit, Audited};

/// The options that all commands share.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Common {
    /// Store: `file:DIR` (durable, in one directory), `postgres://USER@HOST/DATABASE` or `redis://HOST:PORT`
    /// (shared by any number of processes), `http://HOST:PORT` (a Windlass server) or `memory:` (not persistent)
    /// [default: that of the configuration, or file:./windlass-data]
    #[arg(
        long,
        global = true,
        visible_alias = "url",
        env = STORE_VARIABLE,
        hide_env_values = true,
        value_name = "URL"
    )]
    store: Option<String>,
    /// Configuration file [default: ./windlass.toml if it exists, or WINDLASS_CONFIG]
    #[arg(long, global = true, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Print JSON: the documents of the HTTP API
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print results and errors only, without notes and progress
    #[arg(long, global = true)]
    quiet: bool,
}

/// Environment variable with the URL of the store.
const STORE_VARIABLE: &str = "WINDLASS_STORE";

impl Common {
    /// Applies the options that concern all output.
    pub(crate) fn prepare(&self) {
        if self.quiet {
            output::be_quiet();
        }
        // A store that is set in the environment or found by default is also that of the next command.
        let store = self.store.as_ref().filter(|_| self.is_store_given());
        let flags = match (store, &self.config) {
            // Without the password. An invalid URL is reported by the command itself.
            (Some(store), _) => store.parse::<Url>().ok().map(|url| ("--store", url.to_string())),
            (None, Some(config)) if self.store.is_none() => {
                Some(("--config", config.display().to_string()))
            }
            (None, _) => None,
        };
        hints::set(&flags.into_iter().collect::<Vec<_>>());
    }

    /// Whether the store was given on the command line, and not only by the environment.
    fn is_store_given(&self) -> bool {
        self.store.is_some() && std::env::var(STORE_VARIABLE).ok() != self.store
    }

    /// The same options with the store as an argument of the command; an error if both are given.
    pub(crate) fn at(&self, store: Option<String>) -> Result<Self> {
        let mut common = self.clone();
        if let Some(store) = store {
            if self.is_store_given() {
                bail!("the store is given twice: as an argument, and with --store");
            }
            common.store = Some(store);
        }
        Ok(common)
    }

    /// The URL of the store. Not parsed by clap, whose error messages would show the value: it may contain a
    /// password.
    pub(crate) fn url(&self) -> Result<Url> {
        match &self.store {
            Some(store) => store.parse().context("--store"),
            None => Ok(self.config()?.store()?.clone()),
        }
    }

    /// The URL of the store, and how to open it. A store that is not the one of the configuration keeps its settings.
    fn place(&self) -> Result<(Url, OpenOptions)> {
        if self.store.is_some() {
            return Ok((self.url()?, OpenOptions::default()));
        }
        let config = self.config()?;
        Ok((config.store()?.clone(), config.fixed.store.open_options()))
    }

    /// The configuration from the file and the environment variables. An invalid file is an error: without it,
    /// the command might use a different store than the server.
    pub(crate) fn config(&self) -> Result<Config> {
        Ok(Config::load(&Inputs::around(self.config.clone(), Vec::new()))?)
    }

    /// A client of the store, which must exist: a command that only reads must not create a directory.
    pub(crate) async fn open(&self) -> Result<Client> {
        Ok(self.reach().await?.client)
    }

    /// Like [`open`](Self::open), for commands that add to the audit log themselves.
    pub(crate) async fn reach(&self) -> Result<OpenStore> {
        let url = self.url()?;
        if let Url::File(dir) = &url
            && !dir.exists()
        {
            return Err(NoStore(url).into());
        }
        self.reach_or_create().await
    }

    /// A client of the store, which is created if it does not exist. If another process owns the directory and
    /// serves it, the client connects to that server.
    pub(crate) async fn open_or_create(&self) -> Result<Client> {
        Ok(self.reach_or_create().await?.client)
    }

    /// Like [`open_or_create`](Self::open_or_create), for commands that add to the audit log themselves.
    pub(crate) async fn reach_or_create(&self) -> Result<OpenStore> {
        let (engine, served) = self.engine().await?;
        if served {
            // The server writes the audit log, with the name of the client's key.
            return Ok(OpenStore { client: Client::new(engine), audited: None });
        }
        let audit = Audit::new(engine.clone());
        let audited = Audited::new(engine, audit, Arc::new(operator::principal()));
        Ok(OpenStore { client: Client::new(Arc::new(audited.clone())), audited: Some(audited) })
    }

    /// A client for a worker. It is not audited, because its services change the store continuously.
    pub(crate) async fn open_for_work(&self) -> Result<Client> {
        Ok(Client::new(self.engine().await?.0))
    }

    /// The store's engine, and whether it is reached through a server.
    async fn engine(&self) -> Result<(Arc<dyn Engine>, bool)> {
        let (url, options) = self.place()?;
        let error = match url.open_with(options).await {
            Ok(engine) => return Ok((engine, matches!(url, Url::Http(_)))),
            Err(error) => error,
        };
        let (Url::File(dir), windlass::Error::Open { source: EngineError::InUse { .. }, .. }) =
            (&url, &error)
        else {
            return Err(error.into());
        };
        // The key is sent to this address, so only the owner of the directory may set it.
        let address = windlass_local::server_address(dir).with_context(|| error.to_string())?;
        let Some(address) = address else { return Err(error.into()) };
        let url: Url = address.parse().with_context(|| error.to_string())?;
        Ok((url.open().await.with_context(|| error.to_string())?, true))
    }
}

/// An open store.
pub(crate) struct OpenStore {
    /// A client of the store. Without a server in between, it writes changes to the audit log.
    pub(crate) client: Client,
    /// Writes audit entries for actions that the engine does not see; `None` if a server writes the log.
    pub(crate) audited: Option<Audited>,
}

/// Runs the async part of a command to completion.
pub(crate) fn block_on<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the async runtime")?.block_on(command)
}
