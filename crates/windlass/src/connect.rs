//! From a URL to a client. The only file of this crate that names concrete engines, behind its features.

use crate::client::Client;
use crate::error::{Error, Result};
use crate::url::Url;
use std::sync::Arc;
use windlass_core::engine::Engine;

/// Connects to the store at a URL.
///
/// | URL | store | feature |
/// |---|---|---|
/// | `memory:` | in this process; nothing is persisted | `memory` |
/// | `file:./jobs` | durable, in one directory; owned by one process at a time | `local` |
/// | `postgres://user@host/database` | PostgreSQL, shared by any number of processes | `postgres` |
/// | `http://127.0.0.1:7474` | the store behind a Windlass server | `remote` |
///
/// Every `memory:` connection is a separate store; clone the [`Client`] to share one.
///
/// ```no_run
/// # async fn start() -> windlass::Result<()> {
/// let client = windlass::connect("file:./jobs").await?;
/// # Ok(())
/// # }
/// ```
pub async fn connect(url: impl AsRef<str>) -> Result<Client> {
    let url: Url = url.as_ref().parse()?;
    let engine = url.open().await?;
    tracing::debug!(%url, engine = engine.capabilities().engine, "connected");
    Ok(Client::new(engine))
}

impl Url {
    /// Opens the engine at this URL, without the layers that [`connect`] adds.
    pub async fn open(&self) -> Result<Arc<dyn Engine>> {
        match self {
            #[cfg(feature = "memory")]
            Self::Memory => Ok(Arc::new(windlass_memory::MemoryEngine::new())),
            #[cfg(not(feature = "memory"))]
            Self::Memory => Err(self.left_out("memory")),
            #[cfg(feature = "local")]
            Self::File(dir) => self.open_local(dir.clone()).await,
            #[cfg(not(feature = "local"))]
            Self::File(_) => Err(self.left_out("local")),
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => self.open_postgres(url).await,
            #[cfg(not(feature = "postgres"))]
            Self::Postgres(_) => Err(self.left_out("postgres")),
            #[cfg(feature = "remote")]
            Self::Http(url) => match windlass_remote::RemoteEngine::connect(url).await {
                Ok(engine) => Ok(Arc::new(engine)),
                Err(source) => Err(Error::Open { url: self.to_string(), source }),
            },
            #[cfg(not(feature = "remote"))]
            Self::Http(_) => Err(self.left_out("remote")),
        }
    }

    /// Opens a local store on a blocking thread, because opening reads and repairs files.
    #[cfg(feature = "local")]
    async fn open_local(&self, dir: std::path::PathBuf) -> Result<Arc<dyn Engine>> {
        use windlass_local::{LocalEngine, Options};
        let opening = tokio::task::spawn_blocking(|| {
            if let Some(warning) = windlass_local::exposure(&dir) {
                tracing::warn!("{warning}");
            }
            LocalEngine::open(Options::new(dir))
        });
        let opened = opening.await.map_err(|error| Error::Connect {
            url: self.to_string(),
            reason: format!("opening it was interrupted: {error}; try again"),
        })?;
        match opened {
            Ok(engine) => Ok(Arc::new(engine)),
            Err(source) => Err(Error::Open { url: self.to_string(), source }),
        }
    }

    #[cfg(feature = "postgres")]
    async fn open_postgres(&self, url: &crate::PostgresUrl) -> Result<Arc<dyn Engine>> {
        use windlass_postgres::{Options, PostgresEngine};
        let options = Options::new(url.server()).schema(url.schema()).migrate(url.migrates());
        match PostgresEngine::connect(options).await {
            Ok(engine) => Ok(Arc::new(engine)),
            Err(source) => Err(Error::Open { url: self.to_string(), source }),
        }
    }

    #[cfg(not(all(
        feature = "memory",
        feature = "local",
        feature = "postgres",
        feature = "remote"
    )))]
    fn left_out(&self, feature: &str) -> Error {
        let reason = format!(
            "this program was built without it; enable the feature {feature:?} of windlass in Cargo.toml"
        );
        Error::Connect { url: self.to_string(), reason }
    }
}
