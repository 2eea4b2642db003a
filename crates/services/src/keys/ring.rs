//! All keys of a store at one moment, and who stands behind what somebody shows. It must not know how it
//! was shown.

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

/// Somebody who was let in.
#[derive(Clone, PartialEq, Eq)]
pub struct Principal {
    id: Option<String>,
    name: String,
    may: Grants,
    /// Signs for this principal; `None` for principals without a key, and outside servers.
    signer: Option<Signer>,
}

impl Principal {
    /// Whoever asks, where nobody is asked who he is: may do everything.
    pub fn anybody() -> Self {
        Self::unasked("anybody")
    }

    /// Somebody who reached the store without a server that asks for keys: may do everything.
    pub fn unasked(name: impl Into<String>) -> Self {
        Self { id: None, name: name.into(), may: Grants::admin(), signer: None }
    }

    /// The id of its key; none where nobody is asked for one.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it may do.
    pub const fn may(&self) -> &Grants {
        &self.may
    }

    /// A signature of `text` for this principal, which nobody but the servers of the store can make; none
    /// where nobody is asked who he is.
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

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denied {
    /// No key of this store, when its keys were read.
    Unknown,
    /// No key at all, or not the secret of the one that it names.
    Wrong,
    /// It was one, and was revoked.
    Revoked,
    /// It was one, and its time is over.
    Expired,
    /// A certificate with the names of several valid keys.
    Ambiguous,
}

struct Held {
    stored: Stored,
    principal: Arc<Principal>,
}

/// All keys of a store, as they were at one moment.
pub struct KeyRing {
    /// Of the record that every change of a key writes; 0 if there never was one.
    version: u64,
    now: Timestamp,
    epoch: Epoch,
    keys: Arc<All>,
}

#[derive(Default)]
struct All {
    by_id: HashMap<String, Held>,
    /// Records, those that cannot be read included.
    records: usize,
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyRing({} keys)", self.keys.records)
    }
}

impl KeyRing {
    /// Reads the keys for a server, which signs for them; one small record if they are still those that are
    /// known. Fails for a store that is reached through another server, which keeps its secret.
    pub async fn read(engine: &dyn Engine, known: Option<&Self>) -> Result<Self> {
        Self::read_for(engine, known, true).await
    }

    /// Reads the keys outside a server. Their principals cannot sign.
    pub(super) async fn look(engine: &dyn Engine) -> Result<Self> {
        Self::read_for(engine, None, false).await
    }

    async fn read_for(engine: &dyn Engine, known: Option<&Self>, signs: bool) -> Result<Self> {
        let seen = get(engine, CHANGES_KEY).await?;
        // First the version, then the keys: what changes in between is noticed the next time.
        let version = seen.value.map_or(0, |record| record.version);
        let keys = match known {
            Some(known) if known.version == version && known.epoch == seen.epoch => {
                known.keys.clone()
            }
            _ => Arc::new(read_all(engine, signs).await?),
        };
        Ok(Self { version, now: seen.now, epoch: seen.epoch, keys })
    }

    /// Whether these are still the same keys, read later.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.keys, &other.keys)
    }

    /// The store's time when it was read.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Whether no key was ever made. Keys that are worth nothing any more count: a store that was locked
    /// once must not open by itself when its last key runs out, or when records of keys are deleted.
    pub fn is_empty(&self) -> bool {
        self.keys.records == 0 && self.version == 0
    }

    /// Who stands behind a token at `now`.
    pub fn by_token(&self, token: &str, now: Timestamp) -> Result<Arc<Principal>, Denied> {
        let (id, _) = parts(token).ok_or(Denied::Wrong)?;
        // Ids are no secrets: that one is looked up in a map tells nobody anything.
        let held = self.keys.by_id.get(id).ok_or(Denied::Unknown)?;
        let proven = held.stored.hash.as_ref();
        let proven = proven.is_some_and(|hash| same(hash, &super::secret::hash(token)));
        if proven { held.valid(now) } else { Err(Denied::Wrong) }
    }

    /// Who stands behind a certificate with these names at `now`. If several valid keys match, it is
    /// refused: they may have different permissions.
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

    /// The key that a principal was let in with, as it is now: a session that began with it ends with it.
    pub fn by_id(&self, id: &str, now: Timestamp) -> Result<Arc<Principal>, Denied> {
        self.keys.by_id.get(id).ok_or(Denied::Unknown)?.valid(now)
    }

    /// The id of the valid key that is proven by a certificate with this name.
    pub(super) fn holder(&self, certificate: &str, now: Timestamp) -> Option<&str> {
        let held = self.keys.by_id.values().find(|held| {
            held.stored.certificate.as_deref() == Some(certificate) && held.valid(now).is_ok()
        });
        held.and_then(|held| held.principal.id())
    }

    /// All of them as people see them, by the time they were made.
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
    /// Adds a key. One that cannot be read opens nothing, and does not keep the others out.
    fn add(&mut self, record: &Record, signer: Option<&Signer>) {
        let id = id(&record.key).to_owned();
        let stored = match Stored::read(record) {
            Ok(stored) => stored,
            Err(error) => {
                tracing::warn!(%error, "a key cannot be read; it opens nothing");
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
