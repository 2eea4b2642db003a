//! What the last heartbeat of a session established: which of its leases can still be there. Without it, every
//! heartbeat would pass by all the leases that the session ended since the table was last cleared, which may be
//! long ago while somebody else holds it open.
//!
//! Only a short cut: now and then a heartbeat looks at everything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;
use windlass_core::engine::{Claim, Claimant, Heartbeat, SessionId};

/// How often a heartbeat looks at everything, at least;
const WHOLE_EVERY: Duration = Duration::from_secs(10);
/// and so much less often as that took longer.
const WHOLE_SHARE: u32 = 20;
/// Sessions that are remembered. Where there are more, all are forgotten and learned again.
const SESSIONS_MAX: usize = 10_000;

/// The leases that a session can still have: those of later claims, of claims that were on their way, and those
/// that it declared.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) upto: i64,
    pub(crate) unanswered: Vec<i64>,
    pub(crate) declared: Vec<Uuid>,
}

struct Beat {
    known: Arc<Known>,
    /// When to look at everything again.
    whole_at: Instant,
}

/// By session, as far as this process heard them.
#[derive(Default)]
pub(crate) struct Beats {
    inner: Mutex<HashMap<SessionId, Beat>>,
}

impl Beats {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Beat>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of this session; nothing if it is time to look at everything.
    pub(crate) fn known(&self, session: &SessionId) -> Option<Arc<Known>> {
        let now = Instant::now();
        let beats = self.lock();
        beats.get(session).filter(|beat| beat.whole_at > now).map(|beat| Arc::clone(&beat.known))
    }

    /// A heartbeat that began then was answered; `by` is what it went by.
    pub(crate) fn heard(&self, beat: &Heartbeat, by: Option<&Known>, began: Instant) {
        let known = Arc::new(Known {
            upto: beat.upto.cast_signed(),
            unanswered: beat.unanswered.iter().map(|no| no.cast_signed()).collect(),
            declared: beat.held.iter().map(|held| held.id.as_uuid()).collect(),
        });
        let mut beats = self.lock();
        let before = beats.get(&beat.session).filter(|_| by.is_some()).map(|beat| beat.whole_at);
        let rest = || WHOLE_EVERY.max(began.elapsed() * WHOLE_SHARE);
        let whole_at = before.unwrap_or_else(|| Instant::now() + rest());
        if beats.len() >= SESSIONS_MAX {
            beats.clear();
        }
        beats.insert(beat.session.clone(), Beat { known, whole_at });
    }

    /// A claim is made: one that comes later than a heartbeat that knew of it makes leases where nobody would
    /// look for them.
    pub(crate) fn claims(&self, claim: &Claim) {
        let Claimant::Session { session, claim_no } = &claim.by else { return };
        let mut beats = self.lock();
        let is_late = |beat: &Beat| claim_no.cast_signed() <= beat.known.upto;
        if beats.get(session).is_some_and(is_late) {
            beats.remove(session);
        }
    }

    /// The session is over.
    pub(crate) fn forget(&self, session: &SessionId) {
        self.lock().remove(session);
    }

    /// Another store answers, or one that has lost something.
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

    fn heard(beats: &Beats, upto: u64) {
        let known = beats.known(&SessionId::new("s"));
        beats.heard(&beat(upto), known.as_deref(), Instant::now());
    }

    #[tokio::test(start_paused = true)]
    async fn a_heartbeat_goes_by_the_last_one_and_looks_at_everything_now_and_then() {
        let (beats, session) = (Beats::default(), SessionId::new("s"));
        assert!(beats.known(&session).is_none(), "the first looks at everything");
        heard(&beats, 3);
        tokio::time::advance(WHOLE_EVERY / 2).await;
        heard(&beats, 5);
        assert_eq!(beats.known(&session).unwrap().upto, 5);
        tokio::time::advance(WHOLE_EVERY / 2).await;
        assert!(beats.known(&session).is_none(), "however often it was heard meanwhile");
    }

    #[tokio::test]
    async fn a_claim_that_a_heartbeat_overtook_is_looked_for() {
        let (beats, session) = (Beats::default(), SessionId::new("s"));
        heard(&beats, 3);
        beats.claims(&claim(4));
        assert!(beats.known(&session).is_some());
        beats.claims(&claim(3));
        assert!(beats.known(&session).is_none());
    }
}
