//! The error type of this crate.

use std::time::Duration;
use windlass_core::JobId;
use windlass_core::model::State;

/// A result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Every failure of this crate. Errors of the store are [`Error::Engine`]; [`Error::as_engine`] also finds
/// them inside other variants.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store refused or failed the call; the inner error has the reason and the way out.
    #[error(transparent)]
    Engine(#[from] windlass_core::Error),
    /// The URL is invalid or names a store that this program cannot use.
    #[error("cannot connect to {url}: {reason}")]
    Connect {
        /// The URL, without its secrets.
        url: String,
        /// What is wrong, and the way out.
        reason: String,
    },
    /// The store at the URL cannot be opened.
    #[error("cannot open {url}: {source}")]
    Open {
        /// The URL.
        url: String,
        /// The store's error.
        source: windlass_core::Error,
    },
    /// The options of a worker are invalid.
    #[cfg(feature = "worker")]
    #[error(transparent)]
    Build(#[from] windlass_worker::BuildError),
    /// A value cannot be written as JSON.
    #[error("the {part} of {job} cannot be written as JSON: {source}")]
    Unwritable {
        /// The job.
        job: String,
        /// The part of the job.
        part: &'static str,
        /// The serializer's error.
        source: serde_json::Error,
    },
    /// A stored value cannot be read as the requested type.
    #[error("the {part} of job {id} cannot be read: {reason}")]
    Unreadable {
        /// The job.
        id: JobId,
        /// The part of the job.
        part: &'static str,
        /// The reason.
        reason: String,
    },
    /// An all-or-nothing batch was refused because of one of its jobs; nothing of it is stored.
    #[error(
        "nothing of this all-or-nothing batch is stored: job {index} of it was refused: {source}"
    )]
    NotStored {
        /// Index of the refused job in the batch, from 0.
        index: usize,
        /// Why it was refused.
        source: Box<Error>,
    },
    /// The job did not end within the time allowed for waiting. It keeps running.
    #[error(
        "job {id} is still {state} after {waited:?}; it goes on: wait longer, or look again later"
    )]
    NotFinished {
        /// The job.
        id: JobId,
        /// The state when it was last read.
        state: State,
        /// How long the caller waited.
        waited: Duration,
    },
    /// The result of a job that ended without completing was requested.
    #[error("job {id} has no result: it is {state} ({reason})")]
    NotCompleted {
        /// The job.
        id: JobId,
        /// How it ended.
        state: State,
        /// Its latest error, or why it ended.
        reason: String,
    },
}

impl Error {
    /// The store's error, if there is one.
    pub fn as_engine(&self) -> Option<&windlass_core::Error> {
        match self {
            Self::Engine(error) | Self::Open { source: error, .. } => Some(error),
            Self::NotStored { source, .. } => source.as_engine(),
            _ => None,
        }
    }

    /// A stable code to match on across the wire and in metrics: the store's own code, where it is the
    /// store's error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Engine(error) | Self::Open { source: error, .. } => error.code(),
            Self::Connect { .. } => "connect",
            #[cfg(feature = "worker")]
            Self::Build(_) => "build",
            Self::Unwritable { .. } => "unwritable",
            Self::Unreadable { .. } => "unreadable",
            Self::NotStored { source, .. } => source.code(),
            Self::NotFinished { .. } => "not_finished",
            Self::NotCompleted { .. } => "not_completed",
        }
    }
}
