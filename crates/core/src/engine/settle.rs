//! Settling: reporting the outcomes of claimed jobs.

use super::part_edits::edits_of_parts;
use super::{Claim, Claimed, Enqueued, Item, Lease, check_batch};
use crate::error::{Error, Result, within_limit, within_range};
use crate::growing::growing;
use crate::id::JobId;
use crate::limits;
use crate::machine::EventKind;
use crate::model::{
    AttemptEnd, JobError, Name, NewJob, Part, PartEdit, PartEdits, SignalWait, State, Step,
};
use crate::name::check_name;
use crate::time::Timestamp;

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Completed, with an optional result.
    Complete {
        /// The result.
        result: Option<Part>,
    },
    /// Failed; retried while attempts are left.
    Retry {
        /// The error.
        error: JobError,
        /// The delay. Workers compute it with core from the claimed job's policy and counters; if it is
        /// `None`, the engine does the same at the cost of reading the policy.
        delay_ms: Option<u64>,
    },
    /// Snoozed; does not count as a failure.
    Snooze {
        /// The delay.
        delay_ms: u64,
    },
    /// Failed fatally: the job is dead.
    Fail {
        /// The error.
        error: JobError,
    },
    /// Released unfinished; does not count as a failure. Another worker may start it at once.
    Release,
    /// Waits for signals without occupying a slot.
    Wait(SignalWait),
    /// Waits, without occupying a slot, until the follow-ups that [join](crate::model::Join) this job have ended. Runs again
    /// at once if there are none.
    WaitForJobs,
    /// Ended as cancelled.
    Cancel,
}

impl Outcome {
    /// Completed without a result.
    pub const DONE: Self = Self::Complete { result: None };

    /// Waits for any signal, without a time limit.
    pub const WAIT: Self = Self::Wait(SignalWait::ANY);

    /// Failed; retried after the job's backoff.
    pub fn retry(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Retry { error: JobError::new(code, message), delay_ms: None }
    }

    /// Failed fatally.
    pub fn fail(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Fail { error: JobError::new(code, message) }
    }

    /// The corresponding event of the state machine.
    pub const fn event(&self) -> EventKind {
        match self {
            Self::Complete { .. } => EventKind::Complete,
            Self::Retry { .. } => EventKind::Retry,
            Self::Snooze { .. } => EventKind::Snooze,
            Self::Fail { .. } => EventKind::Fail,
            Self::Release => EventKind::Release,
            Self::Wait(_) => EventKind::Wait,
            Self::WaitForJobs => EventKind::WaitForJobs,
            Self::Cancel => EventKind::CancelSelf,
        }
    }

    /// Whether the job never runs again after this outcome. After others it does, unless its attempts are used up or its
    /// cancellation was requested.
    pub const fn ends_job(&self) -> bool {
        match self {
            Self::Complete { .. } | Self::Fail { .. } | Self::Cancel => true,
            Self::Retry { .. }
            | Self::Snooze { .. }
            | Self::Release
            | Self::Wait(_)
            | Self::WaitForJobs => false,
        }
    }

    /// The error that it reports.
    pub const fn error(&self) -> Option<&JobError> {
        match self {
            Self::Retry { error, .. } | Self::Fail { error } => Some(error),
            Self::Complete { .. }
            | Self::Snooze { .. }
            | Self::Release
            | Self::Wait(_)
            | Self::WaitForJobs
            | Self::Cancel => None,
        }
    }

    /// The delay before the job may run again; `backoff` computes that of a retry that has none.
    pub fn delay_ms(&self, backoff: impl FnOnce() -> u64) -> u64 {
        match self {
            Self::Retry { delay_ms: None, .. } => backoff(),
            Self::Retry { delay_ms: Some(delay_ms), .. } | Self::Snooze { delay_ms } => *delay_ms,
            // A job that waits for a limited time is due when that is over.
            Self::Wait(wait) => wait.timeout_ms.unwrap_or(0),
            Self::Complete { .. }
            | Self::Fail { .. }
            | Self::Release
            | Self::WaitForJobs
            | Self::Cancel => 0,
        }
    }

    /// The corresponding entry in the history of a job that is in state `next` afterwards.
    pub const fn end(&self, next: State) -> AttemptEnd {
        self.event().attempt_end(Some(next))
    }

    fn check(&self) -> Result<()> {
        match self {
            Self::Complete { result: Some(result) } => {
                result.check("result", limits::RESULT_BYTES_MAX)
            }
            Self::Retry { delay_ms: Some(delay_ms), .. } | Self::Snooze { delay_ms } => {
                within_range("delay_ms", *delay_ms, 0..=limits::BACKOFF_MAX_MS)
            }
            Self::Wait(wait) => wait.check(),
            _ => Ok(()),
        }
    }
}

/// A report on one job, under its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SettleItem {
    /// The job.
    pub id: JobId,
    /// The lease of the attempt.
    pub lease: Lease,
    /// The outcome.
    pub outcome: Outcome,
    /// Edits of the job's parts.
    pub parts: PartEdits,
    /// A new priority.
    pub priority: Option<i32>,
    /// The queue in which the job runs again, for outcomes that do not end it. It enters at the tail and may exceed the
    /// depth limit. A job that does not run again, because its attempts are used up or its cancellation was
    /// requested, stays in its queue. If another job holds its unique key there, the item returns
    /// [`Error::Duplicate`] and the lease remains valid.
    pub queue: Option<Name>,
    /// Jobs to create in the same atomic step. They bypass depth limits; an invalid one refuses the whole
    /// item, and the lease remains valid.
    pub follow_ups: Vec<NewJob>,
    /// Stops starts for a time, in the same atomic step.
    pub hold: Option<Hold>,
    /// Steps to record.
    pub steps: Vec<Step>,
}

/// Stops starts for a time: for example because an API answered "429, retry after 30 s". A job that must wait too is
/// [snoozed](Outcome::Snooze). A later hold of the same replaces it; 0 ms ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hold {
    /// What is held.
    pub on: HoldOn,
    /// For how long.
    pub ms: u64,
}

/// What a [`Hold`] stops.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldOn {
    /// All jobs under this limit, which must be one of the job's; of a limit by group, those of the job's group.
    Limit(Name),
    /// The same for all limits that the job runs under; its queue if there are none.
    Limits,
    /// The job's group, in all limits by group that the job runs under.
    Group,
    /// The job's queue.
    Queue,
}

impl Hold {
    /// Holds a limit; of a limit by group, the job's group.
    pub fn limit(name: impl Into<Name>, ms: u64) -> Self {
        Self { on: HoldOn::Limit(name.into()), ms }
    }

    /// Holds all limits that the job runs under, whatever their names; its queue if there are none.
    pub const fn limits(ms: u64) -> Self {
        Self { on: HoldOn::Limits, ms }
    }

    /// Holds the job's group in all its limits by group.
    pub const fn group(ms: u64) -> Self {
        Self { on: HoldOn::Group, ms }
    }

    /// Holds the job's queue.
    pub const fn queue(ms: u64) -> Self {
        Self { on: HoldOn::Queue, ms }
    }

    /// Validates the hold.
    pub fn check(&self) -> Result<()> {
        if let HoldOn::Limit(name) = &self.on {
            check_name("hold.limit", name)?;
        }
        within_range("hold.ms", self.ms, 0..=limits::HOLD_MAX_MS)
    }
}

impl SettleItem {
    /// A report without edits or follow-ups.
    pub const fn new(id: JobId, lease: Lease, outcome: Outcome) -> Self {
        Self {
            id,
            lease,
            outcome,
            parts: PartEdits::KEEP,
            priority: None,
            queue: None,
            follow_ups: Vec::new(),
            hold: None,
            steps: Vec::new(),
        }
    }

    edits_of_parts!();

    /// Sets a new priority.
    #[must_use]
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Moves the job to another queue, in which it runs again.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<Name>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Adds a follow-up job.
    #[must_use]
    pub fn follow_up(mut self, job: NewJob) -> Self {
        self.follow_ups.push(job);
        self
    }

    /// Stops starts for a time.
    #[must_use]
    pub fn hold(mut self, hold: Hold) -> Self {
        self.hold = Some(hold);
        self
    }

    /// Records a step.
    #[must_use]
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Validates the report at `now`, for an engine with this payload limit.
    pub fn check(&self, now: Timestamp, payload_bytes_max: usize) -> Result<()> {
        self.outcome.check()?;
        self.parts.check(payload_bytes_max)?;
        self.check_queue()?;
        self.hold.as_ref().map_or(Ok(()), Hold::check)?;
        let hint = "enqueue some of them from the follow-ups themselves";
        within_limit("follow_ups", self.follow_ups.len(), limits::FOLLOW_UPS_MAX, hint)?;
        for (index, job) in self.follow_ups.iter().enumerate() {
            let own_id = match job.id {
                // A worker must not choose a derived id; the engine derives the ids of follow-ups without
                // one.
                Some(id) if job.derived => id.check(now),
                _ => Ok(()),
            };
            own_id
                .and_then(|()| job.check(now, payload_bytes_max))
                .map_err(|error| error.within(format_args!("follow_ups[{index}]")))?;
        }
        Ok(())
    }

    fn check_queue(&self) -> Result<()> {
        let Some(queue) = &self.queue else { return Ok(()) };
        check_name("queue", queue)?;
        if self.outcome.ends_job() {
            let expected =
                "this outcome ends the job: leave it out, or create a follow-up in that queue";
            return Err(Error::invalid("queue", queue, expected));
        }
        Ok(())
    }
}

/// A batch of reports, optionally with the next claim.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settle {
    /// The reports.
    pub items: Vec<SettleItem>,
    /// The claim to execute in the same round trip, after the reports.
    pub claim: Option<Claim>,
}

impl Settle {
    /// A batch of reports.
    pub fn new(items: impl IntoIterator<Item = SettleItem>) -> Self {
        Self { items: items.into_iter().collect(), claim: None }
    }

    /// Adds a claim.
    #[must_use]
    pub fn then(mut self, claim: Claim) -> Self {
        self.claim = Some(claim);
        self
    }

    /// Validates the batch as a whole.
    pub fn check(&self) -> Result<()> {
        check_batch("items", self.items.len(), limits::BATCH_MAX)?;
        let follow_ups = self.items.iter().map(|item| item.follow_ups.len()).sum();
        check_batch("follow_ups", follow_ups, limits::SETTLE_FOLLOW_UPS_MAX)?;
        let new = self.items.iter().flat_map(|item| &item.follow_ups);
        let after = new.map(|job| job.after.len()).sum();
        check_batch("follow_ups.after", after, limits::BATCH_DEPENDENCIES_MAX)?;
        let Some(claim) = &self.claim else { return Ok(()) };
        claim.check().map_err(|error| error.within("claim"))
    }
}

growing! {
    /// The result of a report.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Settled as SettledFields {
        /// The job.
        pub id: JobId,
        /// Whether this lease had already been settled, so that this call changed nothing.
        pub already: bool,
        /// The recorded end of the attempt: of this call or of the earlier one.
        pub end: AttemptEnd,
        /// The current state of the job.
        pub state: State,
        /// The results of the follow-up jobs, in order; empty if the lease had already been settled.
        pub follow_ups: Vec<Enqueued>,
    }
}

impl Settled {
    /// The result of a report that ended the attempt and left the job in `state`.
    pub const fn new(id: JobId, end: AttemptEnd, state: State) -> Self {
        Self { id, already: false, end, state, follow_ups: Vec::new() }
    }

    /// Marks the lease as settled by an earlier call.
    #[must_use]
    pub fn with_already(mut self) -> Self {
        self.already = true;
        self
    }

    /// Sets the results of the follow-up jobs.
    #[must_use]
    pub fn with_follow_ups(mut self, follow_ups: Vec<Enqueued>) -> Self {
        self.follow_ups = follow_ups;
        self
    }
}

/// The reply to a settle.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SettleReply {
    /// One result per report, in order.
    pub items: Vec<Item<Settled>>,
    /// The result of the claim, if there was one. Its failure does not affect the reports.
    pub claimed: Option<Result<Claimed>>,
}

impl SettleReply {
    /// Creates a reply.
    pub const fn new(items: Vec<Item<Settled>>, claimed: Option<Result<Claimed>>) -> Self {
        Self { items, claimed }
    }
}
