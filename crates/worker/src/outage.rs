//! When the store does not answer: which errors mean that, how long to pause, when to say so.

use crate::options::{RETRY_FIRST, RETRY_MAX};
use crate::shared::Shared;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::Error;

/// Whether repeating the call may help. Everything else is an answer.
pub(crate) const fn is_transient(error: &Error) -> bool {
    matches!(
        error,
        Error::Unavailable { .. }
            | Error::Busy { .. }
            | Error::StoreFull { .. }
            | Error::InUse { .. }
    )
}

/// A call that got no answer.
pub(crate) fn unanswered(reason: &str) -> Error {
    Error::Unavailable { store: "the store".to_owned(), reason: reason.to_owned() }
}

/// Pauses between repeated calls: twice as long each time, with jitter.
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

/// Whether the store answers, and when to ask it again if it does not.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    since: Option<Instant>,
    errors: u64,
    pause: Pause,
    ask_at: Option<Instant>,
}

impl Outage {
    /// Until when nothing is to be asked.
    pub(crate) fn ask_at(&self) -> Option<Instant> {
        self.ask_at.filter(|at| *at > Instant::now())
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// The store did not answer a call. Said once per outage.
    pub(crate) fn failed(&mut self, shared: &Shared, error: &Error) {
        let now = Instant::now();
        self.errors += 1;
        if self.since.is_none() {
            self.since = Some(now);
            tracing::warn!(%error, worker = %shared.options.name,
                "the store does not answer; running jobs go on, results wait, trying again");
        }
        // Calls that fail together count as one: they were sent before the pause was known.
        if self.ask_at().is_none() {
            self.ask_at = Some(now + self.pause.next(shared));
        }
    }

    /// The store answered.
    pub(crate) fn answered(&mut self, shared: &Shared) {
        if let Some(since) = self.since {
            let (outage, errors) = (since.elapsed(), self.errors);
            tracing::info!(?outage, errors, worker = %shared.options.name, "the store answers again");
            *self = Self::default();
        }
    }
}
