//! The leases that a session can still have, as of its last heartbeat. Without this cache every heartbeat would skip
//! the dead rows of all leases that the session ended since the last vacuum, which may be long ago beside an old
//! snapshot.
//! From time to time a heartbeat reads everything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::engine::{Claim, Claimant, Heartbeat, SessionId};
use windlass_core::sync::lock;
use windlass_workset::KnownLeases;

/// Minimum time between two full reads.
const WHOLE_EVERY: Duration = Duration::from_secs(10);
/// Full reads take at most one part in this number of the time.
const WHOLE_SHARE: u32 = 20;
/// Maximum number of cached sessions. Beyond it, the cache is cleared.
const SESSIONS_MAX: usize = 10_000;

struct Beat {
    known: Arc<KnownLeases>,
    /// When to read everything again.
    whole_at: Instant,
}

/// The cache, by session.
#[derive(Default)]
pub(crate) struct HeartbeatCache {
    inner: Mutex<HashMap<SessionId, Beat>>,
}

impl HeartbeatCache {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Beat>> {
        lock(&self.inner)
    }

    /// The cached leases of this session; `None` if a full read is due.
    pub(crate) fn known(&self, session: &SessionId) -> Option<Arc<KnownLeases>> {
        let now = Instant::now();
        let heartbeat_cache = self.lock();
        heartbeat_cache
            .get(session)
            .filter(|beat| beat.whole_at > now)
            .map(|beat| Arc::clone(&beat.known))
    }

    /// Notes the reply to a heartbeat that began at `began` and used `by`.
    pub(crate) fn heard(&self, beat: &Heartbeat, by: Option<&KnownLeases>, began: Instant) {
        let known = Arc::new(KnownLeases {
            upto: beat.upto,
            unanswered: beat.unanswered.clone(),
            declared: beat.held.iter().map(|held| held.id).collect(),
        });
        let mut heartbeat_cache = self.lock();
        let before =
            heartbeat_cache.get(&beat.session).filter(|_| by.is_some()).map(|beat| beat.whole_at);
        let rest = || WHOLE_EVERY.max(began.elapsed() * WHOLE_SHARE);
        let whole_at = before.unwrap_or_else(|| Instant::now() + rest());
        if heartbeat_cache.len() >= SESSIONS_MAX {
            heartbeat_cache.clear();
        }
        heartbeat_cache.insert(beat.session.clone(), Beat { known, whole_at });
    }

    /// Notes a claim. One that arrives later than a heartbeat that named it creates leases outside of the cached set.
    pub(crate) fn claims(&self, claim: &Claim) {
        let Claimant::Session { session, claim_no } = &claim.by else { return };
        let mut heartbeat_cache = self.lock();
        let is_late = |beat: &Beat| *claim_no <= beat.known.upto;
        if heartbeat_cache.get(session).is_some_and(is_late) {
            heartbeat_cache.remove(session);
        }
    }

    /// Removes an ended session.
    pub(crate) fn forget(&self, session: &SessionId) {
        self.lock().remove(session);
    }

    /// Clears the cache: the epoch has changed.
    pub(crate) fn forget_all(&self) {
        self.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(upto: u64) -> Heartbeat {
        Heartbeat::new(SessionId::new("s"), upto, Vec::new())
    }

    fn claim(claim_no: u64) -> Claim {
        Claim::new(Claimant::Session { session: SessionId::new("s"), claim_no }, "q", 1)
    }

    fn heard(heartbeat_cache: &HeartbeatCache, upto: u64) {
        let known = heartbeat_cache.known(&SessionId::new("s"));
        heartbeat_cache.heard(&beat(upto), known.as_deref(), Instant::now());
    }

    #[tokio::test(start_paused = true)]
    async fn a_heartbeat_uses_the_last_one_and_reads_everything_from_time_to_time() {
        let (heartbeat_cache, session) = (HeartbeatCache::default(), SessionId::new("s"));
        assert!(heartbeat_cache.known(&session).is_none(), "the first reads everything");
        heard(&heartbeat_cache, 3);
        tokio::time::advance(WHOLE_EVERY / 2).await;
        heard(&heartbeat_cache, 5);
        assert_eq!(heartbeat_cache.known(&session).unwrap().upto, 5);
        tokio::time::advance(WHOLE_EVERY / 2).await;
        assert!(heartbeat_cache.known(&session).is_none(), "however often it was heard meanwhile");
    }

    #[tokio::test]
    async fn a_claim_overtaken_by_a_heartbeat_is_found() {
        let (heartbeat_cache, session) = (HeartbeatCache::default(), SessionId::new("s"));
        heard(&heartbeat_cache, 3);
        heartbeat_cache.claims(&claim(4));
        assert!(heartbeat_cache.known(&session).is_some());
        heartbeat_cache.claims(&claim(3));
        assert!(heartbeat_cache.known(&session).is_none());
    }
}
