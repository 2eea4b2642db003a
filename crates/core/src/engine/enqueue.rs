//! Enqueueing jobs.

use super::check_batch;
use crate::error::Result;
use crate::growing::growing;
use crate::id::JobId;
use crate::limits::{BATCH_DEPENDENCIES_MAX, ENQUEUE_BATCH_MAX};
use crate::model::{Name, NewJob, State};

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
    /// The queue is a topic: each of its subscriptions that wants the job got a copy. See [`Enqueued::copies`].
    Published,
    /// A follow-up in another queue, of a store whose [atomicity](super::Atomicity) is the queue: the report is durable, and
    /// the job will be stored.
    Deferred,
}

impl Disposition {
    /// Whether a new job was stored.
    pub const fn is_new(self) -> bool {
        matches!(self, Self::Created | Self::Replaced(_))
    }
}

growing! {
    /// The result of one enqueued job.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Enqueued as EnqueuedFields {
        /// The id of the stored job: the new one or the existing one. Of a job for a topic, the id from which those of its
        /// copies are derived; no job has it.
        pub id: JobId,
        /// What happened to the job.
        pub disposition: Disposition,
        /// State of the stored job; `None` if its retention is over but its unique window is not, if it is not stored yet, and
        /// for topics.
        pub state: Option<State>,
        /// The copies that the subscriptions of a topic got; empty if none wants the job, and for other queues.
        pub copies: Vec<TopicCopy>,
    }
}

growing! {
    /// The copy of a job for a topic that one of its subscriptions got.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TopicCopy as TopicCopyFields {
        /// The name of the subscription.
        pub subscription: Name,
        /// Its queue, in which the copy is.
        pub queue: Name,
        /// The id of the copy, or of the job that exists in its place.
        pub id: JobId,
        /// What happened to the copy.
        pub disposition: Disposition,
        /// State of the stored copy.
        pub state: Option<State>,
    }
}

impl Enqueued {
    /// The result for a job that is stored, or for the one that exists in its place.
    pub const fn new(id: JobId, disposition: Disposition, state: Option<State>) -> Self {
        Self { id, disposition, state, copies: Vec::new() }
    }

    /// Whether a new job was stored, or a new copy of one.
    pub fn is_new(&self) -> bool {
        self.disposition.is_new() || self.copies.iter().any(|copy| copy.disposition.is_new())
    }

    /// The result for a job that was enqueued to a topic.
    pub const fn published(id: JobId, copies: Vec<TopicCopy>) -> Self {
        Self { id, disposition: Disposition::Published, state: None, copies }
    }
}

impl TopicCopy {
    /// What a subscription with this queue got.
    pub fn new(subscription: Name, queue: Name, copy: &Enqueued) -> Self {
        let Enqueued { id, disposition, state, copies: _ } = *copy;
        Self { subscription, queue, id, disposition, state }
    }
}
