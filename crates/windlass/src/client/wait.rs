//! Waiting for a job to end. Looks again and again, ever less often: the contract has no events yet.

use super::Client;
use crate::error::{Error, Result};
use crate::json;
use serde::de::DeserializeOwned;
use std::time::Duration;
use windlass_core::JobId;
use windlass_core::model::{Job as StoredJob, JobError, State};

/// How long to wait before the second look; doubles with each.
const LOOK_FIRST: Duration = Duration::from_millis(5);
/// The longest time between two looks: a job's end is noticed no later than this.
const LOOK_LONGEST: Duration = Duration::from_millis(500);

impl Client {
    /// Waits until a job has ended, as long as that takes: a job may be scheduled for next year, so
    /// [`Client::wait_for`] is mostly what you want. An end is noticed within half a second; looks of many
    /// waiters travel together.
    ///
    /// A job that does not exist is an error, and so is one whose retention ends before it is seen.
    pub async fn wait(&self, id: JobId) -> Result<Finished> {
        self.look_until_finished(id, &mut None).await
    }

    /// Waits until a job has ended, but no longer than this.
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
    /// Everything known of it but its parts.
    pub job: StoredJob,
}

impl Finished {
    /// How it ended.
    pub const fn state(&self) -> State {
        self.job.state
    }

    /// Whether it did what it was to do.
    pub fn is_completed(&self) -> bool {
        self.job.state == State::Completed
    }

    /// Its latest error.
    pub const fn error(&self) -> Option<&JobError> {
        self.job.error.as_ref()
    }

    /// What its handler returned. An error if it did not complete, or returned something else; a handler
    /// that returned nothing can be read as `()` or `Option`.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T> {
        let id = self.job.header.id;
        if self.is_completed() {
            return json::read(id, "result", self.job.result.as_ref());
        }
        let reason = match (&self.job.error, &self.job.finish) {
            (Some(error), _) => error.to_string(),
            (None, Some(finish)) => format!("{finish:?}"),
            (None, None) => "no reason is recorded".to_owned(),
        };
        Err(Error::NotCompleted { id, state: self.job.state, reason })
    }
}
