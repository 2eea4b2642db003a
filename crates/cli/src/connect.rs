//! Opening engines for the bench, which also reads what they tell beyond the contract.

use anyhow::{Context as _, Result, bail};
use std::sync::Arc;
pub(crate) use windlass::Url;
use windlass_core::engine::Engine;
use windlass_local::{LocalEngine, Options};
use windlass_memory::MemoryEngine;

/// Reads how many commits an engine has synced to disk so far.
pub(crate) type SyncCounter = Arc<dyn Fn() -> u64 + Send + Sync>;

/// An engine, and what it tells about itself beyond the contract.
#[derive(Clone)]
pub(crate) struct Connection {
    /// The engine.
    pub(crate) engine: Arc<dyn Engine>,
    /// Its synced commits, if it counts them.
    pub(crate) syncs: Option<SyncCounter>,
}

/// Opens the engine at `url`, without layers around it. Blocking: opening a directory reads files.
pub(crate) fn connect(url: &Url) -> Result<Connection> {
    match url {
        Url::Memory => Ok(Connection { engine: Arc::new(MemoryEngine::new()), syncs: None }),
        Url::File(dir) => {
            let engine = LocalEngine::open(Options::new(dir))
                .with_context(|| format!("cannot open {url}"))?;
            let counted = engine.clone();
            let syncs: SyncCounter = Arc::new(move || counted.counters().syncs);
            Ok(Connection { engine: Arc::new(engine), syncs: Some(syncs) })
        }
        _ => bail!("the bench does not know {url}; it measures memory: and file:DIR"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_answers() {
        let connection = connect(&Url::Memory).unwrap();
        assert_eq!(connection.engine.capabilities().engine, "memory");
    }
}
