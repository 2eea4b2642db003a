//! Everything that can go wrong for users of this crate, in one place.

use std::time::Duration;
use windlass_core::JobId;
use windlass_core::model::State;

/// A result with our [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Every failure of this crate. Errors of the store are [`Error::Engine`]; [`Error::as_engine`] finds them
/// wherever they are.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store or the contract says no; its own error says why, and what to do.
    #[error(transparent)]
    Engine(#[from] windlass_core::Error),
    /// The URL does not lead to a store that this program can use.
    #[error("cannot connect to {url}: {reason}")]
    Connect {
        /// The URL, without its secrets.
        url: String,
        /// What is wrong, and the way out.
        reason: String,
    },
    /// The store at the URL does not open.
    #[error("cannot open {url}: {source}")]
    Open {
        /// The URL.
        url: String,
        /// What the store says.
        source: windlass_core::Error,
    },
    /// A worker is not put together well.
    #[cfg(feature = "worker")]
    #[error(transparent)]
    Build(#[from] windlass_worker::BuildError),
    /// A value cannot be written as JSON.
    #[error("the {part} of {job} cannot be written as JSON: {source}")]
    Unwritable {
        /// Of which job.
        job: String,
        /// Which part of it.
        part: &'static str,
        /// What serde says.
        source: serde_json::Error,
    },
    /// What is stored cannot be read as what was asked for.
    #[error("the {part} of job {id} cannot be read: {reason}")]
    Unreadable {
        /// The job.
        id: JobId,
        /// Which part of it.
        part: &'static str,
        /// Why not.
        reason: String,
    },
    /// An all-or-nothing batch was refused because of one of its jobs; nothing of it is stored.
    #[error(
        "nothing of this all-or-nothing batch is stored: job {index} of it was refused: {source}"
    )]
    NotStored {
        /// Which job of the batch, counted from 0.
        index: usize,
        /// Why it was refused.
        source: Box<Error>,
    },
    /// The job did not end in the time allowed for waiting. It goes on.
    #[error(
        "job {id} is still {state} after {waited:?}; it goes on: wait longer, or look again later"
    )]
    NotFinished {
        /// The job.
        id: JobId,
        /// Where it stood when last seen.
        state: State,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The result of a job was asked for that ended without completing.
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
    /// The error of the store, where this is one.
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
