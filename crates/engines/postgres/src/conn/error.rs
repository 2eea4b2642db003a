//! Errors of PostgreSQL as errors of the contract, and which of them another run of the same verb may resolve.

use std::error::Error as _;
use std::fmt;
use tokio_postgres::error::SqlState;
use windlass_core::Error;

/// Why a run of a verb failed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// A conflict with another transaction (a deadlock, a row inserted meanwhile) or no free connection: nothing was
    /// changed, and the verb can be run again.
    Retryable(Error),
    /// The verb is refused, or the store is not usable.
    Fatal(Error),
}

/// The result of a step of a run.
pub(crate) type Try<T> = Result<T, Trouble>;

impl Trouble {
    /// The error as returned to the caller of a verb.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Retryable(error) | Self::Fatal(error) => error,
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        let place = error.as_db_error().and_then(|db| db.where_()).unwrap_or_default();
        Self::of(error.code(), place, reason(&error))
    }
}

/// A statement of another driver failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The SQLSTATE, if the driver returns it.
    pub(crate) code: Option<SqlState>,
    /// The message of the server or the driver.
    pub(crate) message: String,
    /// Where in the server it failed.
    pub(crate) place: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Failure> for Trouble {
    fn from(Failure { code, message, place }: Failure) -> Self {
        let said = match &code {
            Some(code) => said(&message, code),
            None => message,
        };
        Self::of(code.as_ref(), &place, said)
    }
}

impl Trouble {
    /// Classifies an error by its SQLSTATE.
    fn of(code: Option<&SqlState>, place: &str, reason: String) -> Self {
        if code == Some(&SqlState::LOCK_NOT_AVAILABLE) {
            return Self::Fatal(busy(place));
        }
        let retryable = [
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::UNIQUE_VIOLATION,
            SqlState::TOO_MANY_CONNECTIONS,
            // A partition was added for a row on its way to the default partition.
            SqlState::CHECK_VIOLATION,
            // Statements are sent together: an earlier one failed, and its error was not read first. If that one cannot
            // be resolved by another run, the next run returns it.
            SqlState::IN_FAILED_SQL_TRANSACTION,
        ];
        match code {
            Some(code) if retryable.contains(code) => Self::Retryable(unavailable(reason)),
            Some(&(SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED)) => {
                Self::Fatal(corrupt(&reason))
            }
            _ => Self::Fatal(unavailable(reason)),
        }
    }
}

/// What went wrong, with the way out where we know one; never with values from statements.
fn reason(error: &tokio_postgres::Error) -> String {
    let Some(db) = error.as_db_error() else {
        let cause = error.source().map(|cause| cause.to_string()).unwrap_or_default();
        let hint = match cause.contains("server does not support TLS") {
            true => "; turn it on there (ssl = on), or use sslmode=prefer or disable",
            false => "",
        };
        let said = error.to_string();
        return match said.contains(&cause) {
            true => format!("{said}{hint}"),
            false => format!("{said}: {cause}{hint}"),
        };
    };
    said(db.message(), db.code())
}

/// The server's message with its SQLSTATE, and the way out where we know one.
fn said(message: &str, code: &SqlState) -> String {
    let hint = match *code {
        SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME => {
            "; the tables are not there: open with migrations, or run them first"
        }
        SqlState::INSUFFICIENT_PRIVILEGE => "; give this role the rights named in the guide",
        SqlState::DISK_FULL => "; make room on the server's disk",
        SqlState::QUERY_CANCELED => {
            "; retry later, or raise statement_timeout in the options of the URL"
        }
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            "; use the server that takes writes, or set default_transaction_read_only = off for this role"
        }
        SqlState::TOO_MANY_CONNECTIONS => "; use fewer, or raise max_connections of the server",
        _ => "",
    };
    format!("{message} ({}){hint}", code.code())
}

/// Another session held a lock for longer than the lock timeout. The server's message says where.
fn busy(place: &str) -> Error {
    let held = [
        ("\"unique_key", "a unique key"),
        ("\"key_holder", "an ordering key"),
        ("\"turn", "the turns of a tenant in a fair queue"),
        ("\"lane", "the first job of a queue and kind"),
        (".lease IN EXCLUSIVE", "the leases of running jobs"),
        ("\"queue", "a queue with a depth limit, or its settings"),
    ];
    let what = held.iter().find(|(table, _)| place.contains(table));
    let what = what.map_or("something that it needs", |(_, what)| what);
    let reason = format!("another transaction holds {what} and did not end in time (55P03)");
    Error::Busy { store: "postgres".into(), reason }
}

pub(crate) fn unavailable(reason: impl Into<String>) -> Error {
    Error::Unavailable { store: "postgres".into(), reason: reason.into() }
}

pub(crate) fn corrupt(reason: &dyn std::fmt::Display) -> Error {
    Error::Corrupt { store: "postgres".into(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_statement_after_the_failed_one_is_retryable() {
        let code = SqlState::IN_FAILED_SQL_TRANSACTION;
        let reason = "current transaction is aborted".to_owned();
        assert!(matches!(Trouble::of(Some(&code), "", reason), Trouble::Retryable(_)));
    }
}
