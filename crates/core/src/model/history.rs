//! The history of a job: attempts, errors, progress, log lines. All of it is bounded.

use crate::error::{Result, within_limit};
use crate::growing::growing;
use crate::limits;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why an attempt failed, as reported by the handler or the runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobError {
    /// A short code to group by, such as `smtp_451` or `timeout`.
    pub code: String,
    /// A description for people.
    pub message: String,
}

impl JobError {
    /// An error with this code and message.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into() }
    }

    /// The error as stored: code and message truncated to their limits.
    ///
    /// An error report must not be refused because of its size, so it is truncated instead.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        cut(&mut self.code, limits::NAME_BYTES_MAX);
        cut(&mut self.message, limits::ERROR_BYTES_MAX);
        self
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttemptEnd {
    /// The handler completed the job.
    Complete,
    /// The handler failed; the job is retried.
    Retry,
    /// The handler snoozed the job.
    Snooze,
    /// The handler failed and the job is not retried: the failure was fatal, its attempts are used up, or its
    /// cancellation was requested.
    Fail,
    /// The worker released the job unfinished.
    Release,
    /// The handler waits for a signal.
    Wait,
    /// The handler ended the job as cancelled.
    Cancel,
    /// The lease was lost.
    Lost,
}

growing! {
    /// One attempt at a job.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Attempt as AttemptFields {
        /// Number of the attempt, from 1.
        pub number: u32,
        /// The label of the worker that ran it.
        pub worker: String,
        /// When it was claimed.
        pub started_at: Timestamp,
        /// When it was settled, or when its lease was found lost.
        pub ended_at: Timestamp,
        /// How it ended.
        pub end: AttemptEnd,
        /// The error, if it failed.
        pub error: Option<JobError>,
    }
}

impl Attempt {
    /// An attempt that ended without an error.
    pub const fn new(
        number: u32,
        worker: String,
        started_at: Timestamp,
        ended_at: Timestamp,
        end: AttemptEnd,
    ) -> Self {
        Self { number, worker, started_at, ended_at, end, error: None }
    }
}

/// The progress of a running job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Units done.
    pub done: u64,
    /// Units in total, if known.
    pub total: Option<u64>,
    /// A short note for people.
    pub note: String,
}

impl Progress {
    pub(crate) fn check(&self) -> Result<()> {
        let hint = "keep notes short; use log lines for more";
        within_limit("progress.note", self.note.len(), limits::PROGRESS_NOTE_BYTES_MAX, hint)
    }
}

/// A line that a handler added to the job's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// When the store received it.
    pub at: Timestamp,
    /// The text, truncated to its limit.
    pub text: String,
}

impl LogLine {
    /// A line as stored.
    pub fn new(at: Timestamp, mut text: String) -> Self {
        cut(&mut text, limits::LOG_LINE_BYTES_MAX);
        Self { at, text }
    }
}

/// Truncates `text` to `bytes_max` at a character boundary and marks the truncation.
fn cut(text: &mut String, bytes_max: usize) {
    const MARK: &str = "…";
    if text.len() <= bytes_max {
        return;
    }
    text.truncate(text.floor_char_boundary(bytes_max - MARK.len()));
    text.push_str(MARK);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_error_is_cut_within_its_limit_and_marked() {
        let error = JobError::new("c", "ü".repeat(limits::ERROR_BYTES_MAX)).bounded();
        assert!(error.message.len() <= limits::ERROR_BYTES_MAX && error.message.ends_with('…'));
        let short = JobError::new("c", "m").bounded();
        assert_eq!(short.to_string(), "c: m");
    }
}
