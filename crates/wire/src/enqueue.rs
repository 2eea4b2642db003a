//! Enqueue requests and their results.

use crate::bounded;
use crate::new_job::NewJob;
#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::engine::{self, Disposition, Mode};
use windlass_core::limits::ENQUEUE_BATCH_MAX;
use windlass_core::model::State;
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
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Enqueued {
    /// The stored job: the new one, or the existing one.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::JobId))]
    pub id: JobId,
    /// `created`, `replaced`, `existing` or `throttled`.
    pub disposition: Verdict,
    /// The job that was replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::JobId>))]
    pub replaced: Option<JobId>,
    /// State of the job; absent if it was deleted while its unique window is still open.
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
}

impl Enqueued {
    /// Whether a job was stored.
    pub fn is_new(&self) -> bool {
        matches!(self.disposition, Verdict::Created | Verdict::Replaced)
    }

    /// Converts to the core result.
    pub fn into_core(self) -> Result<engine::Enqueued> {
        let disposition = match (self.disposition, self.replaced) {
            (Verdict::Created, _) => Disposition::Created,
            (Verdict::Replaced, Some(id)) => Disposition::Replaced(id),
            (Verdict::Replaced, None) => {
                return Err(Error::invalid(
                    "replaced",
                    "missing",
                    "a replacement has the id of the replaced job",
                ));
            }
            (Verdict::Existing, _) => Disposition::Existing,
            (Verdict::Throttled, _) => Disposition::Throttled,
        };
        Ok(engine::EnqueuedFields { id: self.id, disposition, state: self.state }.into())
    }
}

impl From<engine::Enqueued> for Enqueued {
    fn from(answer: engine::Enqueued) -> Self {
        let engine::EnqueuedFields { id, disposition, state } = answer.into();
        let (disposition, replaced) = match disposition {
            Disposition::Created => (Verdict::Created, None),
            Disposition::Replaced(id) => (Verdict::Replaced, Some(id)),
            Disposition::Existing => (Verdict::Existing, None),
            Disposition::Throttled => (Verdict::Throttled, None),
            // It will be stored. It has no state yet.
            Disposition::Deferred => (Verdict::Created, None),
            // A variant of a newer core: no new job was stored.
            _ => (Verdict::Existing, None),
        };
        Self { id, disposition, replaced, state }
    }
}
