//! Circuit breakers of kinds: `outcomes` counts the outcomes of attempts, and the leader opens and closes
//! breakers by these counts (`service`). The thresholds are part of core's policy.
//!
//! A breaker is stored in a record. It takes effect through the kind's number of permits in the store, so
//! that no worker, in any language, starts a job that it holds back. Waiting jobs are unchanged and lose no
//! attempt.

mod outcomes;
mod service;

pub use outcomes::Outcomes;
pub(crate) use service::BreakerService;

use crate::records::{get, list};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use windlass_core::engine::{Engine, Record};
use windlass_core::model::Name;
use windlass_core::policy::{Breaker, BreakerCount};
use windlass_core::{Error, Result, check_name};

/// Key prefix of the records; shorter than that of kind rules, so that the name of every registered kind
/// fits.
pub(crate) const PREFIX: &str = "brk/";
/// The log that carries outcomes from all processes to the leader.
const LOG: &str = "breaker-outcomes";
/// Entries that the log keeps: how far a leader may fall behind.
const LOG_KEPT: u32 = 10_000;
/// Records read per call.
const PAGE: u32 = 100;

/// The stored form of a breaker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Stored {
    #[serde(default)]
    breaker: Breaker,
    /// Number of the last log entry that is included.
    #[serde(default)]
    upto: u64,
    /// Whether the breaker has set, or may have set, the kind's permits.
    #[serde(default)]
    gated: bool,
}

/// Outcomes of one kind, as written to the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Report {
    kind: Name,
    #[serde(flatten)]
    count: BreakerCount,
}

impl Stored {
    fn read(record: &Record) -> Result<Self> {
        serde_json::from_slice(&record.value).map_err(|error| Error::Corrupt {
            store: format!("record {:?}", record.key),
            reason: format!(
                "invalid breaker record: {error}; delete it to restart the breaker closed"
            ),
        })
    }
}

fn key(kind: &str) -> String {
    format!("{PREFIX}{kind}")
}

/// Read access to the breakers of a store.
///
/// ```
/// # use std::sync::Arc;
/// # use windlass_memory::MemoryEngine;
/// use windlass_services::Breakers;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let engine = Arc::new(MemoryEngine::new());
/// assert!(Breakers::new(engine).all().await?.is_empty(), "no kind has one yet");
/// # Ok::<(), windlass_core::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Breakers {
    engine: Arc<dyn Engine>,
}

impl fmt::Debug for Breakers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Breakers")
    }
}

impl Breakers {
    /// The breakers of this store.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    /// The breaker of a kind; `None` until its service has processed the kind's rules.
    pub async fn get(&self, kind: &str) -> Result<Option<Breaker>> {
        check_name("kind", kind)?;
        if key(kind).len() > windlass_core::limits::NAME_BYTES_MAX {
            return Ok(None);
        }
        let record = get(&*self.engine, &key(kind)).await?.value;
        record.map(|record| Ok(Stored::read(&record)?.breaker)).transpose()
    }

    /// All breakers by kind. Unreadable ones are skipped here and reported by the service.
    pub async fn all(&self) -> Result<Vec<(Name, Breaker)>> {
        let records = records(&*self.engine).await?;
        let read =
            |(kind, record): (Name, Record)| Some((kind, Stored::read(&record).ok()?.breaker));
        Ok(records.into_iter().filter_map(read).collect())
    }
}

/// All records of breakers, by kind.
async fn records(engine: &dyn Engine) -> Result<Vec<(Name, Record)>> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = list(engine, PREFIX, after, PAGE).await?.value;
        let kind = |record: &Record| record.key.strip_prefix(PREFIX).unwrap_or_default().into();
        found.extend(page.rows.into_iter().map(|record| (kind(&record), record)));
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}
