//! The registered kinds as this server knows them: their rules read from the store when they changed,
//! their schemas read once per version. It must not know where jobs come from.

use super::schema::Schema;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tracing::warn;
use windlass_core::engine::Engine;
use windlass_core::model::{KindRules, Name, NewJob, Part};
use windlass_core::{Error, Result};
use windlass_services::Kinds;

/// Rules that changed elsewhere are in force here after this time at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How like a registered name an unknown one must be to be meant, from 0 to 1.
const NEAR_ENOUGH: f64 = 0.7;
/// Registered names that an unknown one is compared to in a message.
const NEAR_NAMES_MAX: usize = 3;

/// Knows the rules of all registered kinds.
pub(crate) struct Registry {
    kinds: Kinds,
    /// Whether kinds that are not registered are refused.
    strict: bool,
    seen: Mutex<Option<Seen>>,
    /// Held by whoever looks; the others go by what was seen before.
    looking: tokio::sync::Mutex<()>,
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
    /// What is wrong with rules that cannot be enforced: nothing passes until they are mended.
    rules: Result<(KindRules, Option<Schema>)>,
}

impl Registry {
    pub(crate) fn new(engine: Arc<dyn Engine>, strict: bool) -> Self {
        let looking = tokio::sync::Mutex::new(());
        Self { kinds: Kinds::new(engine), strict, seen: Mutex::new(None), looking }
    }

    /// The rules, as they were a moment ago.
    pub(crate) async fn table(&self) -> Result<Arc<Table>> {
        let seen = self.seen();
        if let Some(seen) = seen.as_ref().filter(|seen| seen.at.elapsed() < LOOK_EVERY) {
            return Ok(seen.table.clone());
        }
        let _looking = match &seen {
            Some(seen) => match self.looking.try_lock() {
                Ok(guard) => guard,
                Err(_) => return Ok(seen.table.clone()),
            },
            None => self.looking.lock().await,
        };
        // Somebody may have looked while this one waited.
        let seen = self.seen();
        if let Some(seen) = seen.as_ref().filter(|seen| seen.at.elapsed() < LOOK_EVERY) {
            return Ok(seen.table.clone());
        }
        let looked = self.look(seen.clone()).await;
        let now = match (looked, seen) {
            (Ok(now), _) => now,
            // The store will say itself that it does not answer; rules stay as they were.
            (Err(_), Some(before)) => Seen { at: Instant::now(), ..before },
            (Err(error), None) => return Err(error),
        };
        let table = now.table.clone();
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        Ok(table)
    }

    /// Looks anew at the next opportunity: something was changed through this server.
    pub(crate) fn forget(&self) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn seen(&self) -> Option<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn look(&self, before: Option<Seen>) -> Result<Seen> {
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
            warn!(kind, %error, "the rules of a kind cannot be enforced; its jobs are refused");
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
    /// Whether there is nothing to enforce.
    pub(crate) fn is_idle(&self) -> bool {
        self.kinds.is_empty() && !self.strict
    }

    /// Lets a job in, with what its kind gives it, or says why not.
    pub(crate) fn admit(&self, job: &mut NewJob) -> Result<()> {
        let Some(entry) = self.kinds.get(&job.kind) else {
            return if self.strict { Err(self.unknown(&job.kind)) } else { Ok(()) };
        };
        entry.rules(&job.kind)?.0.apply(job);
        self.check_payload(&job.kind, job.parts.payload.as_ref())
    }

    /// Whether this may be the payload of a job of `kind`.
    pub(crate) fn check_payload(&self, kind: &Name, payload: Option<&Part>) -> Result<()> {
        let Some(entry) = self.kinds.get(kind) else { return Ok(()) };
        let (rules, schema) = entry.rules(kind)?;
        let size = payload.map_or(0, |part| part.bytes.len() as u64);
        if let Some(limit) = rules.payload_bytes_max.filter(|limit| size > *limit) {
            let hint = "its kind takes no more; keep large data elsewhere and name its place";
            return Err(Error::TooLarge { field: "payload".into(), size, limit, hint });
        }
        schema.as_ref().map_or(Ok(()), |schema| schema.check(payload))
    }

    /// Whether a replay of this kind must be confirmed. Where its rules cannot be read it must, too.
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
            "this server takes registered kinds only. {meant}Register it with \
             PUT /v1/kinds/{kind} or `windlass kinds register`"
        );
        Error::invalid("kind", kind, expected)
    }
}
