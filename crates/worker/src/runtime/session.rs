//! The worker's session: opens it, sends heartbeats, detects its loss.

use super::calls::Reply;
use super::{Phase, Runtime};
use crate::shared::Shared;
use crate::signal::Cause;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use tokio::time::Instant;
use windlass_core::engine::{
    Heartbeat, HeartbeatReply, Held, OpenSession, Session, SessionId, WorkerInfo,
};
use windlass_core::limits::{CLAIM_KINDS_MAX, CLAIM_QUEUES_MAX, CONCURRENCY_MAX};
use windlass_core::{Error, JobId, Result};

pub(super) struct SessionState {
    id: Option<SessionId>,
    opening: bool,
    beating: bool,
    beat_at: Instant,
    /// When the latest answered heartbeat was sent.
    alive_at: Instant,
    /// Whether it was logged that leases may be lost.
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

/// The description of this worker, for the store.
fn info(shared: &Shared) -> WorkerInfo {
    let mut info = WorkerInfo::default();
    info.queues.extend(shared.queues.iter().map(|queue| queue.name.clone()).take(CLAIM_QUEUES_MAX));
    info.kinds.extend(shared.routes.iter().map(|route| route.kind.clone()).take(CLAIM_KINDS_MAX));
    info.concurrency = Some(shared.options.concurrency.min(CONCURRENCY_MAX));
    info.host = windlass_services::host_name();
    info.version = Some(env!("CARGO_PKG_VERSION").to_owned());
    info
}

impl Runtime {
    /// Opens a session, or sends a heartbeat if it is due.
    pub(super) fn keep_session(&mut self) {
        match self.session.id() {
            None if matches!(self.phase, Phase::Working) && !self.session.opening => {
                self.session.opening = true;
                let options = &self.shared.options;
                let ttl_ms = options.session_ttl.as_millis() as u64;
                let info = info(&self.shared);
                let mut open = OpenSession::new(options.name.clone()).ttl_ms(ttl_ms).info(info);
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
                // Logged without the session id, which authorizes calls in the name of this worker.
                tracing::info!(worker = %self.shared.options.name, "session open");
                self.session.id = Some(session.id);
                self.claims.try_now();
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
                // Counted from the time it was sent, to be safe: the store has seen it no earlier.
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

    /// Signals handlers whose job was cancelled or whose lease is lost according to a heartbeat reply.
    fn compare_notes(&self, declared: &[Held], reply: &HeartbeatReply) {
        let by_id = |ids: &[JobId], cause: Cause| {
            if ids.is_empty() {
                return;
            }
            let ids: HashSet<&JobId> = ids.iter().collect();
            for held in declared.iter().filter(|held| ids.contains(&held.id)) {
                // The job may be held again under a newer lease.
                let running = self.held.get(&held.id);
                if let Some(running) = running.filter(|running| running.lease == held.lease) {
                    // Harmless if the handler has ended meanwhile: the reply to the settle decides.
                    if running.signal.send(cause) {
                        let _span = running.span.enter();
                        tracing::info!(%cause, "asking the handler to stop");
                    }
                }
            }
        };
        by_id(&reply.lost, Cause::LeaseLost);
        by_id(&reply.cancel, Cause::Operator);
    }

    /// Logs once that leases may be lost. Work continues: a session is lost only when the store says so, and
    /// a store that returns from an outage lets its workers revive their sessions.
    fn doubt(&mut self) {
        let age = self.session.alive_at.elapsed();
        if age > self.shared.options.session_ttl && !self.session.doubted {
            self.session.doubted = true;
            tracing::warn!(?age, worker = %self.shared.options.name,
                "no heartbeat answered for the whole session TTL; leases may be lost");
        }
    }

    /// Handles a lost session: the store considered this worker dead and its leases are void. Results are
    /// still sent, because the store decides for each of them.
    pub(super) fn lose_session(&mut self) {
        if self.session.take().is_none() {
            return;
        }
        self.shared.counts.sessions_lost.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(worker = %self.shared.options.name, leases = self.held.len(),
            "session lost: stopping its handlers and opening a new one");
        for running in self.held.values() {
            running.signal.send(Cause::LeaseLost);
        }
        self.claims.give_up(&mut self.room);
    }
}
