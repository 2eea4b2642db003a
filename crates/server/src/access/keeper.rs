//! Cache of the store's keys: refreshed every second while requests arrive, never once per request.
//! It must not know routes.

use super::PeerNames;
use super::cookie::Cookie;
use super::key_changes::KeyChanges;
use crate::health::{ANSWER_WITHIN, StoreHealth};
use crate::options::{Limits, Options};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_core::engine::Engine;
use windlass_core::sync::lock;
use windlass_core::{Error, Result, Timestamp};
use windlass_services::{Denied, KeyRing, Principal};

/// Age at which keys are refreshed in the background while requests proceed.
const FRESH: Duration = Duration::from_secs(1);
/// Maximum age of keys for a decision: bounds how long a revoked key remains accepted.
const STALE: Duration = Duration::from_secs(3);

/// Minimum interval between refreshes for unknown keys. Bounds the delay of a request with an
/// unknown key too.
const STRANGERS_EVERY: Duration = Duration::from_millis(100);

/// How long a health probe waits for fresh keys; after that the cached ones decide.
const VIEWER_WITHIN: Duration = Duration::from_millis(50);

/// How to send a key, for error messages.
const HOW: &str = "send it as `Authorization: Bearer wl_…`; our own clients take it from the URL \
     (http://wl_…@host) or from WINDLASS_KEY";

/// Authenticates requests. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Access {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Arc<dyn Engine>,
    /// Whether unauthenticated requests are accepted while the store has no keys.
    open: bool,
    /// Contains the timeout for reading keys.
    limits: watch::Receiver<Limits>,
    /// Never held across an await.
    known: Mutex<Option<Known>>,
    /// Held during a refresh, so that only one runs at a time.
    reading: tokio::sync::Mutex<()>,
    key_changes: Arc<KeyChanges>,
}

#[derive(Clone)]
struct Known {
    ring: Arc<KeyRing>,
    read_at: Instant,
    /// Number of key changes through this server before the read.
    changes: u64,
}

impl Known {
    /// Estimate of the store's current time.
    fn now(&self) -> Timestamp {
        let passed = u64::try_from(self.read_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.ring.now().plus(passed)
    }
}

impl Access {
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        options: &Options,
        limits: watch::Receiver<Limits>,
        key_changes: Arc<KeyChanges>,
    ) -> Self {
        let (known, reading) = (Mutex::new(None), tokio::sync::Mutex::new(()));
        let open = options.is_open();
        Self { inner: Arc::new(Inner { engine, open, limits, known, reading, key_changes }) }
    }

    /// Authenticates by key, client certificate or, if `by_cookie`, the dashboard's cookie.
    pub(crate) async fn admit(
        &self,
        headers: &HeaderMap,
        peer: Option<&PeerNames>,
        by_cookie: bool,
    ) -> Result<Arc<Principal>> {
        let requested = Instant::now();
        match self.decide(
            &self.known().await.map_err(|error| self.without_details(error))?,
            headers,
            peer,
            by_cookie,
        ) {
            // The key may be newer than the cache: refresh and decide again.
            Err(refused) if refused.may_be_new => {
                let known = self
                    .read_since(requested)
                    .await
                    .map_err(|error| self.without_details(error))?;
                Ok(self.decide(&known, headers, peer, by_cookie)?)
            }
            decided => Ok(decided?),
        }
    }

    /// Authenticates a request that monitors the store. While the store does not answer, the cached
    /// keys decide, regardless of their age.
    pub(crate) async fn admit_watcher(
        &self,
        headers: &HeaderMap,
        peer: Option<&PeerNames>,
    ) -> Result<Arc<Principal>> {
        let known = match tokio::time::timeout(ANSWER_WITHIN, self.known()).await {
            Ok(Ok(known)) => known,
            Ok(Err(error)) => self.peek().ok_or_else(|| self.without_details(error))?,
            Err(_) => self.peek().ok_or_else(|| late(ANSWER_WITHIN))?,
        };
        Ok(self.decide(&known, headers, peer, true)?)
    }

    /// Whether the request has view permission, decided within [`VIEWER_WITHIN`]: health probes do
    /// not wait for the store.
    pub(crate) async fn may_view(&self, headers: &HeaderMap, peer: Option<&PeerNames>) -> bool {
        let known = tokio::time::timeout(VIEWER_WITHIN, self.known()).await;
        let known = known.ok().and_then(Result::ok).or_else(|| self.peek());
        let who = known.and_then(|known| self.decide(&known, headers, peer, true).ok());
        who.is_some_and(|who| who.may().may_view())
    }

    /// Reads the keys at startup, so that monitoring requests can be authenticated during an early
    /// outage. Then refreshes them while requests wait, because a waiting request does not trigger
    /// a refresh itself.
    pub(crate) async fn attend(self, waiting: Arc<AtomicUsize>, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(FRESH);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut is_first = true;
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            if std::mem::take(&mut is_first) || waiting.load(Ordering::Relaxed) > 0 {
                // The next request reports the error.
                let _ = stop.run_until_cancelled(self.read(FRESH / 2)).await;
            }
        }
    }

    /// A receiver that is notified whenever keys change.
    pub(crate) fn watch(&self) -> watch::Receiver<()> {
        self.inner.key_changes.watch()
    }

    /// Checks that an authenticated principal is still accepted. A revoked key, or the first key of
    /// the store, ends waiting requests.
    pub(crate) async fn still(&self, who: &Principal) -> Result<()> {
        let known = self.known().await?;
        let refused = match who.id() {
            None if self.inner.open && known.ring.is_empty() => return Ok(()),
            None => Refused::from("a key is required"),
            Some(id) => match known.ring.by_id(id, known.now()) {
                Ok(found) if *found == *who => return Ok(()),
                Ok(_) => Refused::from("the key has changed"),
                Err(why) => Refused::new("the key", why),
            },
        };
        Err(refused.into())
    }

    fn decide(
        &self,
        known: &Known,
        headers: &HeaderMap,
        peer: Option<&PeerNames>,
        by_cookie: bool,
    ) -> Result<Arc<Principal>, Refused> {
        let (ring, now) = (&known.ring, known.now());
        let shown = headers.get(AUTHORIZATION);
        if ring.is_empty() {
            let may_be_new = shown.is_some() || peer.is_some();
            return match self.inner.open {
                true => Ok(Arc::new(Principal::anonymous())),
                false => Err(Refused { error: no_keys(), may_be_new }),
            };
        }
        if let Some(shown) = shown {
            let token = shown.to_str().ok().and_then(|text| text.split_once(' '));
            let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
            let (_, token) =
                token.ok_or_else(|| Refused::from("the Authorization header contains no key"))?;
            return ring.by_token(token.trim(), now).map_err(|why| Refused::new("the key", why));
        }
        if let Some(cookie) = Cookie::of(headers).filter(|_| by_cookie) {
            let who = ring.by_id(cookie.id, now);
            if let Some(who) = who.ok().filter(|who| cookie.is_of(who, now)) {
                return Ok(who);
            }
        }
        let Some(peer) = peer else { return Err(Refused::from("a key is required")) };
        let what = || format!("the certificate of {}", peer.0.join(", "));
        ring.by_certificate(&peer.0, now).map_err(|why| Refused::new(&what(), why))
    }

    /// The principal of this key, and the store's time.
    pub(crate) async fn by_token(&self, token: &str) -> Result<(Arc<Principal>, Timestamp)> {
        let requested = Instant::now();
        let mut known = self.known().await.map_err(|error| self.without_details(error))?;
        let mut who = known.ring.by_token(token, known.now());
        if who == Err(Denied::Unknown) {
            known =
                self.read_since(requested).await.map_err(|error| self.without_details(error))?;
            who = known.ring.by_token(token, known.now());
        }
        let who = who.map_err(|why| Refused::new("the key", why))?;
        Ok((who, known.now()))
    }

    /// Whether the server accepts unauthenticated requests now.
    pub(crate) async fn is_open(&self) -> Result<bool> {
        Ok(self.inner.open
            && self.known().await.map_err(|error| self.without_details(error))?.ring.is_empty())
    }

    /// The cached keys, refreshed if needed.
    async fn known(&self) -> Result<Known> {
        match self.peek() {
            Some(known) if known.changes != self.inner.key_changes.changes() => {
                self.read_changed().await
            }
            Some(known) if known.read_at.elapsed() < FRESH => Ok(known),
            Some(known) if known.read_at.elapsed() < STALE => {
                // Refresh in one background task; requests do not wait for it.
                let this = self.clone();
                if self.inner.reading.try_lock().is_ok() {
                    tokio::spawn(async move { this.read(FRESH).await });
                }
                Ok(known)
            }
            _ => self.read(STALE).await,
        }
    }

    /// Removes the store's name and error message from an error, because the caller is not
    /// authenticated. Keeps them if the server accepted unauthenticated requests at the last read.
    fn without_details(&self, error: Error) -> Error {
        let is_open = self.inner.open && self.peek().is_some_and(|known| known.ring.is_empty());
        match error {
            Error::Unavailable { .. } | Error::Busy { .. } | Error::InUse { .. } if !is_open => {
                tracing::debug!(%error, "cannot read the keys");
                StoreHealth::unavailable()
            }
            other => other,
        }
    }

    /// Reads the keys unless they already include the last change through this server.
    async fn read_changed(&self) -> Result<Known> {
        let reading = self.inner.reading.lock().await;
        match self.peek() {
            Some(known) if known.changes == self.inner.key_changes.changes() => Ok(known),
            known => self.read_anew(known, reading).await,
        }
    }

    fn peek(&self) -> Option<Known> {
        lock(&self.inner.known).clone()
    }

    /// Reads the keys unless another task did so less than `within` ago.
    async fn read(&self, within: Duration) -> Result<Known> {
        let reading = self.inner.reading.lock().await;
        match self.peek() {
            Some(known) if known.read_at.elapsed() < within => Ok(known),
            known => self.read_anew(known, reading).await,
        }
    }

    /// Returns keys read at `requested` or later. Reads for unknown keys run one at a time, at most
    /// once per [`STRANGERS_EVERY`].
    async fn read_since(&self, requested: Instant) -> Result<Known> {
        let reading = self.inner.reading.lock().await;
        let known = self.peek();
        if let Some(known) = &known {
            if known.read_at >= requested {
                return Ok(known.clone());
            }
            tokio::time::sleep_until(known.read_at + STRANGERS_EVERY).await;
        }
        self.read_anew(known, reading).await
    }

    async fn read_anew(
        &self,
        known: Option<Known>,
        _reading: tokio::sync::MutexGuard<'_, ()>,
    ) -> Result<Known> {
        // Taken before the read: a change during the read counts as not included.
        let (read_at, changes) = (Instant::now(), self.inner.key_changes.changes());
        let read = KeyRing::read(&*self.inner.engine, known.as_ref().map(|known| &*known.ring));
        let read_max = self.inner.limits.borrow().call_timeout;
        let ring = tokio::time::timeout(read_max, read).await.map_err(|_| late(read_max))??;
        let is_first = known.is_none();
        if is_first && ring.is_empty() && self.inner.open {
            tracing::info!("the store has no keys: the server accepts unauthenticated requests");
        }
        let is_new = known.is_none_or(|known| !known.ring.is_same(&ring));
        let known = Known { ring: Arc::new(ring), read_at, changes };
        *lock(&self.inner.known) = Some(known.clone());
        if is_new {
            self.inner.key_changes.wake();
        }
        Ok(known)
    }
}

fn late(after: Duration) -> Error {
    let reason = format!("reading its keys took longer than {after:?}");
    Error::Unavailable { store: "the store".to_owned(), reason }
}

/// Why authentication failed.
struct Refused {
    error: Error,
    /// Whether the credentials may be newer than the cached keys.
    may_be_new: bool,
}

impl Refused {
    fn new(what: &str, why: Denied) -> Self {
        let refused = Self::from(&*match why {
            Denied::Revoked => format!("{what} was revoked"),
            Denied::Expired => format!("{what} has expired"),
            Denied::Ambiguous => {
                format!("{what} matches several keys; revoke all but one (`windlass keys list`)")
            }
            _ => format!("{what} is unknown"),
        });
        Self { may_be_new: why == Denied::Unknown, ..refused }
    }
}

impl From<&str> for Refused {
    fn from(what: &str) -> Self {
        let error = Error::Unauthenticated { reason: format!("{what}; {HOW}") };
        Self { error, may_be_new: false }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

fn no_keys() -> Error {
    let reason = "this server is reachable from other machines and its store has no keys yet; create the first \
                  one directly at the store: `windlass keys create --name admin --may admin --store URL`";
    Error::Unauthenticated { reason: reason.to_owned() }
}
