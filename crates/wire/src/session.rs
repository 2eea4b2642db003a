//! Sessions and heartbeats.

use crate::bounded;
#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::engine::{self, Lease, SessionId};
use windlass_core::limits::{
    CLAIM_KINDS_MAX, CLAIM_QUEUES_MAX, DECLARED_LEASES_MAX, SESSION_TTL_DEFAULT_MS,
    UNANSWERED_CLAIMS_MAX,
};
use windlass_core::model::Name;
use windlass_core::{JobId, Timestamp};

/// A request to open a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"worker": "w1", "ttl_ms": 30000}))))]
#[serde(deny_unknown_fields)]
pub struct OpenSession {
    /// Display name of the worker.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Label))]
    pub worker: String,
    /// Time until the session expires without a heartbeat; 30 s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::SessionTtlMs>))]
    pub ttl_ms: Option<u64>,
    /// The description of the worker, for display.
    #[serde(default, skip_serializing_if = "WorkerInfo::is_empty")]
    pub info: WorkerInfo,
}

impl OpenSession {
    /// Converts to the core request, marked as remote: callers over HTTP are in another process.
    pub fn into_core(self) -> engine::OpenSession {
        let ttl_ms = self.ttl_ms.unwrap_or(SESSION_TTL_DEFAULT_MS);
        engine::OpenSession::new(self.worker).ttl_ms(ttl_ms).info(self.info.into()).remote()
    }
}

impl From<engine::OpenSession> for OpenSession {
    fn from(request: engine::OpenSession) -> Self {
        let (ttl_ms, info) = (Some(request.ttl_ms), request.info.into());
        Self { worker: request.worker, ttl_ms, info }
    }
}

/// The description of a worker, for display.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkerInfo {
    /// The queues that it claims from.
    #[serde(
        default,
        deserialize_with = "bounded::vec::<CLAIM_QUEUES_MAX, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::Name>, max_items = 64))]
    pub queues: Vec<Name>,
    /// The kinds that it has handlers for.
    #[serde(
        default,
        deserialize_with = "bounded::vec::<CLAIM_KINDS_MAX, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::Name>, max_items = 256))]
    pub kinds: Vec<Name>,
    /// The number of jobs that it runs at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Concurrency>))]
    pub concurrency: Option<u32>,
    /// The name of its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Label>))]
    pub host: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Label>))]
    pub version: Option<String>,
}

impl WorkerInfo {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<WorkerInfo> for engine::WorkerInfo {
    fn from(info: WorkerInfo) -> Self {
        let WorkerInfo { queues, kinds, concurrency, host, version } = info;
        let mut info = Self::default();
        (info.queues, info.kinds) = (queues, kinds);
        (info.concurrency, info.host, info.version) = (concurrency, host, version);
        info
    }
}

impl From<engine::WorkerInfo> for WorkerInfo {
    fn from(info: engine::WorkerInfo) -> Self {
        let engine::WorkerInfo { queues, kinds, concurrency, host, version, .. } = info;
        Self { queues, kinds, concurrency, host, version }
    }
}

/// An open session.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Session {
    /// Id of the session.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::SessionId))]
    pub session: SessionId,
    /// When it expires without a heartbeat.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub expires_at: Timestamp,
}

impl From<engine::Session> for Session {
    fn from(session: engine::Session) -> Self {
        let engine::SessionFields { id, expires_at } = session.into();
        Self { session: id, expires_at }
    }
}

impl From<Session> for engine::Session {
    fn from(session: Session) -> Self {
        let Session { session: id, expires_at } = session;
        engine::SessionFields { id, expires_at }.into()
    }
}

/// A lease that a worker holds.
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

/// A heartbeat with all leases that the worker holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The session.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::SessionId))]
    pub session: SessionId,
    /// The leases that the worker holds.
    #[serde(deserialize_with = "bounded::vec::<DECLARED_LEASES_MAX, _, _>")]
    #[cfg_attr(feature = "openapi", schema(max_items = 100000))]
    pub held: Vec<Held>,
    /// The highest claim number that this session has sent.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Whole))]
    pub upto: u64,
    /// Claims up to that number without a reply yet.
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

/// The new expiry, lost leases and jobs to cancel.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeartbeatReply {
    /// When the session expires.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub expires_at: Timestamp,
    /// Jobs whose declared lease is not valid: stop working on them.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::JobId>))]
    pub lost: Vec<JobId>,
    /// Held jobs for which a cancellation was requested.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::JobId>))]
    pub cancel: Vec<JobId>,
    /// Number of undeclared leases that were released.
    pub released: u32,
}

impl From<engine::HeartbeatReply> for HeartbeatReply {
    fn from(reply: engine::HeartbeatReply) -> Self {
        let engine::HeartbeatReplyFields { expires_at, lost, cancel, released } = reply.into();
        Self { expires_at, lost, cancel, released }
    }
}

impl From<HeartbeatReply> for engine::HeartbeatReply {
    fn from(reply: HeartbeatReply) -> Self {
        let HeartbeatReply { expires_at, lost, cancel, released } = reply;
        engine::HeartbeatReplyFields { expires_at, lost, cancel, released }.into()
    }
}
