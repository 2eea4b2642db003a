//! Reporting from a running job.

use super::{Lease, check_batch};
use crate::error::{Result, within_limit, within_range};
use crate::id::JobId;
use crate::limits;
use crate::model::{PartEdit, PartEdits, PartSet, Parts, Progress};

/// One update, under its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpdateItem {
    /// The job.
    pub id: JobId,
    /// The lease it was claimed under.
    pub lease: Lease,
    /// How far it has come.
    pub progress: Option<Progress>,
    /// What becomes of its parts.
    pub parts: PartEdits,
    /// Lines for the job's log.
    pub log: Vec<String>,
    /// Parts to return, with the edits of this item in them.
    pub fetch: PartSet,
    /// Lets the claim's own session last this long from now. Only for claims without a session.
    pub extend_ms: Option<u64>,
}

impl UpdateItem {
    /// An update that says nothing yet.
    pub const fn new(id: JobId, lease: Lease) -> Self {
        Self {
            id,
            lease,
            progress: None,
            parts: PartEdits::KEEP,
            log: Vec::new(),
            fetch: PartSet::NONE,
            extend_ms: None,
        }
    }

    /// With this progress.
    #[must_use]
    pub fn progress(mut self, done: u64, total: Option<u64>, note: impl Into<String>) -> Self {
        self.progress = Some(Progress { done, total, note: note.into() });
        self
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

    /// With this line in the log.
    #[must_use]
    pub fn log(mut self, line: impl Into<String>) -> Self {
        self.log.push(line.into());
        self
    }

    /// Returning these parts.
    #[must_use]
    pub const fn fetch(mut self, parts: PartSet) -> Self {
        self.fetch = parts;
        self
    }

    /// Lasting so long from now.
    #[must_use]
    pub const fn extend_ms(mut self, ms: u64) -> Self {
        self.extend_ms = Some(ms);
        self
    }

    /// Whether it is acceptable.
    pub fn check(&self) -> Result<()> {
        if let Some(progress) = &self.progress {
            progress.check()?;
        }
        self.parts.check()?;
        within_limit("log", self.log.len(), limits::LOG_LINES_MAX, "only the latest are kept")?;
        self.extend_ms.map_or(Ok(()), |ms| {
            within_range("extend_ms", ms, limits::LEASE_MIN_MS..=limits::LEASE_MAX_MS)
        })
    }
}

/// Updates of running jobs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Update {
    /// The updates.
    pub items: Vec<UpdateItem>,
}

impl Update {
    /// These updates.
    pub fn new(items: impl IntoIterator<Item = UpdateItem>) -> Self {
        Self { items: items.into_iter().collect() }
    }

    /// Whether the batch as a whole is acceptable.
    pub fn check(&self) -> Result<()> {
        check_batch("items", self.items.len(), limits::BATCH_MAX)
    }
}

/// The answer to an update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Updated {
    /// The parts that were asked for.
    pub parts: Parts,
    /// Whether somebody wants the job cancelled.
    pub cancel_requested: bool,
}

impl Updated {
    /// An answer.
    pub const fn new(parts: Parts, cancel_requested: bool) -> Self {
        Self { parts, cancel_requested }
    }
}
