//! From a URL to a client. The only file of this crate that names concrete engines, behind its features.

use crate::client::Client;
use crate::error::{Error, Result};
use crate::url::Url;
use std::sync::Arc;
use windlass_core::engine::Engine;

/// Options for opening a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Payload limit of the store in bytes, up to 16 MiB. `None` keeps the limit that the store has, which is 64 KiB
    /// for a new one. Behind a server, the server sets it.
    pub payload_bytes_max: Option<usize>,
}

impl OpenOptions {
    /// Sets the payload limit of the store in bytes, up to 16 MiB.
    #[must_use]
    pub const fn with_payload_bytes_max(mut self, bytes_max: usize) -> Self {
        self.payload_bytes_max = Some(bytes_max);
        self
    }
}

/// Connects to the store at a URL.
///
/// | URL | store | feature |
/// |---|---|---|
/// | `memory:` | in this process; nothing is persisted | `memory` |
/// | `file:./jobs` | durable, in one directory; owned by one process at a time | `local` |
/// | `postgres://user@host/database` | PostgreSQL, shared by any number of processes | `postgres` |
/// | `redis://127.0.0.1:6379` | Redis or Valkey, shared by any number of processes | `redis` |
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
    connect_with(url, OpenOptions::default()).await
}

/// Like [`connect`], with options.
///
/// ```no_run
/// # async fn start() -> windlass::Result<()> {
/// let options = windlass::OpenOptions::default().with_payload_bytes_max(10 * 1024 * 1024);
/// let client = windlass::connect_with("file:./jobs", options).await?;
/// # Ok(())
/// # }
/// ```
pub async fn connect_with(url: impl AsRef<str>, options: OpenOptions) -> Result<Client> {
    let url: Url = url.as_ref().parse()?;
    let engine = url.open_with(options).await?;
    tracing::debug!(%url, engine = engine.capabilities().engine, "connected");
    Ok(Client::new(engine))
}

impl Url {
    /// Opens the engine at this URL, without the layers that [`connect`] adds.
    pub async fn open(&self) -> Result<Arc<dyn Engine>> {
        self.open_with(OpenOptions::default()).await
    }

    /// Like [`open`](Self::open), with options.
    #[cfg_attr(
        not(any(
            feature = "memory",
            feature = "local",
            feature = "postgres",
            feature = "redis",
            feature = "remote"
        )),
        expect(unused_variables, reason = "without engines, nothing is opened")
    )]
    pub async fn open_with(&self, options: OpenOptions) -> Result<Arc<dyn Engine>> {
        match self {
            #[cfg(feature = "memory")]
            Self::Memory => self.open_memory(options),
            #[cfg(not(feature = "memory"))]
            Self::Memory => Err(self.left_out("memory")),
            #[cfg(feature = "local")]
            Self::File(dir) => self.open_local(dir.clone(), options).await,
            #[cfg(not(feature = "local"))]
            Self::File(_) => Err(self.left_out("local")),
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => self.open_postgres(url, options).await,
            #[cfg(not(feature = "postgres"))]
            Self::Postgres(_) => Err(self.left_out("postgres")),
            #[cfg(feature = "redis")]
            Self::Redis(url) => self.open_redis(url, options).await,
            #[cfg(not(feature = "redis"))]
            Self::Redis(_) => Err(self.left_out("redis")),
            #[cfg(feature = "remote")]
            Self::Http(url) => self.open_remote(url, options).await,
            #[cfg(not(feature = "remote"))]
            Self::Http(_) => Err(self.left_out("remote")),
        }
    }

    /// Wraps the result of opening an engine.
    #[cfg(any(
        feature = "memory",
        feature = "local",
        feature = "postgres",
        feature = "redis",
        feature = "remote"
    ))]
    fn opened(
        &self,
        engine: windlass_core::Result<impl Engine + 'static>,
    ) -> Result<Arc<dyn Engine>> {
        match engine {
            Ok(engine) => Ok(Arc::new(engine)),
            Err(source) => Err(Error::Open { url: self.to_string(), source }),
        }
    }

    #[cfg(feature = "memory")]
    fn open_memory(&self, options: OpenOptions) -> Result<Arc<dyn Engine>> {
        use windlass_core::{random::SystemRandom, time::SystemClock};
        use windlass_memory::MemoryEngine;
        let Some(bytes_max) = options.payload_bytes_max else {
            return Ok(Arc::new(MemoryEngine::new()));
        };
        let (clock, random) = (Arc::new(SystemClock), Arc::new(SystemRandom));
        self.opened(MemoryEngine::with_payload_bytes_max(bytes_max, clock, random))
    }

    /// Opens a local store on a blocking thread, because opening reads and repairs files.
    #[cfg(feature = "local")]
    async fn open_local(
        &self,
        dir: std::path::PathBuf,
        options: OpenOptions,
    ) -> Result<Arc<dyn Engine>> {
        use windlass_local::{LocalEngine, Options};
        let opening = tokio::task::spawn_blocking(move || {
            if let Some(warning) = windlass_local::exposure(&dir) {
                tracing::warn!("{warning}");
            }
            let local = Options::new(dir);
            LocalEngine::open(match options.payload_bytes_max {
                Some(bytes_max) => local.payload_bytes_max(bytes_max),
                None => local,
            })
        });
        let opened = opening.await.map_err(|error| Error::Connect {
            url: self.to_string(),
            reason: format!("opening it was interrupted: {error}; try again"),
        })?;
        self.opened(opened)
    }

    #[cfg(feature = "postgres")]
    async fn open_postgres(
        &self,
        url: &crate::PostgresUrl,
        options: OpenOptions,
    ) -> Result<Arc<dyn Engine>> {
        use windlass_postgres::{Options, PostgresEngine};
        let mut postgres = Options::new(url.server()).schema(url.schema()).migrate(url.migrates());
        if let Some(bytes_max) = options.payload_bytes_max {
            postgres = postgres.payload_bytes_max(bytes_max);
        }
        self.opened(PostgresEngine::connect(postgres).await)
    }

    #[cfg(feature = "redis")]
    async fn open_redis(
        &self,
        url: &crate::RedisUrl,
        options: OpenOptions,
    ) -> Result<Arc<dyn Engine>> {
        let mut redis = url.options();
        if let Some(bytes_max) = options.payload_bytes_max {
            redis = redis.payload_bytes_max(bytes_max);
        }
        self.opened(windlass_redis::RedisEngine::connect(redis).await)
    }

    #[cfg(feature = "remote")]
    async fn open_remote(&self, url: &str, options: OpenOptions) -> Result<Arc<dyn Engine>> {
        if let Some(bytes_max) = options.payload_bytes_max {
            let expected =
                "the server sets it for its store (store.payload_bytes_max); leave it out";
            let source = windlass_core::Error::invalid("payload_bytes_max", bytes_max, expected);
            return Err(Error::Open { url: self.to_string(), source });
        }
        self.opened(windlass_remote::RemoteEngine::connect(url).await)
    }

    #[cfg(not(all(
        feature = "memory",
        feature = "local",
        feature = "postgres",
        feature = "redis",
        feature = "remote"
    )))]
    fn left_out(&self, feature: &str) -> Error {
        let reason = format!(
            "this program was built without it; enable the feature {feature:?} of windlass in Cargo.toml"
        );
        Error::Connect { url: self.to_string(), reason }
    }
}
