//! Cache of the registered kinds: rules are re-read when they change, schemas are compiled once per
//! version. It must not know the source of jobs.

use super::schema::Schema;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use tracing::warn;
use windlass_core::engine::Engine;
use windlass_core::model::{KindRules, Name, NewJob, Part};
use windlass_core::sync::lock;
use windlass_core::{Error, Result};
use windlass_services::Kinds;

/// Interval of checks for changes: the maximum delay until rules changed elsewhere apply here.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Minimum similarity of a registered name to be suggested for an unknown one, from 0 to 1.
const NEAR_ENOUGH: f64 = 0.7;
/// Maximum number of suggestions in an error message.
const NEAR_NAMES_MAX: usize = 3;

/// The rules of all registered kinds.
pub(crate) struct Registry {
    kinds: Kinds,
    /// Whether unregistered kinds are refused.
    strict: bool,
    seen: Mutex<Option<Seen>>,
    /// Held during a refresh; other requests use the cached rules.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Seen {
    at: Instant,
    revision: u64,
    table: Arc<Table>,
}

/// The kinds of one revision.
pub(crate) struct Table {
    kinds: BTreeMap<Name, Arc<Entry>>,
    strict: bool,
}

struct Entry {
    version: u64,
    /// Or the error of rules that cannot be enforced: all jobs of the kind are refused until the
    /// rules are fixed.
    rules: Result<(KindRules, Option<Schema>)>,
}

impl Registry {
    pub(crate) fn new(engine: Arc<dyn Engine>, strict: bool) -> Self {
        let reading = tokio::sync::Mutex::new(());
        Self { kinds: Kinds::new(engine), strict, seen: Mutex::new(None), reading }
    }

    /// The rules, at most [`LOOK_EVERY`] old unless a refresh is in progress or fails.
    pub(crate) async fn table(&self) -> Result<Arc<Table>> {
        let seen = self.seen();
        if let Some(seen) = seen.as_ref().filter(|seen| seen.at.elapsed() < LOOK_EVERY) {
            return Ok(seen.table.clone());
        }
        let _reading = match &seen {
            Some(seen) => match self.reading.try_lock() {
                Ok(guard) => guard,
                Err(_) => return Ok(seen.table.clone()),
            },
            None => self.reading.lock().await,
        };
        // Another task may have refreshed them during the wait.
        let seen = self.seen();
        if let Some(seen) = seen.as_ref().filter(|seen| seen.at.elapsed() < LOOK_EVERY) {
            return Ok(seen.table.clone());
        }
        let read_now = self.read(seen.clone()).await;
        let now = match (read_now, seen) {
            (Ok(now), _) => now,
            // Keep the old rules: the request's own store call will report the outage.
            (Err(_), Some(before)) => Seen { at: Instant::now(), ..before },
            (Err(error), None) => return Err(error),
        };
        let table = now.table.clone();
        *lock(&self.seen) = Some(now);
        Ok(table)
    }

    /// Discards the cache, because a kind was changed through this server.
    pub(crate) fn forget(&self) {
        *lock(&self.seen) = None;
    }

    fn seen(&self) -> Option<Seen> {
        lock(&self.seen).clone()
    }

    async fn read(&self, before: Option<Seen>) -> Result<Seen> {
        let revision = self.kinds.revision().await?;
        let at = Instant::now();
        if let Some(before) = &before
            && before.revision == revision
        {
            return Ok(Seen { at, ..before.clone() });
        }
        let known = before.map(|before| before.table);
        let mut kinds = BTreeMap::new();
        for stored in self.kinds.all().await? {
            let same = |entry: &&Arc<Entry>| entry.version == stored.version;
            let entry = known.as_ref().and_then(|known| known.kinds.get(&stored.kind).filter(same));
            let entry = match entry {
                Some(entry) => entry.clone(),
                None => Arc::new(Entry::read(&stored.kind, stored.version, stored.rules)),
            };
            kinds.insert(stored.kind, entry);
        }
        Ok(Seen { at, revision, table: Arc::new(Table { kinds, strict: self.strict }) })
    }
}

impl Entry {
    fn read(kind: &str, version: u64, rules: Result<KindRules>) -> Self {
        let read = |rules: KindRules| {
            let schema = rules.schema.as_deref().map(Schema::read).transpose()?;
            Ok((rules, schema))
        };
        let rules = rules.and_then(read);
        if let Err(error) = &rules {
            warn!(kind, %error, "invalid rules of a kind; its jobs are refused");
        }
        Self { version, rules }
    }

    fn rules(&self, kind: &str) -> Result<&(KindRules, Option<Schema>)> {
        self.rules.as_ref().map_err(|error| {
            let expected =
                format!("its registered rules cannot be enforced: {error}; register it again");
            Error::invalid("kind", kind, expected)
        })
    }
}

impl Table {
    /// Whether there are no rules to enforce.
    pub(crate) fn is_idle(&self) -> bool {
        self.kinds.is_empty() && !self.strict
    }

    /// Applies the defaults of its kind to a job and validates it.
    pub(crate) fn admit(&self, job: &mut NewJob) -> Result<()> {
        let Some(entry) = self.kinds.get(&job.kind) else {
            return if self.strict { Err(self.unknown(&job.kind)) } else { Ok(()) };
        };
        let (rules, _) = entry.rules(&job.kind)?;
        rules.apply(job);
        rules.check_priority(job.priority)?;
        self.check_payload(&job.kind, job.parts.payload.as_ref())
    }

    /// Validates a new priority of a job of `kind`.
    pub(crate) fn check_priority(&self, kind: &Name, priority: i32) -> Result<()> {
        let Some(entry) = self.kinds.get(kind) else { return Ok(()) };
        entry.rules(kind)?.0.check_priority(priority)
    }

    /// Validates a payload for a job of `kind`.
    pub(crate) fn check_payload(&self, kind: &Name, payload: Option<&Part>) -> Result<()> {
        let Some(entry) = self.kinds.get(kind) else { return Ok(()) };
        let (rules, schema) = entry.rules(kind)?;
        let size = payload.map_or(0, |part| part.bytes.len() as u64);
        if let Some(limit) = rules.payload_bytes_max.filter(|limit| size > *limit) {
            let hint = "the limit of its kind; store large data elsewhere and pass a reference";
            return Err(Error::TooLarge { field: "payload".into(), size, limit, hint });
        }
        schema.as_ref().map_or(Ok(()), |schema| schema.check(payload))
    }

    /// Whether a replay of this kind must be confirmed. True if its rules cannot be read.
    pub(crate) fn is_sensitive(&self, kind: &Name) -> bool {
        let sensitive = |entry: &Arc<Entry>| entry.rules.as_ref().map_or(true, |it| it.0.sensitive);
        self.kinds.get(kind).is_some_and(sensitive)
    }

    fn unknown(&self, kind: &str) -> Error {
        let likeness = |known: &Name| strsim::jaro_winkler(kind, known);
        let mut near: Vec<_> = self.kinds.keys().map(|known| (likeness(known), known)).collect();
        near.retain(|(likeness, _)| *likeness >= NEAR_ENOUGH);
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        let near: Vec<_> =
            near.into_iter().take(NEAR_NAMES_MAX).map(|(_, known)| format!("{known:?}")).collect();
        let meant = match near.is_empty() {
            true => String::new(),
            false => format!("did you mean {}? ", near.join(", ")),
        };
        let expected = format!(
            "this server accepts registered kinds only. {meant}Register it with \
             PUT /v1/kinds/{kind} or `windlass kinds register`"
        );
        Error::invalid("kind", kind, expected)
    }
}
