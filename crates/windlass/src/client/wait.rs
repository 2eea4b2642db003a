//! Waits for a job to end. Polls with increasing intervals, because events are off in most queues.

use super::Client;
use crate::error::{Error, Result};
use crate::json;
use serde::de::DeserializeOwned;
use std::time::Duration;
use windlass_core::JobId;
use windlass_core::model::{Finish, Job as StoredJob, JobError, State};

/// Interval before the second poll; doubles with each poll.
const LOOK_FIRST: Duration = Duration::from_millis(5);
/// Longest interval between two polls: the end of a job is noticed no later than this.
const LOOK_LONGEST: Duration = Duration::from_millis(500);

impl Client {
    /// Waits until a job has ended, without a time limit. A job may be scheduled for next year, so prefer
    /// [`Client::wait_for`]. An end is noticed within half a second; the polls of concurrent waiters are
    /// merged.
    ///
    /// Returns an error if the job does not exist, or if its retention ends before its end is seen.
    pub async fn wait(&self, id: JobId) -> Result<Finished> {
        self.look_until_finished(id, &mut None).await
    }

    /// Waits until a job has ended, at most this long.
    pub async fn wait_for(&self, id: JobId, timeout: Duration) -> Result<Finished> {
        let mut seen = None;
        let finished = tokio::time::timeout(timeout, self.look_until_finished(id, &mut seen)).await;
        match (finished, seen) {
            (Ok(finished), _) => finished,
            (Err(_), Some(state)) => Err(Error::NotFinished { id, state, waited: timeout }),
            (Err(_), None) => Err(Error::Engine(windlass_core::Error::Unavailable {
                store: "the store".into(),
                reason: format!("no answer within {timeout:?}"),
            })),
        }
    }

    async fn look_until_finished(&self, id: JobId, seen: &mut Option<State>) -> Result<Finished> {
        let mut pause = LOOK_FIRST;
        loop {
            let job = self.get(id).await?.ok_or(windlass_core::Error::NotFound { id })?;
            if job.state.is_terminal() {
                return Ok(Finished { job });
            }
            *seen = Some(job.state);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK_LONGEST);
        }
    }
}

/// A job that has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finished {
    /// The job without its parts.
    pub job: StoredJob,
}

impl Finished {
    /// The final state.
    pub const fn state(&self) -> State {
        self.job.state
    }

    /// Whether the job completed.
    pub fn is_completed(&self) -> bool {
        self.job.state == State::Completed
    }

    /// The latest error of the job.
    pub const fn error(&self) -> Option<&JobError> {
        self.job.error.as_ref()
    }

    /// The value that the handler returned. An error if the job did not complete or the value has another
    /// type; a handler that returned nothing can be read as `()` or `Option`.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T> {
        let id = self.job.header.id;
        if self.is_completed() {
            return json::read(id, "result", self.job.result.as_ref());
        }
        let reason = match (&self.job.error, &self.job.finish) {
            (Some(error), _) => error.to_string(),
            (None, Some(Finish::ReplacedBy(newer))) => format!("replaced by job {newer}"),
            (None, Some(Finish::Dependency(job))) => {
                format!("job {job}, which it depends on, was not completed")
            }
            // The name in the API, such as `attempts_spent`.
            (None, Some(finish)) => {
                serde_json::to_string(finish).unwrap_or_default().replace('"', "").replace('_', " ")
            }
            (None, None) => "no reason is recorded".to_owned(),
        };
        Err(Error::NotCompleted { id, state: self.job.state, reason })
    }
}
