//! The policy of a job: retries, crashes, time limits, retention.

use crate::error::{Error, Result, within_range};
use crate::limits;
use crate::policy::{Backoff, Retention};
use serde::{Deserialize, Serialize};

/// The policy of one job, fixed when it is enqueued (a replay may change it).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Policy {
    /// Number of failed attempts after which the job is dead.
    pub max_attempts: u32,
    /// The delay after a failure.
    pub backoff: Backoff,
    /// Maximum run time of a handler, after which the worker stops it and reports a failure.
    pub timeout_ms: Option<u64>,
    /// Number of leases lost since a handler last reported an outcome, above which the job is dead. With 0,
    /// the job never runs again after a worker died.
    pub max_crashes: u32,
    /// Expires the job if it has been due for this long without being started. Pauses count.
    pub max_wait_ms: Option<u64>,
    /// How long to keep the job after it ended; overrides the setting of its queue.
    pub retention: Option<Retention>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_attempts: limits::MAX_ATTEMPTS_DEFAULT,
            backoff: Backoff::default(),
            timeout_ms: None,
            max_crashes: limits::MAX_CRASHES_DEFAULT,
            max_wait_ms: None,
            retention: None,
        }
    }
}

impl Policy {
    /// Checks that every value is within its limits.
    pub fn check(&self) -> Result<()> {
        if self.max_attempts == 0 {
            return Err(Error::invalid("max_attempts", 0, "a job needs at least one attempt"));
        }
        within_range(
            "max_attempts",
            self.max_attempts.into(),
            1..=limits::MAX_ATTEMPTS_MAX.into(),
        )?;
        within_range("max_crashes", self.max_crashes.into(), 0..=limits::MAX_CRASHES_MAX.into())?;
        self.backoff.check()?;
        if let Some(ms) = self.timeout_ms {
            within_range("timeout_ms", ms, 1..=limits::TIMEOUT_MAX_MS)?;
        }
        if let Some(ms) = self.max_wait_ms {
            within_range("max_wait_ms", ms, 1..=limits::AGE_MAX_MS)?;
        }
        self.retention.map_or(Ok(()), |retention| retention.check())
    }
}
