//! Sessions: who is alive, and what they hold.

use crate::store::{Happening, Store};
use std::collections::HashSet;
use windlass_core::engine::{
    Heartbeat, HeartbeatReply, Lease, OpenSession, Session, SessionId, SessionInfo,
};
use windlass_core::machine::EventKind;
use windlass_core::{Error, JobId, Result, Timestamp};

/// An open session.
#[derive(Clone, Debug)]
pub(crate) struct SessionEntry {
    pub(crate) worker: String,
    pub(crate) opened_at: Timestamp,
    pub(crate) ttl_ms: u64,
    pub(crate) expires_at: Timestamp,
    /// Whether it belongs to a single claim and ends with its last lease.
    pub(crate) alone: bool,
}

impl Store {
    pub(crate) fn open_session(&mut self, request: OpenSession, now: Timestamp) -> Session {
        let id = SessionId::random(&*self.random);
        let expires_at = now.plus(request.ttl_ms);
        let entry = SessionEntry {
            worker: request.worker,
            opened_at: now,
            ttl_ms: request.ttl_ms,
            expires_at,
            alone: false,
        };
        self.sessions.insert(id.clone(), entry);
        Session { id, expires_at }
    }

    /// The session, if it was not reclaimed.
    pub(crate) fn session(&mut self, id: &SessionId) -> Result<&mut SessionEntry> {
        self.sessions.get_mut(id).ok_or_else(|| Error::SessionLost { session: id.to_string() })
    }

    pub(crate) fn heartbeat(&mut self, beat: Heartbeat, now: Timestamp) -> Result<HeartbeatReply> {
        let session = self.session(&beat.session)?;
        session.expires_at = now.plus(session.ttl_ms);
        let expires_at = session.expires_at;
        let declared: HashSet<(JobId, &Lease)> =
            beat.held.iter().map(|held| (held.id, &held.lease)).collect();
        let mut undeclared = Vec::new();
        for id in self.held_by(&beat.session) {
            let Some(leased) = self.jobs.get(&id).and_then(|entry| entry.leased.as_ref()) else {
                continue;
            };
            let known = declared.contains(&(id, &leased.lease));
            let on_its_way =
                leased.claim_no > beat.upto || beat.unanswered.contains(&leased.claim_no);
            if !known && !on_its_way {
                undeclared.push(id);
            }
        }
        for id in &undeclared {
            self.release(*id, now)?;
        }
        let (mut lost, mut cancel) = (Vec::new(), Vec::new());
        for held in &beat.held {
            let entry = self.jobs.get(&held.id);
            match entry.filter(|entry| entry.leased_under(&held.lease).is_some()) {
                None => lost.push(held.id),
                Some(entry) if entry.job.cancel_requested => cancel.push(held.id),
                Some(_) => {}
            }
        }
        Ok(HeartbeatReply { expires_at, lost, cancel, released: undeclared.len() as u32 })
    }

    /// Ends a session in good order.
    pub(crate) fn close_session(&mut self, id: &SessionId, now: Timestamp) -> Result<()> {
        for job in self.held_by(id) {
            self.release(job, now)?;
        }
        self.sessions.remove(id);
        Ok(())
    }

    /// The jobs a session holds.
    pub(crate) fn held_by(&self, id: &SessionId) -> Vec<JobId> {
        self.index.held.get(id).into_iter().flatten().copied().collect()
    }

    /// Gives a running job back, no crash counted.
    fn release(&mut self, id: JobId, now: Timestamp) -> Result<()> {
        let what = Happening { run_at: Some(now), ..Happening::default() };
        self.apply(id, EventKind::Release, what, now).map(|_| ())
    }

    /// A claim's own session ends with its last lease.
    pub(crate) fn end_if_alone(&mut self, id: &SessionId) {
        let over = !self.index.held.contains_key(id);
        if over && self.sessions.get(id).is_some_and(|session| session.alone) {
            self.sessions.remove(id);
        }
    }

    pub(crate) fn session_infos(&self) -> Vec<SessionInfo> {
        let info = |(id, session): (&SessionId, &SessionEntry)| SessionInfo {
            id: id.clone(),
            worker: session.worker.clone(),
            opened_at: session.opened_at,
            expires_at: session.expires_at,
            running: self.index.held.get(id).map_or(0, |held| held.len() as u64),
        };
        self.sessions.iter().map(info).collect()
    }
}
