//! Enqueueing jobs.

use super::check_batch;
use crate::error::Result;
use crate::growing::growing;
use crate::id::JobId;
use crate::limits::{BATCH_DEPENDENCIES_MAX, ENQUEUE_BATCH_MAX};
use crate::model::{NewJob, State};

/// What happens to a batch if one of its jobs is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The other jobs are stored.
    #[default]
    Each,
    /// No job is stored; the others return [`Error::Aborted`](crate::Error::Aborted). All jobs must be in one
    /// atomicity domain, otherwise the call returns `Invalid` for `jobs`.
    AllOrNothing,
}

/// Jobs to store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Enqueue {
    /// The jobs.
    pub jobs: Vec<NewJob>,
    /// Whether the jobs are stored atomically or one by one.
    pub mode: Mode,
}

impl Enqueue {
    /// Stores each job independently.
    pub fn each(jobs: impl IntoIterator<Item = NewJob>) -> Self {
        Self { jobs: jobs.into_iter().collect(), mode: Mode::Each }
    }

    /// Stores all jobs or none.
    pub fn all_or_nothing(jobs: impl IntoIterator<Item = NewJob>) -> Self {
        Self { jobs: jobs.into_iter().collect(), mode: Mode::AllOrNothing }
    }

    /// Validates the batch as a whole.
    pub fn check(&self) -> Result<()> {
        check_batch("jobs", self.jobs.len(), ENQUEUE_BATCH_MAX)?;
        let after = self.jobs.iter().map(|job| job.after.len()).sum();
        check_batch("after", after, BATCH_DEPENDENCIES_MAX)
    }
}

/// What happened to an enqueued job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disposition {
    /// The job was stored.
    Created,
    /// The job was stored and replaces another, which is cancelled.
    Replaced(JobId),
    /// A job with the same id or unique key already exists.
    Existing,
    /// The job was dropped by its throttle rule: another one was stored in the current window.
    Throttled,
    /// A follow-up in another queue, of a store whose [atomicity](super::Atomicity) is the queue: the report is durable, and
    /// the job will be stored.
    Deferred,
}

growing! {
    /// The result of one enqueued job.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Enqueued as EnqueuedFields {
        /// The id of the stored job: the new one or the existing one.
        pub id: JobId,
        /// What happened to the job.
        pub disposition: Disposition,
        /// State of the stored job; `None` if its retention is over but its unique window is not, or if it is not stored yet.
        pub state: Option<State>,
    }
}

impl Enqueued {
    /// The result for a job that is stored, or for the one that exists in its place.
    pub const fn new(id: JobId, disposition: Disposition, state: Option<State>) -> Self {
        Self { id, disposition, state }
    }
}
