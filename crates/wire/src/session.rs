//! Sessions and heartbeats.

use crate::bounded;
#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::engine::{self, Lease, SessionId};
use windlass_core::limits::{DECLARED_LEASES_MAX, SESSION_TTL_DEFAULT_MS, UNANSWERED_CLAIMS_MAX};
use windlass_core::{JobId, Timestamp};

/// Opens a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"worker": "w1", "ttl_ms": 30000}))))]
#[serde(deny_unknown_fields)]
pub struct OpenSession {
    /// What people call the worker.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Label))]
    pub worker: String,
    /// How long it lives without a heartbeat; 30 s unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::SessionTtlMs>))]
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
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Session {
    /// Its id.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::SessionId))]
    pub session: SessionId,
    /// When it runs out unless heartbeaten.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
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
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// The job.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::JobId))]
    pub id: JobId,
    /// Its lease.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Lease))]
    pub lease: Lease,
}

/// A sign of life with everything the worker believes it holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The session.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::SessionId))]
    pub session: SessionId,
    /// The leases it holds.
    #[serde(deserialize_with = "bounded::vec::<DECLARED_LEASES_MAX, _, _>")]
    #[cfg_attr(feature = "openapi", schema(max_items = 100000))]
    pub held: Vec<Held>,
    /// The highest claim number this session has sent.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Whole))]
    pub upto: u64,
    /// Claims up to that number not yet answered.
    #[serde(
        default,
        deserialize_with = "bounded::vec::<UNANSWERED_CLAIMS_MAX, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::Whole>, max_items = 64))]
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
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeartbeatReply {
    /// When the session runs out now.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub expires_at: Timestamp,
    /// Declared leases that are not valid: stop working on these.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::JobId>))]
    pub lost: Vec<JobId>,
    /// Held jobs somebody wants cancelled.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::JobId>))]
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
