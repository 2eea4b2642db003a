//! How a job wants to be treated: retries, crashes, time limits, retention.

use crate::error::{Error, Result, within_range};
use crate::limits;
use crate::policy::{Backoff, Retention};
use serde::{Deserialize, Serialize};

/// The policy of one job, fixed when it is enqueued (replay may edit it).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Policy {
    /// Dead when this many attempts have failed.
    pub max_attempts: u32,
    /// How long to wait after a failure.
    pub backoff: Backoff,
    /// How long a handler may run; the worker stops it then and reports a failure.
    pub timeout_ms: Option<u64>,
    /// Dead when more leases than this were lost since a handler last reported an outcome.
    /// 0: never run again because a worker died.
    pub max_crashes: u32,
    /// Expired when it has been due for this long without starting. Pauses count.
    pub max_wait_ms: Option<u64>,
    /// How long to keep it once finished, instead of its queue's setting.
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
    /// Whether every value is within its limit.
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
