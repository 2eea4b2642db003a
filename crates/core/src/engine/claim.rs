//! Taking ready jobs.

use super::{ClaimId, Lease, SessionId, check_batch};
use crate::error::{Error, Result, within_range};
use crate::limits;
use crate::model::{Header, Name, PartSet, Parts};
use crate::name::{check_name, check_text};
use crate::time::Timestamp;

/// Who claims, under which name, and how long the leases last.
///
/// The name makes a claim repeatable: while jobs are leased under it, claiming again under it
/// returns those jobs and no others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimant {
    /// A session: the leases last as long as it is heartbeaten.
    Session {
        /// Which.
        session: SessionId,
        /// The worker's number for this claim. It rises with each claim of a session, so that a
        /// heartbeat can say with one number which claims it knows of.
        claim_no: u64,
    },
    /// Nobody in particular (plain curl): the claim gets a session of its own.
    Alone {
        /// The caller's name for this claim; nobody else may use it.
        claim_id: ClaimId,
        /// What people call the worker.
        worker: String,
        /// How long the leases last unless extended. If the reply is lost and the claim is not
        /// repeated, running out costs each job a crash.
        lease_ms: u64,
    },
}

impl Claimant {
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
    /// Which.
    pub queue: Name,
    /// At most so many from it.
    pub limit: u32,
}

/// A kind to claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindWant {
    /// Which.
    pub kind: Name,
    /// At most so many of it.
    pub limit: u32,
}

/// A request for ready jobs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// Who asks, and under which name.
    pub by: Claimant,
    /// Queues in order of preference.
    pub queues: Vec<QueueWant>,
    /// The kinds it can handle; `None`: all of them.
    pub kinds: Option<Vec<KindWant>>,
    /// At most so many in all.
    pub limit: u32,
    /// Which parts to bring along.
    pub parts: PartSet,
}

impl Claim {
    /// Up to `limit` jobs of any kind from one queue, with their payload.
    pub fn new(by: Claimant, queue: impl Into<Name>, limit: u32) -> Self {
        Self {
            by,
            queues: vec![QueueWant { queue: queue.into(), limit: u32::MAX }],
            kinds: None,
            limit,
            parts: PartSet::PAYLOAD,
        }
    }

    /// And then from this queue, at most `limit`.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<Name>, limit: u32) -> Self {
        self.queues.push(QueueWant { queue: queue.into(), limit });
        self
    }

    /// Only kinds that were named; this one at most `limit` times.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<Name>, limit: u32) -> Self {
        self.kinds.get_or_insert_default().push(KindWant { kind: kind.into(), limit });
        self
    }

    /// With these parts.
    #[must_use]
    pub const fn parts(mut self, parts: PartSet) -> Self {
        self.parts = parts;
        self
    }

    /// Whether it is acceptable.
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

/// Names that are good, and each named once: what a second limit for it would mean, nobody knows.
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
    /// What describes it; the counters include this start.
    pub header: Header,
    /// The right to report on it.
    pub lease: Lease,
    /// When this attempt started.
    pub started_at: Timestamp,
    /// The parts that were asked for.
    pub parts: Parts,
}

impl ClaimedJob {
    /// A claimed job.
    pub const fn new(header: Header, lease: Lease, started_at: Timestamp, parts: Parts) -> Self {
        Self { header, lease, started_at, parts }
    }
}

/// What a claim got. Fewer jobs than asked for, even none, is a hint and not proof of an empty
/// queue: another worker may have been in the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claimed {
    /// The jobs, in the order to start them.
    pub jobs: Vec<ClaimedJob>,
}

impl Claimed {
    /// These jobs.
    pub const fn new(jobs: Vec<ClaimedJob>) -> Self {
        Self { jobs }
    }
}

/// A wait for something to claim.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Wait {
    /// In any of these queues.
    pub queues: Vec<Name>,
    /// Of these kinds; `None`: any.
    pub kinds: Option<Vec<Name>>,
    /// For how long.
    pub wait_ms: u64,
}

impl Wait {
    /// For a job of any kind in these queues.
    pub fn new<N: Into<Name>>(queues: impl IntoIterator<Item = N>, wait_ms: u64) -> Self {
        Self { queues: queues.into_iter().map(Into::into).collect(), kinds: None, wait_ms }
    }

    /// Of this kind, or others named so.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<Name>) -> Self {
        self.kinds.get_or_insert_default().push(kind.into());
        self
    }

    /// Whether it is acceptable.
    pub fn check(&self) -> Result<()> {
        within_range("wait_ms", self.wait_ms, 0..=limits::WAIT_MAX_MS)?;
        check_batch("queues", self.queues.len(), limits::CLAIM_QUEUES_MAX)?;
        check_batch("kinds", self.kinds.iter().flatten().count(), limits::CLAIM_KINDS_MAX)?;
        check_names("queues", self.queues.iter())?;
        check_names("kinds", self.kinds.iter().flatten())
    }
}
