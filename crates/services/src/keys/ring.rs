//! A snapshot of all keys of a store, and the authentication of tokens and certificates. Independent of the
//! transport.

use super::grant::Grants;
use super::secret::{parts, same};
use super::sign::Signer;
use super::store::KEYS_MAX;
use super::stored::{CHANGES_KEY, Key, PREFIX, Stored, id};
use crate::records::{get, list};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use windlass_core::engine::{Engine, Epoch, Record, Stamped};
use windlass_core::limits::PAGE_MAX;
use windlass_core::{Error, Result, Timestamp};

/// An authenticated principal.
#[derive(Clone, PartialEq, Eq)]
pub struct Principal {
    id: Option<String>,
    name: String,
    may: Grants,
    /// Signs for this principal; `None` for principals without a key, and outside of servers.
    signer: Option<Signer>,
}

impl Principal {
    /// The principal of unauthenticated requests to a server without keys: has all permissions.
    pub fn anonymous() -> Self {
        Self::direct("anonymous")
    }

    /// A principal that uses the store directly, without a server that requires keys: has all permissions.
    pub fn direct(name: impl Into<String>) -> Self {
        Self { id: None, name: name.into(), may: Grants::admin(), signer: None }
    }

    /// The id of its key; `None` if no key was required.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The display name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its permissions.
    pub const fn may(&self) -> &Grants {
        &self.may
    }

    /// Signs `text` for this principal; only the servers of the store can do so. `None` if no key was
    /// required.
    pub fn sign(&self, text: &str) -> Option<String> {
        Some(self.signer.as_ref()?.sign(self.id.as_ref()?, text))
    }

    /// Whether a server of the store signed `text` for this principal.
    pub fn signed(&self, text: &str, signature: &str) -> bool {
        self.sign(text).is_some_and(|own| same(&own, signature))
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Principal({})", self.name)
    }
}

/// Why authentication failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denied {
    /// The key did not exist when the keys were last read.
    Unknown,
    /// The token is not a key, or the secret does not match the key.
    Wrong,
    /// The key was revoked.
    Revoked,
    /// The key has expired.
    Expired,
    /// The certificate matches several valid keys.
    Ambiguous,
}

struct Held {
    stored: Stored,
    principal: Arc<Principal>,
}

/// A snapshot of all keys of a store.
pub struct KeyRing {
    /// Version of the change marker record; 0 if it does not exist.
    version: u64,
    now: Timestamp,
    epoch: Epoch,
    keys: Arc<All>,
}

#[derive(Default)]
struct All {
    by_id: HashMap<String, Held>,
    /// Number of records, including unreadable ones.
    records: usize,
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyRing({} keys)", self.keys.records)
    }
}

impl KeyRing {
    /// Reads the keys for a server, which can sign for them. Reads only one small record if `known` is up to
    /// date. Fails if the store is behind another server, which does not reveal its signing secret.
    pub async fn read(engine: &dyn Engine, known: Option<&Self>) -> Result<Self> {
        Self::read_for(engine, known, true).await
    }

    /// Reads the keys outside of a server. Their principals cannot sign.
    pub(super) async fn load(engine: &dyn Engine) -> Result<Self> {
        Self::read_for(engine, None, false).await
    }

    async fn read_for(engine: &dyn Engine, known: Option<&Self>, signs: bool) -> Result<Self> {
        let seen = get(engine, CHANGES_KEY).await?;
        // The version is read before the keys, so that a change in between is noticed next time.
        let version = seen.value.map_or(0, |record| record.version);
        let keys = match known {
            Some(known) if known.version == version && known.epoch == seen.epoch => {
                known.keys.clone()
            }
            _ => Arc::new(read_all(engine, signs).await?),
        };
        Ok(Self { version, now: seen.now, epoch: seen.epoch, keys })
    }

    /// Whether both snapshots contain the same keys.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.keys, &other.keys)
    }

    /// The store's time when the snapshot was read.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Whether no key was ever created. Revoked and expired keys count: a store that once required keys must
    /// not become open when its last key expires or when records of keys are deleted.
    pub fn is_empty(&self) -> bool {
        self.keys.records == 0 && self.version == 0
    }

    /// Authenticates a token at `now`.
    pub fn by_token(&self, token: &str, now: Timestamp) -> Result<Arc<Principal>, Denied> {
        let (id, _) = parts(token).ok_or(Denied::Wrong)?;
        // Ids are not secret, so a map lookup leaks nothing.
        let held = self.keys.by_id.get(id).ok_or(Denied::Unknown)?;
        let proven = held.stored.hash.as_ref();
        let proven = proven.is_some_and(|hash| same(hash, &super::secret::hash(token)));
        if proven { held.valid(now) } else { Err(Denied::Wrong) }
    }

    /// Authenticates a certificate with these names at `now`. Refused if several valid keys match, because
    /// they may have different permissions.
    pub fn by_certificate(
        &self,
        names: &[String],
        now: Timestamp,
    ) -> Result<Arc<Principal>, Denied> {
        let held = self.keys.by_id.values().filter(|held| {
            held.stored.certificate.as_ref().is_some_and(|name| names.contains(name))
        });
        let mut found = Err(Denied::Unknown);
        for held in held {
            match (held.valid(now), found.is_ok()) {
                (Ok(_), true) => return Err(Denied::Ambiguous),
                (valid, false) => found = valid,
                (Err(_), true) => {}
            }
        }
        found
    }

    /// The current state of the key that a principal was authenticated with: a session ends with its key.
    pub fn by_id(&self, id: &str, now: Timestamp) -> Result<Arc<Principal>, Denied> {
        self.keys.by_id.get(id).ok_or(Denied::Unknown)?.valid(now)
    }

    /// The id of the valid key whose credential is a certificate with this name.
    pub(super) fn holder(&self, certificate: &str, now: Timestamp) -> Option<&str> {
        let held = self.keys.by_id.values().find(|held| {
            held.stored.certificate.as_deref() == Some(certificate) && held.valid(now).is_ok()
        });
        held.and_then(|held| held.principal.id())
    }

    /// All keys for display, by creation time.
    pub(super) fn listed(&self) -> Stamped<Vec<Key>> {
        let mut keys: Vec<Key> =
            self.keys.by_id.iter().map(|(id, held)| held.stored.view(id)).collect();
        keys.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Stamped { now: self.now, epoch: self.epoch.clone(), value: keys }
    }
}

impl Held {
    fn valid(&self, now: Timestamp) -> Result<Arc<Principal>, Denied> {
        if self.stored.revoked_at.is_some() {
            return Err(Denied::Revoked);
        }
        match self.stored.expires_at {
            Some(at) if at <= now => Err(Denied::Expired),
            _ => Ok(self.principal.clone()),
        }
    }
}

async fn read_all(engine: &dyn Engine, signs: bool) -> Result<All> {
    let (mut all, mut after, mut signer) = (All::default(), None, None);
    loop {
        let page = list(engine, PREFIX, after, PAGE_MAX).await?.value;
        all.records += page.rows.len();
        if signs && signer.is_none() && !page.rows.is_empty() {
            signer = Some(Signer::of(engine).await?);
        }
        for record in &page.rows {
            all.add(record, signer.as_ref());
        }
        if all.records > 2 * KEYS_MAX {
            let reason = format!("more than {} keys; remove some of {PREFIX}…", 2 * KEYS_MAX);
            return Err(Error::Corrupt { store: "the store".to_owned(), reason });
        }
        after = page.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}

impl All {
    /// Adds a key. An unreadable one grants nothing and does not affect the others.
    fn add(&mut self, record: &Record, signer: Option<&Signer>) {
        let id = id(&record.key).to_owned();
        let stored = match Stored::read(record) {
            Ok(stored) => stored,
            Err(error) => {
                tracing::warn!(%error, "unreadable key record; it grants nothing");
                return;
            }
        };
        let principal = Principal {
            id: Some(id.clone()),
            name: stored.name.clone(),
            may: stored.may.clone(),
            signer: signer.cloned(),
        };
        self.by_id.insert(id, Held { stored, principal: Arc::new(principal) });
    }
}
