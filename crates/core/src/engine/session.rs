//! Sessions: the liveness of a worker process, and the leases it holds.

use super::{Lease, SessionId, check_batch};
use crate::error::{Result, within_range};
use crate::id::JobId;
use crate::limits;
use crate::name::check_text;
use crate::time::Timestamp;

/// Opens a session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenSession {
    /// What people call the worker. A label, not an identity.
    pub worker: String,
    /// How long the session lives without a heartbeat.
    pub ttl_ms: u64,
    /// Whether the worker is another process than the one that holds the engine, and may outlive
    /// it. Where the store lives and dies with its process, sessions of workers in that process die
    /// with it; those of others get their time to come back.
    pub remote: bool,
}

impl OpenSession {
    /// A session of the usual length.
    pub fn new(worker: impl Into<String>) -> Self {
        Self { worker: worker.into(), ttl_ms: limits::SESSION_TTL_DEFAULT_MS, remote: false }
    }

    /// Of this length.
    #[must_use]
    pub const fn ttl_ms(mut self, ttl_ms: u64) -> Self {
        self.ttl_ms = ttl_ms;
        self
    }

    /// For a worker in another process.
    #[must_use]
    pub const fn remote(mut self) -> Self {
        self.remote = true;
        self
    }

    /// Whether it is acceptable.
    pub fn check(&self) -> Result<()> {
        check_text("worker", &self.worker, limits::NAME_BYTES_MAX)?;
        within_range("ttl_ms", self.ttl_ms, limits::SESSION_TTL_MIN_MS..=limits::SESSION_TTL_MAX_MS)
    }
}

/// An open session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id, issued by the engine.
    pub id: SessionId,
    /// When it runs out unless heartbeaten.
    pub expires_at: Timestamp,
}

/// A lease a worker holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The job.
    pub id: JobId,
    /// Its lease.
    pub lease: Lease,
}

/// A sign of life with everything the worker believes it holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Heartbeat {
    /// The session.
    pub session: SessionId,
    /// The leases it holds; results not yet acknowledged count as held.
    pub held: Vec<Held>,
    /// The highest claim number this session has sent. Leases of later claims are left alone: a
    /// heartbeat may be overtaken by a claim that was sent after it.
    pub upto: u64,
    /// Claims up to that number not yet answered.
    pub unanswered: Vec<u64>,
}

impl Heartbeat {
    /// A sign of life of a session that has sent claims up to `upto` and holds these jobs.
    pub const fn new(session: SessionId, upto: u64, held: Vec<Held>) -> Self {
        Self { session, held, upto, unanswered: Vec::new() }
    }

    /// With claims that were not answered yet.
    #[must_use]
    pub fn unanswered(mut self, claims: impl IntoIterator<Item = u64>) -> Self {
        self.unanswered.extend(claims);
        self
    }

    /// Whether it is acceptable.
    pub fn check(&self) -> Result<()> {
        check_batch("held", self.held.len(), limits::DECLARED_LEASES_MAX)?;
        check_batch("unanswered", self.unanswered.len(), limits::UNANSWERED_CLAIMS_MAX)
    }
}

/// What the store knows better.
#[derive(Clone, Debug, PartialEq, Eq)]
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
