//! Claiming ready jobs, and waiting for them.

use super::{ClaimId, Lease, SessionId, check_batch};
use crate::error::{Error, Result, within_range};
use crate::limits;
use crate::model::{Header, Name, PartSet, Parts};
use crate::name::{check_name, check_text};
use crate::time::Timestamp;

/// Who claims, the name of the claim, and how long its leases last.
///
/// The name makes a claim repeatable: while jobs are leased under it, claiming again under it returns exactly
/// those jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Claimant {
    /// A session: its leases last as long as it sends heartbeats.
    Session {
        /// The session.
        session: SessionId,
        /// The worker's number for this claim. It increases with each claim of a session, so that a heartbeat
        /// can declare all claims it knows of with one number.
        claim_no: u64,
    },
    /// A claim without a session (plain curl): the engine creates a session for it.
    Alone {
        /// The caller's unique name for this claim.
        claim_id: ClaimId,
        /// Display name of the worker.
        worker: String,
        /// How long the leases last unless extended. If the reply is lost and the claim is not repeated, the
        /// expiry counts as a crash of each job.
        lease_ms: u64,
    },
}

impl Claimant {
    /// The number of a session's claim; `None` for a claim without a session.
    pub const fn claim_no(&self) -> Option<u64> {
        match self {
            Self::Session { claim_no, .. } => Some(*claim_no),
            Self::Alone { .. } => None,
        }
    }

    /// The session that its jobs are leased to. That of a claim without a session is derived from the claim's name,
    /// so that a repeated claim finds it.
    pub fn session(&self) -> SessionId {
        match self {
            Self::Session { session, .. } => session.clone(),
            Self::Alone { claim_id, .. } => SessionId::new(format!("alone:{claim_id}")),
        }
    }

    fn check(&self) -> Result<()> {
        match self {
            Self::Session { session, .. } => session.check(),
            Self::Alone { claim_id, worker, lease_ms } => {
                claim_id.check()?;
                check_text("worker", worker, limits::NAME_BYTES_MAX)?;
                within_range("lease_ms", *lease_ms, limits::LEASE_MIN_MS..=limits::LEASE_MAX_MS)
            }
        }
    }
}

/// A queue to claim from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueWant {
    /// The queue to claim from.
    pub queue: Name,
    /// Maximum number of jobs from this queue.
    pub limit: u32,
}

/// A kind to claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindWant {
    /// The kind to claim.
    pub kind: Name,
    /// Maximum number of jobs of this kind.
    pub limit: u32,
}

/// A request for ready jobs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// The claimant and the name of the claim.
    pub by: Claimant,
    /// Queues in order of preference.
    pub queues: Vec<QueueWant>,
    /// Kinds to claim; `None` means all.
    pub kinds: Option<Vec<KindWant>>,
    /// Maximum number of jobs in total.
    pub limit: u32,
    /// Only jobs with this priority or a higher number, that is, as urgent as this or less. For workers that guarantee
    /// a share of their capacity to jobs that more urgent ones would starve. All queues must have the order
    /// [`Strict`](crate::model::Order::Strict): in the others, no job starves because of its priority.
    pub from_priority: Option<i32>,
    /// Parts to load.
    pub parts: PartSet,
}

impl Claim {
    /// Up to `limit` jobs of any kind from one queue, with their payloads.
    pub fn new(by: Claimant, queue: impl Into<Name>, limit: u32) -> Self {
        Self {
            by,
            queues: vec![QueueWant { queue: queue.into(), limit: u32::MAX }],
            kinds: None,
            limit,
            from_priority: None,
            parts: PartSet::PAYLOAD,
        }
    }

    /// Adds a queue after the others, with at most `limit` jobs.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<Name>, limit: u32) -> Self {
        self.queues.push(QueueWant { queue: queue.into(), limit });
        self
    }

    /// Adds a kind with at most `limit` jobs. Only added kinds are claimed.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<Name>, limit: u32) -> Self {
        self.kinds.get_or_insert_default().push(KindWant { kind: kind.into(), limit });
        self
    }

    /// Claims only jobs with this priority or a higher number.
    #[must_use]
    pub const fn from_priority(mut self, priority: i32) -> Self {
        self.from_priority = Some(priority);
        self
    }

    /// Sets the parts to load.
    #[must_use]
    pub const fn parts(mut self, parts: PartSet) -> Self {
        self.parts = parts;
        self
    }

    /// Validates the request.
    pub fn check(&self) -> Result<()> {
        self.by.check()?;
        within_range("limit", self.limit.into(), 1..=limits::CLAIM_BATCH_MAX.into())?;
        check_batch("queues", self.queues.len(), limits::CLAIM_QUEUES_MAX)?;
        if self.queues.is_empty() {
            return Err(Error::invalid("queues", "[]", "name at least one queue"));
        }
        check_names("queues", self.queues.iter().map(|want| &want.queue))?;
        let kinds = self.kinds.as_deref().unwrap_or_default();
        check_batch("kinds", kinds.len(), limits::CLAIM_KINDS_MAX)?;
        if self.kinds.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::invalid("kinds", "[]", "name the kinds, or leave it out for all"));
        }
        check_names("kinds", kinds.iter().map(|want| &want.kind))
    }
}

/// Checks that names are valid and unique, because a second limit for the same name would be ambiguous.
fn check_names<'a>(
    field: &'static str,
    names: impl Iterator<Item = &'a Name> + Clone,
) -> Result<()> {
    for (index, name) in names.clone().enumerate() {
        check_name(field, name)?;
        if names.clone().take(index).any(|other| other == name) {
            return Err(Error::invalid(field, name, "name it once"));
        }
    }
    Ok(())
}

/// A job leased to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimedJob {
    /// The header of the job; its counters include this attempt.
    pub header: Header,
    /// The lease, which authorizes reports on this attempt.
    pub lease: Lease,
    /// When this attempt started.
    pub started_at: Timestamp,
    /// The requested parts.
    pub parts: Parts,
}

impl ClaimedJob {
    /// A claimed job.
    pub const fn new(header: Header, lease: Lease, started_at: Timestamp, parts: Parts) -> Self {
        Self { header, lease, started_at, parts }
    }
}

/// The result of a claim. Fewer jobs than asked for, or none, do not prove that the queue is empty: jobs may
/// have been locked by another claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claimed {
    /// The jobs, in the order to start them.
    pub jobs: Vec<ClaimedJob>,
}

impl Claimed {
    /// A result with these jobs.
    pub const fn new(jobs: Vec<ClaimedJob>) -> Self {
        Self { jobs }
    }
}

/// A request to wait for claimable jobs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Wait {
    /// The queues to wait for.
    pub queues: Vec<Name>,
    /// The kinds to wait for; `None` means any.
    pub kinds: Option<Vec<Name>>,
    /// Maximum wait in milliseconds.
    pub wait_ms: u64,
}

impl Wait {
    /// Waits for a job of any kind in these queues.
    pub fn new<N: Into<Name>>(queues: impl IntoIterator<Item = N>, wait_ms: u64) -> Self {
        Self { queues: queues.into_iter().map(Into::into).collect(), kinds: None, wait_ms }
    }

    /// Adds a kind. Only added kinds are waited for.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<Name>) -> Self {
        self.kinds.get_or_insert_default().push(kind.into());
        self
    }

    /// Validates the request.
    pub fn check(&self) -> Result<()> {
        within_range("wait_ms", self.wait_ms, 0..=limits::WAIT_MAX_MS)?;
        check_batch("queues", self.queues.len(), limits::CLAIM_QUEUES_MAX)?;
        check_batch("kinds", self.kinds.iter().flatten().count(), limits::CLAIM_KINDS_MAX)?;
        check_names("queues", self.queues.iter())?;
        check_names("kinds", self.kinds.iter().flatten())
    }
}
