//! Sessions and heartbeats.

use serde::{Deserialize, Serialize};
use windlass_core::engine::{self, Lease, SessionId};
use windlass_core::limits::SESSION_TTL_DEFAULT_MS;
use windlass_core::{JobId, Timestamp};

/// Opens a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenSession {
    /// What people call the worker.
    pub worker: String,
    /// How long it lives without a heartbeat; 30 s unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
}

impl OpenSession {
    /// The request as core knows it: of a worker in another process, as whoever calls over HTTP is.
    pub fn into_core(self) -> engine::OpenSession {
        let ttl_ms = self.ttl_ms.unwrap_or(SESSION_TTL_DEFAULT_MS);
        engine::OpenSession::new(self.worker).ttl_ms(ttl_ms).remote()
    }
}

impl From<engine::OpenSession> for OpenSession {
    fn from(request: engine::OpenSession) -> Self {
        Self { worker: request.worker, ttl_ms: Some(request.ttl_ms) }
    }
}

/// An open session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Session {
    /// Its id.
    pub session: SessionId,
    /// When it runs out unless heartbeaten.
    pub expires_at: Timestamp,
}

impl From<engine::Session> for Session {
    fn from(session: engine::Session) -> Self {
        Self { session: session.id, expires_at: session.expires_at }
    }
}

impl From<Session> for engine::Session {
    fn from(session: Session) -> Self {
        Self { id: session.session, expires_at: session.expires_at }
    }
}

/// A lease a worker holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// The job.
    pub id: JobId,
    /// Its lease.
    pub lease: Lease,
}

/// A sign of life with everything the worker believes it holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The session.
    pub session: SessionId,
    /// The leases it holds.
    pub held: Vec<Held>,
    /// The highest claim number this session has sent.
    pub upto: u64,
    /// Claims up to that number not yet answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unanswered: Vec<u64>,
}

impl From<Heartbeat> for engine::Heartbeat {
    fn from(beat: Heartbeat) -> Self {
        let held = beat.held.into_iter().map(|Held { id, lease }| engine::Held { id, lease });
        Self::new(beat.session, beat.upto, held.collect()).unanswered(beat.unanswered)
    }
}

impl From<engine::Heartbeat> for Heartbeat {
    fn from(beat: engine::Heartbeat) -> Self {
        let held = beat.held.into_iter().map(|engine::Held { id, lease }| Held { id, lease });
        let held = held.collect();
        Self { session: beat.session, held, upto: beat.upto, unanswered: beat.unanswered }
    }
}

/// What the store knows better.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeartbeatReply {
    /// When the session runs out now.
    pub expires_at: Timestamp,
    /// Declared leases that are not valid: stop working on these.
    pub lost: Vec<JobId>,
    /// Held jobs somebody wants cancelled.
    pub cancel: Vec<JobId>,
    /// How many undeclared leases were released.
    pub released: u32,
}

impl From<engine::HeartbeatReply> for HeartbeatReply {
    fn from(reply: engine::HeartbeatReply) -> Self {
        let engine::HeartbeatReply { expires_at, lost, cancel, released } = reply;
        Self { expires_at, lost, cancel, released }
    }
}

impl From<HeartbeatReply> for engine::HeartbeatReply {
    fn from(reply: HeartbeatReply) -> Self {
        let HeartbeatReply { expires_at, lost, cancel, released } = reply;
        Self { expires_at, lost, cancel, released }
    }
}
