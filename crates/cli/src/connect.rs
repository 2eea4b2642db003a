//! From a URL to an engine. The only place of the command that names concrete engines.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use windlass_core::engine::Engine;
use windlass_local::{LocalEngine, Options};
use windlass_memory::MemoryEngine;

/// The schemes, for people who used another one.
const KNOWN: &str = "memory: (in this process, nothing kept), file:DIR (durable, in one directory)";

/// Where an engine is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Url {
    /// `memory:`
    Memory,
    /// `file:DIR`
    File(PathBuf),
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(format!("it has no scheme; the known ones: {KNOWN}"));
        };
        // `file:///var/jobs` is how other tools write `file:/var/jobs`.
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        match scheme {
            "memory" if rest.is_empty() => Ok(Self::Memory),
            "memory" => Err(format!("memory: takes nothing after the colon, and got {rest:?}")),
            "file" if rest.is_empty() => Err("name a directory, as in file:./jobs".to_owned()),
            "file" => Ok(Self::File(rest.into())),
            _ => Err(format!("scheme {scheme:?} is not known; the known ones: {KNOWN}")),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::File(dir) => write!(f, "file:{}", dir.display()),
        }
    }
}

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

/// Opens the engine at `url`. Blocking: opening a directory reads files.
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_urls_are_read_and_written_alike() {
        for text in ["memory:", "file:jobs", "file:/var/jobs"] {
            assert_eq!(text.parse::<Url>().unwrap().to_string(), text);
        }
        assert_eq!("file:///var/jobs".parse(), Ok(Url::File("/var/jobs".into())));
    }

    #[test]
    fn an_unknown_scheme_names_the_known_ones() {
        for text in ["redis://host", "jobs"] {
            let error = text.parse::<Url>().unwrap_err();
            assert!(error.contains("memory:") && error.contains("file:DIR"), "{error}");
        }
        assert!("file:".parse::<Url>().unwrap_err().contains("directory"));
    }

    #[test]
    fn memory_answers() {
        let connection = connect(&Url::Memory).unwrap();
        assert_eq!(connection.engine.capabilities().engine, "memory");
    }
}
