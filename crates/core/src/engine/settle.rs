//! Reporting what became of claimed jobs.

use super::{Claim, Claimed, Enqueued, Item, Lease, check_batch};
use crate::error::{Result, within_limit, within_range};
use crate::id::JobId;
use crate::limits;
use crate::machine::EventKind;
use crate::model::{AttemptEnd, JobError, NewJob, Part, PartEdit, PartEdits, State};
use crate::time::Timestamp;

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Done, with an optional result.
    Complete {
        /// What it produced.
        result: Option<Part>,
    },
    /// Failed; to be tried again while attempts are left.
    Retry {
        /// Why.
        error: JobError,
        /// The delay. Workers compute it with core from the claimed job's policy and counters; if it
        /// is left out, the engine does the same at the price of looking the policy up.
        delay_ms: Option<u64>,
    },
    /// Put off, no failure counted.
    Snooze {
        /// For how long.
        delay_ms: u64,
    },
    /// Failed for good.
    Fail {
        /// Why.
        error: JobError,
    },
    /// Given back unfinished, no failure counted; others may start it at once.
    Release,
    /// Waits, holding no slot, until it is signalled.
    Wait,
    /// Ended as cancelled.
    Cancel,
}

impl Outcome {
    /// Done, no result.
    pub const DONE: Self = Self::Complete { result: None };

    /// Failed, to be retried by the job's backoff.
    pub fn retry(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Retry { error: JobError::new(code, message), delay_ms: None }
    }

    /// Failed for good.
    pub fn fail(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Fail { error: JobError::new(code, message) }
    }

    /// The event of the state machine it stands for.
    pub const fn event(&self) -> EventKind {
        match self {
            Self::Complete { .. } => EventKind::Complete,
            Self::Retry { .. } => EventKind::Retry,
            Self::Snooze { .. } => EventKind::Snooze,
            Self::Fail { .. } => EventKind::Fail,
            Self::Release => EventKind::Release,
            Self::Wait => EventKind::Wait,
            Self::Cancel => EventKind::CancelSelf,
        }
    }

    /// How it stands in the job's history.
    pub const fn end(&self) -> AttemptEnd {
        match self {
            Self::Complete { .. } => AttemptEnd::Complete,
            Self::Retry { .. } => AttemptEnd::Retry,
            Self::Snooze { .. } => AttemptEnd::Snooze,
            Self::Fail { .. } => AttemptEnd::Fail,
            Self::Release => AttemptEnd::Release,
            Self::Wait => AttemptEnd::Wait,
            Self::Cancel => AttemptEnd::Cancel,
        }
    }

    fn check(&self) -> Result<()> {
        match self {
            Self::Complete { result: Some(result) } => {
                result.check("result", limits::RESULT_BYTES_MAX)
            }
            Self::Retry { delay_ms: Some(delay_ms), .. } | Self::Snooze { delay_ms } => {
                within_range("delay_ms", *delay_ms, 0..=limits::BACKOFF_MAX_MS)
            }
            _ => Ok(()),
        }
    }
}

/// One report, under its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SettleItem {
    /// The job.
    pub id: JobId,
    /// The lease it was claimed under.
    pub lease: Lease,
    /// What became of it.
    pub outcome: Outcome,
    /// What becomes of its parts.
    pub parts: PartEdits,
    /// Another priority from now on.
    pub priority: Option<i32>,
    /// Jobs to create in the same step. They bypass depth limits; an invalid one refuses the whole
    /// item and the lease stays.
    pub follow_ups: Vec<NewJob>,
}

impl SettleItem {
    /// A plain report.
    pub const fn new(id: JobId, lease: Lease, outcome: Outcome) -> Self {
        Self { id, lease, outcome, parts: PartEdits::KEEP, priority: None, follow_ups: Vec::new() }
    }

    /// With this checkpoint.
    #[must_use]
    pub fn state(mut self, edit: PartEdit) -> Self {
        self.parts.state = edit;
        self
    }

    /// With these notes.
    #[must_use]
    pub fn metadata(mut self, edit: PartEdit) -> Self {
        self.parts.metadata = edit;
        self
    }

    /// With this binary.
    #[must_use]
    pub fn blob(mut self, edit: PartEdit) -> Self {
        self.parts.blob = edit;
        self
    }

    /// With this priority from now on.
    #[must_use]
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// And this job after it.
    #[must_use]
    pub fn follow_up(mut self, job: NewJob) -> Self {
        self.follow_ups.push(job);
        self
    }

    /// Whether it is acceptable at `now` to an engine that takes payloads up to `payload_bytes_max`.
    pub fn check(&self, now: Timestamp, payload_bytes_max: usize) -> Result<()> {
        self.outcome.check()?;
        self.parts.check()?;
        let hint = "enqueue some of them from the follow-ups themselves";
        within_limit("follow_ups", self.follow_ups.len(), limits::FOLLOW_UPS_MAX, hint)?;
        for (index, job) in self.follow_ups.iter().enumerate() {
            let own_id = match job.id {
                // A worker chooses no derived id; the engine derives those of follow-ups without one.
                Some(id) if job.derived => id.check(now),
                _ => Ok(()),
            };
            own_id
                .and_then(|()| job.check(now, payload_bytes_max))
                .map_err(|error| error.within(format_args!("follow_ups[{index}]")))?;
        }
        Ok(())
    }
}

/// Reports, and perhaps the next claim.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settle {
    /// The reports.
    pub items: Vec<SettleItem>,
    /// What to claim in the same round trip, once the reports are in.
    pub claim: Option<Claim>,
}

impl Settle {
    /// These reports.
    pub fn new(items: impl IntoIterator<Item = SettleItem>) -> Self {
        Self { items: items.into_iter().collect(), claim: None }
    }

    /// And this claim.
    #[must_use]
    pub fn then(mut self, claim: Claim) -> Self {
        self.claim = Some(claim);
        self
    }

    /// Whether the batch as a whole is acceptable.
    pub fn check(&self) -> Result<()> {
        check_batch("items", self.items.len(), limits::BATCH_MAX)?;
        let follow_ups = self.items.iter().map(|item| item.follow_ups.len()).sum();
        check_batch("follow_ups", follow_ups, limits::SETTLE_FOLLOW_UPS_MAX)?;
        let Some(claim) = &self.claim else { return Ok(()) };
        claim.check().map_err(|error| error.within("claim"))
    }
}

/// What became of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The job.
    pub id: JobId,
    /// Whether this lease had been settled before, and this call changed nothing.
    pub already: bool,
    /// The recorded end of the attempt: of this call, or of the one before.
    pub end: AttemptEnd,
    /// Where the job stands now.
    pub state: State,
    /// The follow-up jobs, in order; empty if it was settled before.
    pub follow_ups: Vec<Enqueued>,
}

/// The answer to a settle.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SettleReply {
    /// Per report, in order.
    pub items: Vec<Item<Settled>>,
    /// What the claim got, if there was one. It can fail alone: the reports stand.
    pub claimed: Option<Result<Claimed>>,
}

impl SettleReply {
    /// A reply.
    pub const fn new(items: Vec<Item<Settled>>, claimed: Option<Result<Claimed>>) -> Self {
        Self { items, claimed }
    }
}
