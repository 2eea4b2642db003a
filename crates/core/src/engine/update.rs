//! Updates from running jobs.

use super::part_edits::edits_of_parts;
use super::{Lease, check_batch};
use crate::error::{Result, within_limit, within_range};
use crate::id::JobId;
use crate::limits;
use crate::model::{Continuation, PartEdit, PartEdits, PartSet, Parts, Progress, Step};

/// An update of one job, under its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpdateItem {
    /// The job.
    pub id: JobId,
    /// The lease of the attempt.
    pub lease: Lease,
    /// The progress of the job.
    pub progress: Option<Progress>,
    /// Edits of the job's parts.
    pub parts: PartEdits,
    /// Steps to record. A step that is recorded already may be repeated unchanged.
    pub steps: Vec<Step>,
    /// Lines for the job's log.
    pub log: Vec<String>,
    /// Parts to return, including the edits of this item.
    pub fetch: PartSet,
    /// Returns what the job needs to [continue](Continuation) after it has waited.
    pub recall: bool,
    /// Extends the session of a claim without a session to this long from now.
    pub extend_ms: Option<u64>,
}

impl UpdateItem {
    /// An empty update.
    pub const fn new(id: JobId, lease: Lease) -> Self {
        Self {
            id,
            lease,
            progress: None,
            parts: PartEdits::KEEP,
            steps: Vec::new(),
            log: Vec::new(),
            fetch: PartSet::NONE,
            recall: false,
            extend_ms: None,
        }
    }

    /// Sets the progress.
    #[must_use]
    pub fn progress(mut self, done: u64, total: Option<u64>, note: impl Into<String>) -> Self {
        self.progress = Some(Progress { done, total, note: note.into() });
        self
    }

    edits_of_parts!();

    /// Records a step.
    #[must_use]
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Adds a line to the log.
    #[must_use]
    pub fn log(mut self, line: impl Into<String>) -> Self {
        self.log.push(line.into());
        self
    }

    /// Returns these parts.
    #[must_use]
    pub const fn fetch(mut self, parts: PartSet) -> Self {
        self.fetch = parts;
        self
    }

    /// Returns what the job needs to continue after it has waited.
    #[must_use]
    pub const fn recall(mut self) -> Self {
        self.recall = true;
        self
    }

    /// Extends the lease to this long from now.
    #[must_use]
    pub const fn extend_ms(mut self, ms: u64) -> Self {
        self.extend_ms = Some(ms);
        self
    }

    /// Validates the update, for an engine with this payload limit.
    pub fn check(&self, payload_bytes_max: usize) -> Result<()> {
        if let Some(progress) = &self.progress {
            progress.check()?;
        }
        self.parts.check(payload_bytes_max)?;
        within_limit("log", self.log.len(), limits::LOG_LINES_MAX, "only the latest are kept")?;
        self.extend_ms.map_or(Ok(()), |ms| {
            within_range("extend_ms", ms, limits::LEASE_MIN_MS..=limits::LEASE_MAX_MS)
        })
    }
}

/// A batch of updates.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Update {
    /// The updates.
    pub items: Vec<UpdateItem>,
}

impl Update {
    /// A batch of these updates.
    pub fn new(items: impl IntoIterator<Item = UpdateItem>) -> Self {
        Self { items: items.into_iter().collect() }
    }

    /// Validates the batch as a whole.
    pub fn check(&self) -> Result<()> {
        check_batch("items", self.items.len(), limits::BATCH_MAX)
    }
}

/// The result of an update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Updated {
    /// The requested parts.
    pub parts: Parts,
    /// Whether the cancellation of the job was requested.
    pub cancel_requested: bool,
    /// What the job needs to continue, if requested and if there is anything.
    pub continuation: Option<Box<Continuation>>,
}

impl Updated {
    /// Creates a result.
    pub const fn new(parts: Parts, cancel_requested: bool) -> Self {
        Self { parts, cancel_requested, continuation: None }
    }

    /// Sets what the job needs to continue.
    #[must_use]
    pub fn continuing(mut self, continuation: Option<Box<Continuation>>) -> Self {
        self.continuation = continuation;
        self
    }
}
