//! A bulk operation as it is stored and shown.

use super::change::BulkChange;
use serde::{Deserialize, Serialize};
use windlass_core::engine::{Cursor, Filter};
use windlass_core::limits::ERROR_BYTES_MAX;
use windlass_core::{Error, Timestamp};

/// The phase of a bulk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BulkState {
    /// Counts the jobs.
    Counting,
    /// Changes the jobs.
    Running,
    /// All jobs were counted or changed.
    Done,
    /// Cancelled by a person; the jobs changed until then stay changed.
    Cancelled,
}

impl BulkState {
    /// The name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counting => "counting",
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether it has ended.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled)
    }
}

/// A bulk operation with its progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Bulk {
    /// Its id.
    pub id: String,
    /// The jobs to change.
    pub filter: Filter,
    /// The change.
    pub change: BulkChange,
    /// Whether to count the jobs only.
    pub dry_run: bool,
    /// Who started it.
    pub by: String,
    /// When it began. Jobs enqueued later are not changed.
    pub begun: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// The phase.
    pub state: BulkState,
    /// Number of jobs to change, once they are counted.
    pub total: u64,
    /// Number of changed jobs.
    pub changed: u64,
    /// Number of jobs that were not changed because the store refused it.
    pub refused: u64,
    /// The first refusal.
    pub error: Option<String>,
    /// Number of jobs that were examined.
    pub examined: u64,
    /// The position in the listing.
    pub(super) after: Option<Cursor>,
    /// The process that runs it.
    pub(super) held: Option<Held>,
}

/// The right of one process to run an operation, until it expires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    /// A random name of the process.
    pub(super) holder: String,
    /// When others may continue.
    pub(super) until: Timestamp,
}

impl Bulk {
    /// Whether another process than `holder` runs it.
    pub(super) fn is_held_by_other(&self, holder: &str, now: Timestamp) -> bool {
        self.held.as_ref().is_some_and(|held| held.holder != holder && now < held.until)
    }

    /// Notes a job that was not changed.
    pub(super) fn refuse(&mut self, error: &Error) {
        self.refused += 1;
        if self.error.is_none() {
            let mut text = error.to_string();
            let end = (0..=ERROR_BYTES_MAX.min(text.len())).rev();
            text.truncate(end.into_iter().find(|end| text.is_char_boundary(*end)).unwrap_or(0));
            self.error = Some(text);
        }
    }

    /// Ends the phase in which all pages were read.
    pub(super) fn end_phase(&mut self, now: Timestamp) {
        (self.after, self.examined) = (None, 0);
        self.state = match self.state {
            BulkState::Counting if !self.dry_run && self.total > 0 => BulkState::Running,
            BulkState::Counting | BulkState::Running | BulkState::Done | BulkState::Cancelled => {
                BulkState::Done
            }
        };
        if self.state.is_over() {
            (self.ended, self.held) = (Some(now), None);
        }
    }
}
