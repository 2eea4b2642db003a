//! Sessions: which workers are alive, and which jobs they hold.

use crate::commit::Transition;
use crate::entry::Entry;
use crate::executor::Executor;
use crate::rows::Rows;
use std::collections::HashSet;
use windlass_core::engine::{
    Heartbeat, HeartbeatReply, Lease, OpenSession, Session, SessionId, SessionInfo,
    SessionInfoFields, WorkerInfo,
};
use windlass_core::limits::CALL_RESOLUTIONS_MAX;
use windlass_core::machine::EventKind;
use windlass_core::model::{Job, Running};
use windlass_core::{Error, JobId, Result, Timestamp};

/// An open session.
#[derive(Clone, Debug)]
pub struct SessionEntry {
    /// The name of the worker.
    pub worker: String,
    /// The description of the worker. A store with many writers reads it only to show it.
    pub info: WorkerInfo,
    /// The time at which it was opened.
    pub opened_at: Timestamp,
    /// The time without a heartbeat after which it expires.
    pub ttl_ms: u64,
    /// The time at which it expires.
    pub expires_at: Timestamp,
    /// Whether it belongs to a single claim and ends with its last lease.
    pub alone: bool,
    /// Whether its worker may outlive this process.
    pub remote: bool,
}

impl SessionEntry {
    /// Adds the host and the expiry of the lease to a running job of this session.
    pub fn show_in(&self, running: &mut Running) {
        running.host.clone_from(&self.info.host);
        running.expires_at = self.expires_at;
    }
}

impl<R: Rows> Executor<R> {
    /// Opens a session.
    pub fn open_session(&mut self, request: OpenSession, now: Timestamp) -> Result<Session> {
        request.check()?;
        let id = SessionId::random(&*self.random);
        let expires_at = now.plus(request.ttl_ms);
        let entry = SessionEntry {
            worker: request.worker,
            info: request.info,
            opened_at: now,
            ttl_ms: request.ttl_ms,
            expires_at,
            alone: false,
            remote: request.remote,
        };
        self.rows.save_session(&id, Some(&entry))?;
        self.sessions.insert(id.clone(), entry);
        Ok(Session::new(id, expires_at))
    }

    /// The session, unless it was reclaimed.
    pub(crate) fn session(&self, id: &SessionId) -> Result<&SessionEntry> {
        self.sessions.get(id).ok_or_else(|| Error::SessionLost { session: id.to_string() })
    }

    /// Keeps a session alive; see [`windlass_core::engine::Jobs::heartbeat`].
    pub fn heartbeat(&mut self, beat: Heartbeat, now: Timestamp) -> Result<HeartbeatReply> {
        beat.check()?;
        self.begin_resolving(CALL_RESOLUTIONS_MAX);
        let ttl_ms = self.session(&beat.session)?.ttl_ms;
        let expires_at = now.plus(ttl_ms);
        self.extend_session(&beat.session, expires_at)?;
        let declared: HashSet<(JobId, &Lease)> =
            beat.held.iter().map(|held| (held.id, &held.lease)).collect();
        let mut undeclared = Vec::new();
        for id in self.rows.held(&beat.session) {
            let is_undeclared = |entry: &Entry| {
                entry.leased.as_ref().is_some_and(|leased| {
                    let known = declared.contains(&(id, &leased.lease));
                    let on_its_way =
                        leased.claim_no > beat.upto || beat.unanswered.contains(&leased.claim_no);
                    !known && !on_its_way
                })
            };
            if self.read(id, is_undeclared)? {
                undeclared.push(id);
            }
        }
        for id in &undeclared {
            self.release(*id, now)?;
        }
        let (mut lost, mut cancel) = (Vec::new(), Vec::new());
        for held in &beat.held {
            let current =
                |entry: &Entry| entry.leased_under(&held.lease).map(|_| entry.job.cancel_requested);
            match self.rows.with_job(held.id, current)?.flatten() {
                None => lost.push(held.id),
                Some(true) => cancel.push(held.id),
                Some(false) => {}
            }
        }
        let mut reply = HeartbeatReply::new(expires_at);
        (reply.lost, reply.cancel, reply.released) = (lost, cancel, undeclared.len() as u32);
        Ok(reply)
    }

    /// Changes the time at which a session expires.
    pub(crate) fn extend_session(&mut self, id: &SessionId, expires_at: Timestamp) -> Result<()> {
        if let Some(session) = self.sessions.get_mut(id) {
            session.expires_at = expires_at;
            self.rows.save_session(id, Some(session))?;
        }
        Ok(())
    }

    pub(crate) fn drop_session(&mut self, id: &SessionId) -> Result<()> {
        self.sessions.remove(id);
        self.rows.save_session(id, None)
    }

    /// Adjusts the sessions of a store that was closed: sessions of workers that ended with its process expire
    /// now; remote workers get a full `ttl_ms` to reconnect.
    pub fn after_restart(&mut self, now: Timestamp) -> Result<()> {
        let ends = |session: &SessionEntry| match session.remote {
            true => session.expires_at.max(now.plus(session.ttl_ms)),
            false => session.expires_at.min(now),
        };
        let moved: Vec<_> = self.sessions.iter().map(|(id, s)| (id.clone(), ends(s))).collect();
        moved.into_iter().try_for_each(|(id, expires_at)| self.extend_session(&id, expires_at))
    }

    /// Closes a session and releases its jobs.
    pub fn close_session(&mut self, id: &SessionId, now: Timestamp) -> Result<()> {
        self.begin_resolving(CALL_RESOLUTIONS_MAX);
        for job in self.rows.held(id) {
            self.release(job, now)?;
        }
        self.drop_session(id)
    }

    /// Releases a running job without counting a crash.
    fn release(&mut self, id: JobId, now: Timestamp) -> Result<()> {
        let data = Transition { run_at: Some(now), ..Transition::default() };
        self.in_step_of(id, now, |executor| {
            executor.apply(id, EventKind::Release, data, now).map(|_| ())
        })
    }

    /// Ends the session of a single claim with its last lease.
    pub(crate) fn end_if_alone(&mut self, id: &SessionId) -> Result<()> {
        let alone = self.sessions.get(id).is_some_and(|session| session.alone);
        if alone && self.rows.held(id).is_empty() {
            self.drop_session(id)?;
        }
        Ok(())
    }

    /// Adds the host and the expiry of the lease to running jobs.
    pub fn show_running<'a>(&self, jobs: impl IntoIterator<Item = &'a mut Job>) {
        for running in jobs.into_iter().filter_map(|job| job.running.as_mut()) {
            if let Some(session) = self.sessions.get(&running.session) {
                session.show_in(running);
            }
        }
    }

    /// All open sessions.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let info = |(id, session): (&SessionId, &SessionEntry)| {
            SessionInfo::from(SessionInfoFields {
                id: id.clone(),
                worker: session.worker.clone(),
                opened_at: session.opened_at,
                expires_at: session.expires_at,
                running: self.rows.held(id).len() as u64,
                info: session.info.clone(),
            })
        };
        self.sessions.iter().map(info).collect()
    }
}
