//! Administration of keys: create, list, revoke. Independent of authentication.

use super::grant::Grants;
use super::ring::KeyRing;
use super::secret::{ID_DIGITS, Secret, hash};
use super::stored::{CHANGES_KEY, Key, PREFIX, Stored};
use crate::records::{encode, get, unexpected};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::engine::{Engine, Expect, RecordOp, RecordReply, Stamped};
use windlass_core::limits::{AGE_MAX_MS, KEY_BYTES_MAX};
use windlass_core::random::{Random as _, SystemRandom};
use windlass_core::time::{DAY_MS, millis};
use windlass_core::{Error, Result, check_name, check_text, within_time};

/// Maximum number of keys of a store, because servers keep all of them in memory.
pub(super) const KEYS_MAX: usize = 1_000;
/// A revoked or expired key is listed for this long before it may be deleted.
const KEPT_MS: u64 = 30 * DAY_MS;
/// Accepted forms of certificate names: the common name or one of the alternative names.
const CERTIFICATE_NAMES: [&str; 4] = ["CN=", "DNS:", "URI:", "EMAIL:"];

/// A key to create.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewKey {
    /// Display name: usually the service that will use the key.
    pub name: String,
    /// Its permissions.
    pub may: Grants,
    /// Lifetime from now on; `None` means until it is revoked.
    pub expires: Option<Duration>,
    /// The name of a client certificate (`CN=…`, `DNS:…`, `URI:…` or `EMAIL:…`) that is the credential
    /// instead of a secret.
    pub certificate: Option<String>,
}

impl NewKey {
    /// A key with a secret, valid until it is revoked.
    pub fn new(name: impl Into<String>, may: Grants) -> Self {
        Self { name: name.into(), may, expires: None, certificate: None }
    }

    /// Limits the lifetime.
    #[must_use]
    pub const fn expires(mut self, time: Duration) -> Self {
        self.expires = Some(time);
        self
    }

    /// Uses a certificate with this name as the credential.
    #[must_use]
    pub fn certificate(mut self, name: impl Into<String>) -> Self {
        self.certificate = Some(name.into());
        self
    }

    fn check(&self) -> Result<()> {
        check_name("name", &self.name)?;
        if let Some(time) = self.expires {
            within_time("expires", time, 1..=AGE_MAX_MS)?;
        }
        let Some(name) = &self.certificate else { return Ok(()) };
        check_text("certificate", name, KEY_BYTES_MAX)?;
        if CERTIFICATE_NAMES.iter().any(|kind| name.len() > kind.len() && name.starts_with(kind)) {
            return Ok(());
        }
        let expected = "name it as CN=…, DNS:…, URI:… or EMAIL:…";
        Err(Error::invalid("certificate", name, expected))
    }
}

/// The keys of a store.
///
/// ```
/// # use std::sync::Arc;
/// # use windlass_memory::MemoryEngine;
/// use windlass_services::{Keys, NewKey};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let engine = Arc::new(MemoryEngine::new());
/// let keys = Keys::new(engine);
/// let (key, secret) = keys.create(NewKey::new("billing", "enqueue:invoice".parse()?)).await?;
/// let secret = secret.expect("it has no certificate");
/// assert!(secret.expose().starts_with("wl_"), "shown now, and never again");
///
/// keys.revoke(&key.id).await?;
/// assert!(keys.list().await?.value[0].revoked_at.is_some());
/// # Ok::<(), windlass_core::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Keys {
    engine: Arc<dyn Engine>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

impl Keys {
    /// The keys of this store.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    /// Creates a key. The secret is returned only here; `None` if the credential is a certificate.
    pub async fn create(&self, new: NewKey) -> Result<(Key, Option<Secret>)> {
        new.check()?;
        let ring = KeyRing::load(&*self.engine).await?;
        let now = ring.now();
        let gone = over(&ring)?;
        if let Some(name) = &new.certificate
            && let Some(other) = ring.holder(name, now)
        {
            let expected = format!("key {other} is proven by it already; revoke that one first");
            return Err(Error::invalid("certificate", name, expected));
        }
        let id = format!("{:0ID_DIGITS$x}", SystemRandom.next_u64());
        let secret = new.certificate.is_none().then(|| Secret::random(&id, &SystemRandom));
        let stored = Stored {
            name: new.name,
            may: new.may,
            hash: secret.as_ref().map(|secret| hash(secret.expose())),
            certificate: new.certificate,
            created_at: now,
            expires_at: new.expires.map(|time| now.plus(millis(time))),
            revoked_at: None,
            later: serde_json::Map::new(),
        };
        let key = format!("{PREFIX}{id}");
        let put = RecordOp::Put { key, value: encode(&stored)?, expect: Expect::Absent };
        self.write(vec![put]).await?;
        // Only after the new key is stored: a store with keys must never appear to have none.
        if !gone.is_empty()
            && let Err(error) = self.write(gone).await
        {
            tracing::warn!(%error, "cannot delete ended keys; creating the next key tries again");
        }
        Ok((stored.view(&id), secret))
    }

    /// All keys by creation time, including revoked and expired ones.
    pub async fn list(&self) -> Result<Stamped<Vec<Key>>> {
        let ring = KeyRing::load(&*self.engine).await?;
        Ok(ring.listed())
    }

    /// Revokes a key permanently; revoking it again has no effect. Servers refuse it within seconds.
    pub async fn revoke(&self, id: &str) -> Result<Key> {
        let missing = || {
            Error::missing(
                "key",
                id,
                "`windlass keys` and GET /v1/keys list them; name it by its id",
            )
        };
        let key = format!("{PREFIX}{id}");
        check_name("id", &key).map_err(|_| missing())?;
        let seen = get(&*self.engine, &key).await?;
        let record = seen.value.ok_or_else(missing)?;
        let mut stored = Stored::read(&record)?;
        if stored.revoked_at.is_none() {
            stored.revoked_at = Some(seen.now);
            let expect = Expect::Version(record.version);
            self.write(vec![RecordOp::Put { key, value: encode(&stored)?, expect }]).await?;
        }
        Ok(stored.view(id))
    }

    /// Writes, then updates the change marker. In this order, so that a server that reads in between reads
    /// again.
    async fn write(&self, mut ops: Vec<RecordOp>) -> Result<()> {
        let (key, value) = (CHANGES_KEY.to_owned(), Bytes::from_static(b"{}"));
        ops.push(RecordOp::Put { key, value, expect: Expect::Any });
        let requested = ops.len();
        let answers = self.engine.records(ops).await?.value;
        if answers.len() != requested {
            return Err(unexpected(&*self.engine));
        }
        answers.into_iter().collect::<Result<Vec<RecordReply>>>().map(|_| ())
    }
}

/// The deletions of keys that ended long ago; an error if the remaining ones leave no room for a new key.
fn over(ring: &KeyRing) -> Result<Vec<RecordOp>> {
    let now = ring.now();
    let over = |key: &Key| {
        let ended = key.revoked_at.into_iter().chain(key.expires_at).min();
        ended.is_some_and(|at| at.plus(KEPT_MS) < now)
    };
    let (gone, kept): (Vec<_>, Vec<_>) = ring.listed().value.into_iter().partition(over);
    if kept.len() >= KEYS_MAX {
        let (size, limit) = (kept.len() as u64 + 1, KEYS_MAX as u64);
        let hint = "share keys between processes of one service, or revoke some";
        return Err(Error::TooLarge { field: "keys".into(), size, limit, hint });
    }
    let delete =
        |key: Key| RecordOp::Delete { key: format!("{PREFIX}{}", key.id), expect: Expect::Any };
    Ok(gone.into_iter().map(delete).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Denied;
    use windlass_core::Timestamp;
    use windlass_core::random::Seeded;
    use windlass_core::time::ManualClock;
    use windlass_memory::MemoryEngine;

    fn store() -> (Arc<ManualClock>, Arc<MemoryEngine>, Keys) {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_000)));
        let engine = Arc::new(MemoryEngine::with(clock.clone(), Arc::new(Seeded::new(1))));
        (clock, engine.clone(), Keys::new(engine))
    }

    fn viewer(name: &str) -> NewKey {
        NewKey::new(name, "view".parse().unwrap())
    }

    #[tokio::test]
    async fn a_key_opens_until_it_is_revoked_or_expires_and_a_locked_store_stays_locked() {
        let (clock, engine, keys) = store();
        assert!(KeyRing::read(&*engine, None).await.unwrap().is_empty());
        let (brief, secret) =
            keys.create(viewer("brief").expires(Duration::from_millis(100))).await.unwrap();
        let token = secret.unwrap().expose().to_owned();
        let ring = KeyRing::read(&*engine, None).await.unwrap();
        let now = ring.now();
        assert_eq!(ring.by_token(&token, now).unwrap().name(), "brief");
        assert_eq!(ring.by_token(&token, now.plus(100)), Err(Denied::Expired));
        let other = format!("{}{}", &token[..token.len() - 4], "wxyz");
        assert_eq!(ring.by_token(&other, now), Err(Denied::Wrong));
        clock.advance(50);
        keys.revoke(&brief.id).await.unwrap();
        let ring = KeyRing::read(&*engine, Some(&ring)).await.unwrap();
        assert_eq!(ring.by_token(&token, now), Err(Denied::Revoked));
        assert!(!ring.is_empty());
    }

    #[tokio::test]
    async fn a_certificate_proves_one_key_at_a_time() {
        let (_, engine, keys) = store();
        let named = || viewer("v").certificate("CN=v");
        let (first, secret) = keys.create(named()).await.unwrap();
        assert!(secret.is_none());
        assert_eq!(keys.create(named()).await.unwrap_err().field(), Some("certificate"));
        keys.revoke(&first.id).await.unwrap();
        let (second, _) = keys.create(named()).await.unwrap();
        let ring = KeyRing::read(&*engine, None).await.unwrap();
        let who = ring.by_certificate(&["DNS:x".into(), "CN=v".into()], ring.now()).unwrap();
        assert_eq!(who.id(), Some(&*second.id));
        for bad in ["v", "CN=", "OU=v"] {
            let error = keys.create(viewer("v").certificate(bad)).await.unwrap_err();
            assert_eq!(error.field(), Some("certificate"), "{bad}");
        }
    }

    #[tokio::test]
    async fn keys_that_are_long_over_make_room() {
        let (clock, _, keys) = store();
        let (old, _) = keys.create(viewer("old")).await.unwrap();
        keys.create(viewer("brief").expires(Duration::from_millis(1))).await.unwrap();
        keys.revoke(&old.id).await.unwrap();
        clock.advance(KEPT_MS / 2);
        keys.create(viewer("new")).await.unwrap();
        assert_eq!(keys.list().await.unwrap().value.len(), 3, "listed for a while");
        clock.advance(KEPT_MS);
        keys.create(viewer("newer")).await.unwrap();
        let names: Vec<_> =
            keys.list().await.unwrap().value.into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["new", "newer"]);
    }
}
