//! Handing jobs over.

use super::check_batch;
use crate::error::Result;
use crate::id::JobId;
use crate::limits::ENQUEUE_BATCH_MAX;
use crate::model::{NewJob, State};

/// What happens to a batch of which one job is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The others are stored.
    #[default]
    Each,
    /// None is stored; the others answer [`Error::Aborted`](crate::Error::Aborted). All jobs must be
    /// in one atomicity domain, or the call answers `Invalid` on `jobs`.
    AllOrNothing,
}

/// Jobs to store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Enqueue {
    /// The jobs.
    pub jobs: Vec<NewJob>,
    /// All or each for itself.
    pub mode: Mode,
}

impl Enqueue {
    /// Each for itself.
    pub fn each(jobs: impl IntoIterator<Item = NewJob>) -> Self {
        Self { jobs: jobs.into_iter().collect(), mode: Mode::Each }
    }

    /// All or nothing.
    pub fn all_or_nothing(jobs: impl IntoIterator<Item = NewJob>) -> Self {
        Self { jobs: jobs.into_iter().collect(), mode: Mode::AllOrNothing }
    }

    /// Whether the batch as a whole is acceptable.
    pub fn check(&self) -> Result<()> {
        check_batch("jobs", self.jobs.len(), ENQUEUE_BATCH_MAX)
    }
}

/// What became of an enqueued job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disposition {
    /// It is stored.
    Created,
    /// It is stored in place of another, which is cancelled.
    Replaced(JobId),
    /// It was there already, by its id or by its unique key.
    Existing,
    /// It was dropped on purpose: another of its kind was taken in this window.
    Throttled,
}

/// The answer to one enqueued job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The job that is stored: the new one, or the one that was there.
    pub id: JobId,
    /// Which of the two.
    pub disposition: Disposition,
    /// Where that job stands; `None` if its retention is over while its unique window is not.
    pub state: Option<State>,
}
