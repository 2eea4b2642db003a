//! Enqueue requests and their results.

use crate::bounded;
use crate::new_job::NewJob;
#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::engine::{self, Disposition, Mode};
use windlass_core::limits::ENQUEUE_BATCH_MAX;
use windlass_core::model::{Name, State};
use windlass_core::policy;
use windlass_core::{Error, JobId, Result};

/// Jobs to enqueue.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Enqueue {
    /// The jobs.
    #[serde(deserialize_with = "bounded::vec::<ENQUEUE_BATCH_MAX, _, _>")]
    #[cfg_attr(feature = "openapi", schema(max_items = 10000))]
    pub jobs: Vec<NewJob>,
    /// Whether to store all jobs or none; otherwise each job succeeds or fails alone.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub atomic: bool,
    /// Spreads the jobs over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
}

/// A rate at which jobs become due.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// Jobs per second.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000000))]
    pub per_second: u64,
}

impl Pace {
    /// Converts to the core pace.
    pub fn into_core(self) -> Result<policy::Pace> {
        policy::Pace::per_second(self.per_second).map_err(|error| error.within("pace"))
    }
}

impl Enqueue {
    /// Converts to the core request, and returns errors of invalid jobs with their index: each
    /// fails alone. The caller applies the pace, which requires the store's time.
    pub fn into_core(self) -> (engine::Enqueue, Vec<(usize, Error)>) {
        let (mut jobs, mut bad) = (Vec::with_capacity(self.jobs.len()), Vec::new());
        for (index, job) in self.jobs.into_iter().enumerate() {
            match job.into_core() {
                Ok(job) => jobs.push(job),
                Err(error) => bad.push((index, error)),
            }
        }
        let request = if self.atomic {
            engine::Enqueue::all_or_nothing(jobs)
        } else {
            engine::Enqueue::each(jobs)
        };
        (request, bad)
    }
}

impl From<engine::Enqueue> for Enqueue {
    fn from(request: engine::Enqueue) -> Self {
        let jobs = request.jobs.into_iter().map(Into::into).collect();
        Self { jobs, atomic: request.mode == Mode::AllOrNothing, pace: None }
    }
}

/// The result of an enqueue.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Enqueued {
    /// The stored job: the new one, or the existing one. Of a job for a topic, the id from which those of its copies are
    /// derived; no job has it.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::JobId))]
    pub id: JobId,
    /// `created`, `replaced`, `existing`, `throttled` or `published`.
    pub disposition: Verdict,
    /// The job that was replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::JobId>))]
    pub replaced: Option<JobId>,
    /// State of the job; absent if it was deleted while its unique window is still open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::State>))]
    pub state: Option<State>,
    /// If the queue is a topic, the copies that its subscriptions got.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<TopicCopy>,
}

/// The copy of a job for a topic that one of its subscriptions got.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TopicCopy {
    /// Name of the subscription.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub subscription: Name,
    /// Its queue, in which the copy is.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub queue: Name,
    /// The copy, or the job that exists in its place.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::JobId))]
    pub id: JobId,
    /// `created`, `replaced`, `existing` or `throttled`.
    pub disposition: Verdict,
    /// The job that was replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::JobId>))]
    pub replaced: Option<JobId>,
    /// State of the copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::State>))]
    pub state: Option<State>,
}

/// The type of result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Disposition))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The job was stored.
    Created,
    /// The job was stored in place of another.
    Replaced,
    /// The job exists already.
    Existing,
    /// The job was dropped by its conflict policy.
    Throttled,
    /// The queue is a topic: each of its subscriptions that wants the job got a copy.
    Published,
}

impl Verdict {
    fn of(disposition: Disposition) -> (Self, Option<JobId>) {
        match disposition {
            Disposition::Created => (Self::Created, None),
            Disposition::Replaced(id) => (Self::Replaced, Some(id)),
            Disposition::Existing => (Self::Existing, None),
            Disposition::Throttled => (Self::Throttled, None),
            Disposition::Published => (Self::Published, None),
            // It will be stored. It has no state yet.
            Disposition::Deferred => (Self::Created, None),
            // A variant of a newer core: no new job was stored.
            _ => (Self::Existing, None),
        }
    }

    fn into_core(self, replaced: Option<JobId>) -> Result<Disposition> {
        Ok(match (self, replaced) {
            (Self::Created, _) => Disposition::Created,
            (Self::Replaced, Some(id)) => Disposition::Replaced(id),
            (Self::Replaced, None) => {
                let expected = "a replacement has the id of the replaced job";
                return Err(Error::invalid("replaced", "missing", expected));
            }
            (Self::Existing, _) => Disposition::Existing,
            (Self::Throttled, _) => Disposition::Throttled,
            (Self::Published, _) => Disposition::Published,
        })
    }
}

impl TopicCopy {
    fn into_core(self) -> Result<engine::TopicCopy> {
        let Self { subscription, queue, id, disposition, replaced, state } = self;
        let disposition = disposition.into_core(replaced)?;
        Ok(engine::TopicCopyFields { subscription, queue, id, disposition, state }.into())
    }
}

impl From<engine::TopicCopy> for TopicCopy {
    fn from(copy: engine::TopicCopy) -> Self {
        let engine::TopicCopyFields { subscription, queue, id, disposition, state } = copy.into();
        let (disposition, replaced) = Verdict::of(disposition);
        Self { subscription, queue, id, disposition, replaced, state }
    }
}

impl Enqueued {
    /// Whether a job was stored.
    pub fn is_new(&self) -> bool {
        let is_new = |verdict| matches!(verdict, Verdict::Created | Verdict::Replaced);
        is_new(self.disposition) || self.copies.iter().any(|copy| is_new(copy.disposition))
    }

    /// Converts to the core result.
    pub fn into_core(self) -> Result<engine::Enqueued> {
        let Self { id, disposition, replaced, state, copies } = self;
        let disposition = disposition.into_core(replaced)?;
        let copies = copies.into_iter().map(TopicCopy::into_core).collect::<Result<_>>()?;
        Ok(engine::EnqueuedFields { id, disposition, state, copies }.into())
    }
}

impl From<engine::Enqueued> for Enqueued {
    fn from(answer: engine::Enqueued) -> Self {
        let engine::EnqueuedFields { id, disposition, state, copies } = answer.into();
        let (disposition, replaced) = Verdict::of(disposition);
        let copies = copies.into_iter().map(Into::into).collect();
        Self { id, disposition, replaced, state, copies }
    }
}
