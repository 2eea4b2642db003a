//! Store outages: which errors indicate one, how long to back off, when to log it.

use crate::options::{RETRY_FIRST, RETRY_MAX};
use crate::shared::Shared;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::Error;

/// Whether repeating the call may help. Every other error is a definite answer.
pub(crate) const fn is_transient(error: &Error) -> bool {
    matches!(
        error,
        Error::Unavailable { .. }
            | Error::Busy { .. }
            | Error::StoreFull { .. }
            | Error::InUse { .. }
    )
}

/// The error of a call that got no answer.
pub(crate) fn unanswered(reason: &str) -> Error {
    Error::Unavailable { store: "the store".to_owned(), reason: reason.to_owned() }
}

/// Backoff between repeated calls: doubles each time, with jitter.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    last: Option<Duration>,
}

impl Pause {
    pub(crate) fn next(&mut self, shared: &Shared) -> Duration {
        let delay = self.last.map_or(RETRY_FIRST, |last| (last * 2).min(RETRY_MAX));
        self.last = Some(delay);
        shared.jittered(delay)
    }
}

/// Whether the store answers, and when to try again if it does not.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    since: Option<Instant>,
    errors: u64,
    pause: Pause,
    ask_at: Option<Instant>,
}

impl Outage {
    /// The time before which no call is made.
    pub(crate) fn ask_at(&self) -> Option<Instant> {
        self.ask_at.filter(|at| *at > Instant::now())
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// Records that the store did not answer a call. Logged once per outage.
    pub(crate) fn failed(&mut self, shared: &Shared, error: &Error) {
        let now = Instant::now();
        self.errors += 1;
        if self.since.is_none() {
            self.since = Some(now);
            tracing::warn!(%error, worker = %shared.options.name,
                "the store does not answer; running jobs continue, results are buffered, retrying");
        }
        // Calls that fail together count as one: all were sent before the backoff began.
        if self.ask_at().is_none() {
            self.ask_at = Some(now + self.pause.next(shared));
        }
    }

    /// Records that the store answered.
    pub(crate) fn answered(&mut self, shared: &Shared) {
        if let Some(since) = self.since {
            let (outage, errors) = (since.elapsed(), self.errors);
            tracing::info!(?outage, errors, worker = %shared.options.name, "the store answers again");
            *self = Self::default();
        }
    }
}
