//! Opens engines for the bench, with access to statistics that are not part of the engine traits.

use anyhow::{Context as _, Result, bail};
use std::pin::Pin;
use std::sync::Arc;
pub(crate) use windlass::Url;
use windlass_core::engine::Engine;
use windlass_local::{LocalEngine, Options};
use windlass_memory::MemoryEngine;
use windlass_postgres::ServerStats;
use windlass_remote::RemoteEngine;

/// Maximum number of idle connections to a server: one for each caller of the largest workload.
const CONNECTIONS_KEPT: usize = 1_024;

/// Returns the number of commits that an engine has synced to disk so far.
pub(crate) type SyncCounter = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Returns the cumulative statistics of a PostgreSQL server.
pub(crate) type ServerStatsReader =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Option<ServerStats>> + Send>> + Send + Sync>;

/// An engine with statistics that are not part of the engine traits.
#[derive(Clone)]
pub(crate) struct Connection {
    /// The engine.
    pub(crate) engine: Arc<dyn Engine>,
    /// Counter of synced commits, if the engine has one.
    pub(crate) syncs: Option<SyncCounter>,
    /// Statistics of its server, if available.
    pub(crate) server_stats: Option<ServerStatsReader>,
}

/// Opens the engine at `url` for a measurement.
pub(crate) async fn connect(url: &Url) -> Result<Connection> {
    match url {
        Url::Memory => Ok(Connection {
            engine: Arc::new(MemoryEngine::new()),
            syncs: None,
            server_stats: None,
        }),
        Url::File(dir) => {
            let options = Options::new(dir);
            // Reading and recovering files blocks.
            let opened = tokio::task::spawn_blocking(|| LocalEngine::open(options)).await?;
            let engine = opened.with_context(|| format!("cannot open {url}"))?;
            let counted = engine.clone();
            let syncs: SyncCounter = Arc::new(move || counted.counters().syncs);
            Ok(Connection { engine: Arc::new(engine), syncs: Some(syncs), server_stats: None })
        }
        Url::Postgres(at) => {
            let options = windlass_postgres::Options::new(at.server());
            let options = options.schema(at.schema()).migrate(at.migrates());
            let engine = windlass_postgres::PostgresEngine::connect(options).await;
            let engine = engine.with_context(|| format!("cannot open {url}"))?;
            let counted = engine.clone();
            let server_stats: ServerStatsReader = Arc::new(move || {
                let counted = counted.clone();
                Box::pin(async move { counted.server_stats().await.ok() })
            });
            // With the coalesce layer, as in applications: concurrent single calls are merged into batches.
            let engine = windlass_layers::Coalesce::new(Arc::new(engine));
            Ok(Connection {
                engine: Arc::new(engine),
                syncs: None,
                server_stats: Some(server_stats),
            })
        }
        Url::Redis(at) => {
            let engine = windlass_redis::RedisEngine::connect(at.options()).await;
            let engine = engine.with_context(|| format!("cannot open {url}"))?;
            // With the coalesce layer, as in applications: concurrent single calls are merged into batches.
            let engine = windlass_layers::Coalesce::new(Arc::new(engine));
            Ok(Connection { engine: Arc::new(engine), syncs: None, server_stats: None })
        }
        Url::Http(server) => {
            let mut options = windlass_remote::Options::new(server);
            options.idle_connections_max = CONNECTIONS_KEPT;
            let engine = RemoteEngine::open(options).await;
            let engine = engine.with_context(|| format!("cannot reach {url}"))?;
            Ok(Connection { engine: Arc::new(engine), syncs: None, server_stats: None })
        }
        _ => {
            bail!(
                "the bench does not support {url}; use memory:, file:DIR, postgres:// or http://HOST:PORT"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn memory_answers() {
        let connection = connect(&Url::Memory).await.unwrap();
        assert_eq!(connection.engine.capabilities().engine, "memory");
    }
}
