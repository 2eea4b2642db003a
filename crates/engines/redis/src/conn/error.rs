//! Errors of the server, and whether a verb is retried after them.

use redis::RedisError;
use windlass_core::Error;
use windlass_workset::codec::Damaged;

/// The name of the store in errors.
pub(super) const STORE: &str = "redis";

/// The reason why an attempt of a verb failed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// A row has changed since it was read; the verb is retried.
    Conflict,
    /// The verb fails.
    Fatal(Error),
}

/// The result of an attempt.
pub(crate) type Try<T> = Result<T, Trouble>;

impl Trouble {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Conflict => unavailable("too many conflicts with other writers; try again"),
            Self::Fatal(error) => error,
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

impl From<Damaged> for Trouble {
    fn from(damaged: Damaged) -> Self {
        Self::Fatal(corrupt(&damaged))
    }
}

impl From<RedisError> for Trouble {
    fn from(error: RedisError) -> Self {
        Self::Fatal(of_server(&error))
    }
}

/// The error of a command as a verb reports it.
pub(crate) fn of_server(error: &RedisError) -> Error {
    match error.code() {
        Some("OOM") => Error::StoreFull {
            store: STORE.to_owned(),
            reason: "the server has reached its maxmemory; drain the queues or raise it".to_owned(),
        },
        _ => unavailable(error),
    }
}

/// The store does not answer as it should.
pub(crate) fn unavailable(reason: impl ToString) -> Error {
    Error::Unavailable { store: STORE.to_owned(), reason: reason.to_string() }
}

/// A stored value cannot be read.
pub(crate) fn corrupt(reason: &dyn std::fmt::Display) -> Error {
    Error::Corrupt { store: STORE.to_owned(), reason: reason.to_string() }
}
