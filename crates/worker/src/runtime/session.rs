//! The worker's session: opening it, keeping it alive, noticing that it was lost.

use super::calls::Reply;
use super::{Phase, Runtime};
use crate::signal::Cause;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use tokio::time::Instant;
use windlass_core::engine::{Heartbeat, HeartbeatReply, Held, OpenSession, Session, SessionId};
use windlass_core::{Error, JobId, Result};

pub(super) struct SessionState {
    id: Option<SessionId>,
    opening: bool,
    beating: bool,
    beat_at: Instant,
    /// When the last heartbeat was sent that the store answered.
    alive_at: Instant,
    /// Whether it was said that leases may be gone.
    doubted: bool,
}

impl SessionState {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            id: None,
            opening: false,
            beating: false,
            beat_at: now,
            alive_at: now,
            doubted: false,
        }
    }

    pub(super) fn id(&self) -> Option<SessionId> {
        self.id.clone()
    }

    pub(super) const fn is_open(&self) -> bool {
        self.id.is_some()
    }

    /// Takes the session, to close it.
    pub(super) const fn take(&mut self) -> Option<SessionId> {
        self.id.take()
    }

    pub(super) fn alarm_at(&self) -> Option<Instant> {
        (self.is_open() && !self.beating).then_some(self.beat_at)
    }
}

impl Runtime {
    /// Opens a session, or keeps the one there is alive.
    pub(super) fn keep_session(&mut self) {
        match self.session.id() {
            None if matches!(self.phase, Phase::Working) && !self.session.opening => {
                self.session.opening = true;
                let options = &self.shared.options;
                let ttl_ms = options.session_ttl.as_millis() as u64;
                let mut open = OpenSession::new(options.name.clone()).ttl_ms(ttl_ms);
                open.remote = options.remote;
                self.call("open_session", move |engine| engine.open_session(open), Reply::Opened);
            }
            Some(session) if !self.session.beating && Instant::now() >= self.session.beat_at => {
                self.beat(session);
            }
            _ => {}
        }
    }

    pub(super) fn opened(&mut self, answer: Result<Session>) {
        self.session.opening = false;
        match answer {
            Ok(session) => {
                self.answered();
                let now = Instant::now();
                self.session.alive_at = now;
                self.session.beat_at = now + self.shared.options.heartbeat;
                // Without its id: whoever has that can speak for this worker.
                tracing::info!(worker = %self.shared.options.name, "session open");
                self.session.id = Some(session.id);
                self.claims.look();
            }
            Err(error) => self.unanswered(&error),
        }
    }

    fn beat(&mut self, session: SessionId) {
        self.session.beating = true;
        let sent = Instant::now();
        let held: Vec<Held> = self.held.values().map(|running| running.held()).collect();
        let beat = Heartbeat::new(session, self.claims.last_no(), held.clone())
            .unanswered(self.claims.unanswered());
        let reply = move |answer| Reply::Beat { sent, held, answer };
        self.call("heartbeat", move |engine| engine.heartbeat(beat), reply);
    }

    pub(super) fn beaten(&mut self, sent: Instant, held: &[Held], answer: Result<HeartbeatReply>) {
        self.session.beating = false;
        match answer {
            Ok(reply) => {
                self.answered();
                // It counts from when it was sent: that is the latest the store can have seen it.
                self.session.alive_at = sent;
                self.session.beat_at = sent + self.shared.options.heartbeat;
                self.session.doubted = false;
                self.shared.counts.heartbeat(sent);
                self.compare_notes(held, &reply);
            }
            Err(Error::SessionLost { .. }) => {
                self.answered();
                self.lose_session();
            }
            Err(error) => {
                self.unanswered(&error);
                self.doubt();
            }
        }
    }

    /// Stops what the store says is not ours, or not wanted, any more.
    fn compare_notes(&self, declared: &[Held], reply: &HeartbeatReply) {
        let by_id = |ids: &[JobId], cause: Cause| {
            if ids.is_empty() {
                return;
            }
            let ids: HashSet<&JobId> = ids.iter().collect();
            for held in declared.iter().filter(|held| ids.contains(&held.id)) {
                // The job may be here again under another lease by now.
                let running = self.held.get(&held.id);
                if let Some(running) = running.filter(|running| running.lease == held.lease) {
                    // Harmless if it has ended meanwhile: then the settle's answer decides.
                    if running.signal.tell(cause) {
                        let _span = running.span.enter();
                        tracing::info!(%cause, "telling the handler to stop");
                    }
                }
            }
        };
        by_id(&reply.lost, Cause::LeaseLost);
        by_id(&reply.cancel, Cause::Operator);
    }

    /// Says once that leases may be gone. Everything goes on: a session is lost when the store
    /// says so, and one that comes back from an outage lets its workers revive theirs.
    fn doubt(&mut self) {
        let age = self.session.alive_at.elapsed();
        if age > self.shared.options.session_ttl && !self.session.doubted {
            self.session.doubted = true;
            tracing::warn!(?age, worker = %self.shared.options.name,
                "no heartbeat answered for the length of the session; leases may be lost");
        }
    }

    /// The store took this worker for dead: what runs is not ours any more. Results still go to the
    /// store, which knows best what became of each.
    pub(super) fn lose_session(&mut self) {
        if self.session.take().is_none() {
            return;
        }
        self.shared.counts.sessions_lost.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(worker = %self.shared.options.name, leases = self.held.len(),
            "session lost: stopping its handlers and opening a new one");
        for running in self.held.values() {
            running.signal.tell(Cause::LeaseLost);
        }
        self.claims.give_up(&mut self.room);
    }
}
