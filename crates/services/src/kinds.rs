//! Registered kinds: their rules, stored in records so that all servers share them. Does not enforce rules or
//! parse schemas.

use crate::records::{encode, get, list, one, unexpected};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use windlass_core::engine::{Engine, Expect, RecordOp, RecordReply, Stamped};
use windlass_core::limits::{KINDS_MAX, NAME_BYTES_MAX};
use windlass_core::model::{KindRules, Name};
use windlass_core::{Error, Result, check_name};

/// Key prefix of the records.
pub(crate) const PREFIX: &str = "kind/";
/// The change marker: a record written with every change, so that readers notice changes cheaply.
pub(crate) const CHANGES_KEY: &str = "kind-changes";
/// Records read per call, because each may contain a whole schema.
const PAGE: u32 = 50;

/// The registered kinds of a store.
///
/// ```
/// # use std::sync::Arc;
/// # use windlass_memory::MemoryEngine;
/// use windlass_core::model::KindRules;
/// use windlass_services::Kinds;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let engine = Arc::new(MemoryEngine::new());
/// let kinds = Kinds::new(engine);
/// let mut rules = KindRules::default();
/// rules.sensitive = true;
/// kinds.put("charge_card", &rules).await?;
/// assert!(kinds.get("charge_card").await?.unwrap().sensitive);
/// # Ok::<(), windlass_core::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Kinds {
    engine: Arc<dyn Engine>,
}

/// A stored registered kind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Registered {
    /// The kind.
    pub kind: Name,
    /// The rules, or the error of parsing them.
    pub rules: Result<KindRules>,
    /// Version of the record; changes with the rules.
    pub version: u64,
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kinds")
    }
}

impl Kinds {
    /// The kinds of this store.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    /// Registers a kind or replaces its rules. The caller must check that a schema is valid: an invalid one
    /// refuses all jobs of the kind.
    pub async fn put(&self, kind: &str, rules: &KindRules) -> Result<()> {
        let key = key(kind)?;
        rules.check()?;
        self.check_payload_limit(rules)?;
        if rules.check.as_ref().is_some_and(|check| *check.kind == *kind) {
            let expected = "a kind cannot check itself: name another kind";
            return Err(Error::invalid("check.kind", kind, expected));
        }
        if get(&*self.engine, &key).await?.value.is_none() {
            self.check_room().await?;
        }
        let value = encode(rules)?;
        self.write(RecordOp::Put { key, value, expect: Expect::Any }).await.map(drop)
    }

    /// The rules of a kind, if it is registered.
    pub async fn get(&self, kind: &str) -> Result<Option<KindRules>> {
        let record = get(&*self.engine, &key(kind)?).await?.value;
        record.map(|record| read(&record.key, &record.value)).transpose()
    }

    /// Removes the rules of a kind; `false` if there are none. Its jobs are kept.
    pub async fn remove(&self, kind: &str) -> Result<bool> {
        let delete = RecordOp::Delete { key: key(kind)?, expect: Expect::Any };
        let RecordReply::Deleted(was) = self.write(delete).await? else {
            return Err(unexpected(&*self.engine));
        };
        Ok(was)
    }

    /// All registered kinds, by name.
    pub async fn all(&self) -> Result<Vec<Registered>> {
        all(&*self.engine).await
    }

    /// A number that increases with every change.
    pub async fn revision(&self) -> Result<u64> {
        Ok(revision(&*self.engine).await?.value)
    }

    /// Checks whether jobs of these kinds may be replayed with the confirmation `confirm`: refuses the first
    /// sensitive kind that was not named.
    pub async fn check_replay(
        &self,
        kinds: impl IntoIterator<Item = Name>,
        confirm: Option<&str>,
    ) -> Result<()> {
        let mut kinds: Vec<Name> = kinds.into_iter().collect();
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds.iter().filter(|kind| confirm != Some(&***kind)) {
            if kind.len() <= name_bytes_max()
                && self.get(kind).await?.is_some_and(|it| it.sensitive)
            {
                return Err(unconfirmed(kind));
            }
        }
        Ok(())
    }

    /// Writes, then updates the change marker. In this order, so that a concurrent reader reads again.
    async fn write(&self, op: RecordOp) -> Result<RecordReply> {
        let written = one(&*self.engine, op).await?.value;
        let (key, value) = (CHANGES_KEY.to_owned(), Bytes::from_static(b"{}"));
        one(&*self.engine, RecordOp::Put { key, value, expect: Expect::Any }).await?;
        Ok(written)
    }

    /// A limit above that of the store would have no effect.
    fn check_payload_limit(&self, rules: &KindRules) -> Result<()> {
        let most = self.engine.capabilities().payload_bytes_max as u64;
        match rules.payload_bytes_max {
            Some(bytes) if bytes > most => {
                let expected = format!(
                    "the store allows payloads of {most} bytes; lower it, or raise store.payload_bytes_max"
                );
                Err(Error::invalid("payload_bytes_max", bytes, expected))
            }
            _ => Ok(()),
        }
    }

    async fn check_room(&self) -> Result<()> {
        let count = self.all().await?.len();
        if count < KINDS_MAX {
            return Ok(());
        }
        let hint = "remove some that are not used any more";
        let (size, limit) = (count as u64 + 1, KINDS_MAX as u64);
        Err(Error::TooLarge { field: "kinds".into(), size, limit, hint })
    }
}

/// The error for a replay of a sensitive kind without confirmation.
pub fn unconfirmed(kind: &str) -> Error {
    let expected = format!(
        "replaying jobs of the sensitive kind {kind:?} must be confirmed: add `confirm` with the name \
         of the kind"
    );
    Error::invalid("confirm", "missing", expected)
}

pub(crate) async fn revision(engine: &dyn Engine) -> Result<Stamped<u64>> {
    let changes = get(engine, CHANGES_KEY).await?;
    Ok(changes.map(|record| record.map_or(0, |record| record.version)))
}

pub(crate) async fn all(engine: &dyn Engine) -> Result<Vec<Registered>> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = list(engine, PREFIX, after, PAGE).await?.value;
        found.extend(page.rows.iter().map(|record| Registered {
            kind: record.key.strip_prefix(PREFIX).unwrap_or(&record.key).into(),
            rules: read(&record.key, &record.value),
            version: record.version,
        }));
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

fn read(key: &str, value: &[u8]) -> Result<KindRules> {
    serde_json::from_slice(value).map_err(|error| Error::Corrupt {
        store: format!("record {key:?}"),
        reason: format!("invalid kind rules: {error}; register the kind again"),
    })
}

/// The content of a rules record for the audit log. Of a schema, which is the user's and may be long, only
/// that there is one.
pub(crate) fn shown(value: &[u8]) -> serde_json::Value {
    let Ok(mut rules) = serde_json::from_slice::<serde_json::Value>(value) else {
        return serde_json::json!("unreadable");
    };
    if let Some(schema) = rules.get_mut("schema").filter(|schema| !schema.is_null()) {
        let bytes = schema.as_str().map_or(0, str::len);
        *schema = serde_json::json!({ "bytes": bytes });
    }
    rules
}

/// Maximum bytes of the name of a registered kind.
const fn name_bytes_max() -> usize {
    NAME_BYTES_MAX - PREFIX.len()
}

/// The key of a kind's record.
fn key(kind: &str) -> Result<String> {
    check_name("kind", kind)?;
    let max = name_bytes_max();
    if kind.len() > max {
        let expected = format!("a kind that is registered has a name of at most {max} bytes");
        return Err(Error::invalid("kind", kind, expected));
    }
    Ok(format!("{PREFIX}{kind}"))
}
