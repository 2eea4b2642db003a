//! The keys of the store as this server knows them: read anew every few seconds while somebody asks, and
//! never for a single request. It must not know routes.

use super::PeerNames;
use super::cookie::Cookie;
use super::news::KeyNews;
use crate::health::{ANSWER_WITHIN, StoreHealth};
use crate::options::{Limits, Options};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_core::engine::Engine;
use windlass_core::{Error, Result, Timestamp};
use windlass_services::{Denied, KeyRing, Principal};

/// Keys are read anew after this, beside the requests that go on.
const FRESH: Duration = Duration::from_secs(1);
/// Keys that were read longer ago decide nothing: how long a revoked key is let in at most.
const STALE: Duration = Duration::from_secs(3);

/// Between two reads for keys that are not known: how long whoever shows one waits for his answer, too.
const STRANGERS_EVERY: Duration = Duration::from_millis(100);

/// How long a probe waits for keys that were read lately; then the last ones decide.
const VIEWER_WITHIN: Duration = Duration::from_millis(50);

/// How to show a key.
const HOW: &str = "send it as `Authorization: Bearer wl_…`; our own clients take it from the URL \
     (http://wl_…@host) or from WINDLASS_KEY";

/// Knows who is let in. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Access {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Arc<dyn Engine>,
    /// Whether everybody may do everything while the store has no keys.
    open: bool,
    /// How long the store may take to tell its keys.
    limits: watch::Receiver<Limits>,
    /// Held for moments, never across an await.
    known: Mutex<Option<Known>>,
    /// Held by whoever reads.
    reading: tokio::sync::Mutex<()>,
    news: Arc<KeyNews>,
}

#[derive(Clone)]
struct Known {
    ring: Arc<KeyRing>,
    read_at: Instant,
    /// The changes through this server that were made before.
    changes: u64,
}

impl Known {
    /// The store's time, as far as it is known.
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
        news: Arc<KeyNews>,
    ) -> Self {
        let (known, reading) = (Mutex::new(None), tokio::sync::Mutex::new(()));
        let open = options.is_open();
        Self { inner: Arc::new(Inner { engine, open, limits, known, reading, news }) }
    }

    /// Who shows this: a key, a certificate or, where it is enough, the dashboard's cookie.
    pub(crate) async fn admit(
        &self,
        headers: &HeaderMap,
        peer: Option<&PeerNames>,
        by_cookie: bool,
    ) -> Result<Arc<Principal>> {
        let asked = Instant::now();
        match self.decide(
            &self.known().await.map_err(|error| self.untold(error))?,
            headers,
            peer,
            by_cookie,
        ) {
            // A fresh key is good at once.
            Err(refused) if refused.may_be_new => {
                let known = self.read_since(asked).await.map_err(|error| self.untold(error))?;
                Ok(self.decide(&known, headers, peer, by_cookie)?)
            }
            decided => Ok(decided?),
        }
    }

    /// The same for whoever watches over the store: while it does not answer, the keys that it told last
    /// decide, however long ago.
    pub(crate) async fn admit_watcher(
        &self,
        headers: &HeaderMap,
        peer: Option<&PeerNames>,
    ) -> Result<Arc<Principal>> {
        let known = match tokio::time::timeout(ANSWER_WITHIN, self.known()).await {
            Ok(Ok(known)) => known,
            Ok(Err(error)) => self.peek().ok_or_else(|| self.untold(error))?,
            Err(_) => self.peek().ok_or_else(|| late(ANSWER_WITHIN))?,
        };
        Ok(self.decide(&known, headers, peer, true)?)
    }

    /// Whether whoever shows this may view, as far as it is known at once: probes do not wait for the store.
    pub(crate) async fn may_view(&self, headers: &HeaderMap, peer: Option<&PeerNames>) -> bool {
        let known = tokio::time::timeout(VIEWER_WITHIN, self.known()).await;
        let known = known.ok().and_then(Result::ok).or_else(|| self.peek());
        let who = known.and_then(|known| self.decide(&known, headers, peer, true).ok());
        who.is_some_and(|who| who.may().may_view())
    }

    /// Reads the keys before somebody asks, so that watchers are let in if the store goes away at once; and
    /// then while requests wait, which ask only once.
    pub(crate) async fn attend(self, waiting: Arc<AtomicUsize>, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(FRESH);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut is_first = true;
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            if std::mem::take(&mut is_first) || waiting.load(Ordering::Relaxed) > 0 {
                // Whoever asks next learns what is wrong.
                let _ = stop.run_until_cancelled(self.read(FRESH / 2)).await;
            }
        }
    }

    /// Wakes a request that waits whenever keys have changed.
    pub(crate) fn watch(&self) -> watch::Receiver<()> {
        self.inner.news.watch()
    }

    /// Whether somebody who was let in would be let in again: a key that was revoked, or the first key of
    /// the store, ends what waits.
    pub(crate) async fn still(&self, who: &Principal) -> Result<()> {
        let known = self.known().await?;
        let refused = match who.id() {
            None if self.inner.open && known.ring.is_empty() => return Ok(()),
            None => Refused::from("a key is needed"),
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
                true => Ok(Arc::new(Principal::anybody())),
                false => Err(Refused { error: no_keys(), may_be_new }),
            };
        }
        if let Some(shown) = shown {
            let token = shown.to_str().ok().and_then(|text| text.split_once(' '));
            let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
            let (_, token) = token.ok_or_else(|| Refused::from("what was sent is no key"))?;
            return ring.by_token(token.trim(), now).map_err(|why| Refused::new("the key", why));
        }
        if let Some(cookie) = Cookie::of(headers).filter(|_| by_cookie) {
            let who = ring.by_id(cookie.id, now);
            if let Some(who) = who.ok().filter(|who| cookie.is_of(who, now)) {
                return Ok(who);
            }
        }
        let Some(peer) = peer else { return Err(Refused::from("a key is needed")) };
        let what = || format!("the certificate of {}", peer.0.join(", "));
        ring.by_certificate(&peer.0, now).map_err(|why| Refused::new(&what(), why))
    }

    /// Who has this key, and the store's time.
    pub(crate) async fn by_token(&self, token: &str) -> Result<(Arc<Principal>, Timestamp)> {
        let asked = Instant::now();
        let mut known = self.known().await.map_err(|error| self.untold(error))?;
        let mut who = known.ring.by_token(token, known.now());
        if who == Err(Denied::Unknown) {
            known = self.read_since(asked).await.map_err(|error| self.untold(error))?;
            who = known.ring.by_token(token, known.now());
        }
        let who = who.map_err(|why| Refused::new("the key", why))?;
        Ok((who, known.now()))
    }

    /// Whether nobody is asked for a key.
    pub(crate) async fn is_open(&self) -> Result<bool> {
        Ok(self.inner.open
            && self.known().await.map_err(|error| self.untold(error))?.ring.is_empty())
    }

    /// The keys, read lately.
    async fn known(&self) -> Result<Known> {
        match self.peek() {
            Some(known) if known.changes != self.inner.news.changes() => self.read_changed().await,
            Some(known) if known.read_at.elapsed() < FRESH => Ok(known),
            Some(known) if known.read_at.elapsed() < STALE => {
                // One reads beside the others, who need not wait for it.
                let this = self.clone();
                if self.inner.reading.try_lock().is_ok() {
                    tokio::spawn(async move { this.read(FRESH).await });
                }
                Ok(known)
            }
            _ => self.read(STALE).await,
        }
    }

    /// What somebody learns if the keys cannot be read, who may be a stranger: not where the store is, nor
    /// what it says. Nobody was one when the keys were read last, if the store had none.
    fn untold(&self, error: Error) -> Error {
        let is_open = self.inner.open && self.peek().is_some_and(|known| known.ring.is_empty());
        match error {
            Error::Unavailable { .. } | Error::Busy { .. } | Error::InUse { .. } if !is_open => {
                tracing::debug!(%error, "the keys cannot be read");
                StoreHealth::away_untold()
            }
            other => other,
        }
    }

    /// The keys as they are after the last change through this server.
    async fn read_changed(&self) -> Result<Known> {
        let reading = self.inner.reading.lock().await;
        match self.peek() {
            Some(known) if known.changes == self.inner.news.changes() => Ok(known),
            known => self.read_anew(known, reading).await,
        }
    }

    fn peek(&self) -> Option<Known> {
        self.inner.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the keys, unless somebody else did so not longer than `within` ago.
    async fn read(&self, within: Duration) -> Result<Known> {
        let reading = self.inner.reading.lock().await;
        match self.peek() {
            Some(known) if known.read_at.elapsed() < within => Ok(known),
            known => self.read_anew(known, reading).await,
        }
    }

    /// The keys as they were at `asked` or later. However many strangers ask, the store is read for them a
    /// few times a second, one after another.
    async fn read_since(&self, asked: Instant) -> Result<Known> {
        let reading = self.inner.reading.lock().await;
        let known = self.peek();
        if let Some(known) = &known {
            if known.read_at >= asked {
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
        // Before it is asked: what changes while it answers counts as not seen.
        let (read_at, changes) = (Instant::now(), self.inner.news.changes());
        let read = KeyRing::read(&*self.inner.engine, known.as_ref().map(|known| &*known.ring));
        let read_max = Duration::from_millis(self.inner.limits.borrow().call_timeout_ms);
        let ring = tokio::time::timeout(read_max, read).await.map_err(|_| late(read_max))??;
        let is_first = known.is_none();
        if is_first && ring.is_empty() && self.inner.open {
            tracing::info!("the store has no keys: whoever reaches this server may do anything");
        }
        let is_new = known.is_none_or(|known| !known.ring.is_same(&ring));
        let known = Known { ring: Arc::new(ring), read_at, changes };
        *self.inner.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known.clone());
        if is_new {
            self.inner.news.wake();
        }
        Ok(known)
    }
}

fn late(after: Duration) -> Error {
    let reason = format!("it did not tell its keys within {after:?}");
    Error::Unavailable { store: "the store".to_owned(), reason }
}

/// Why somebody is not let in.
struct Refused {
    error: Error,
    /// Whether what he shows may have been made since the keys were read.
    may_be_new: bool,
}

impl Refused {
    fn new(what: &str, why: Denied) -> Self {
        let refused = Self::from(&*match why {
            Denied::Revoked => format!("{what} was revoked"),
            Denied::Expired => format!("{what} has expired"),
            Denied::Ambiguous => format!(
                "{what} has the names of several keys; revoke all but one (`windlass keys list`)"
            ),
            _ => format!("{what} is not known here"),
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
    let reason = "this server can be reached from elsewhere and its store has no keys yet; make the first \
                  one at the store itself: `windlass keys create --name admin --may admin --store URL`";
    Error::Unauthenticated { reason: reason.to_owned() }
}
