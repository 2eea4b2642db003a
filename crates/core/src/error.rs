//! The error type of the contract. Messages contain what is wrong, the value, and the way out.

use crate::engine::Capability;
use crate::id::JobId;
use crate::machine::EventKind;
use crate::model::State;
use crate::time::millis;
use std::borrow::Cow;
use std::time::Duration;

/// A result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Every failure that an engine or a policy returns.
///
/// Match on the variant, or on [`Error::code`] across the wire. The error of one item of a batch is returned
/// in its place; an error of the whole call means that nothing was done. The exception is
/// [`Error::Unavailable`]: the outcome is unknown and the call should be repeated, which is safe for every
/// verb because of ids, claim numbers and leases.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A field has an invalid value.
    #[error("{field} is {value}: {expected}")]
    Invalid {
        /// The field, by its path in the request.
        field: Cow<'static, str>,
        /// The value, shortened for display.
        value: String,
        /// The valid values.
        expected: Cow<'static, str>,
    },
    /// Something exceeds its limit.
    #[error("{field} has size {size}, the limit is {limit}; {hint}")]
    TooLarge {
        /// The field, by its path in the request.
        field: Cow<'static, str>,
        /// Its size or count.
        size: u64,
        /// The limit.
        limit: u64,
        /// The way out.
        hint: &'static str,
    },
    /// The job does not exist: it was never enqueued, or its retention is over.
    #[error("job {id} does not exist: never enqueued here, or already past its retention")]
    NotFound {
        /// The requested id.
        id: JobId,
    },
    /// Something that has a name does not exist: a schedule, a limit, a key.
    #[error("{what} {name:?} does not exist; {hint}")]
    Missing {
        /// The type of thing.
        what: &'static str,
        /// The requested name or id.
        name: String,
        /// The way out.
        hint: &'static str,
    },
    /// The lease is not the job's current one. The report is not recorded.
    #[error(
        "the lease on job {id} is lost: it ran out, or the job was cancelled or given to another \
         worker; drop this attempt"
    )]
    LeaseLost {
        /// The job.
        id: JobId,
    },
    /// The session has expired or never existed.
    #[error("session {session} is lost: no heartbeat arrived in time; open a new one")]
    SessionLost {
        /// The session.
        session: String,
    },
    /// Another job holds the unique key, and the new job's rule is to be rejected.
    #[error("unique key {key:?} is held by job {holder}; wait for it to finish or use another key")]
    Duplicate {
        /// The key.
        key: String,
        /// The job that holds it.
        holder: JobId,
    },
    /// The job's state does not allow this.
    #[error("job {id} is {state}: it cannot {event}; {hint}")]
    Refused {
        /// The job.
        id: JobId,
        /// The state it is in.
        state: State,
        /// The requested change.
        event: EventKind,
        /// The way out.
        hint: &'static str,
    },
    /// The job is not in the state that the request requires. Nothing was changed.
    #[error(
        "job {id} is {found}, not {expected}: nothing was changed; read the job again and decide anew"
    )]
    StateConflict {
        /// The job.
        id: JobId,
        /// The required state.
        expected: State,
        /// The current state.
        found: State,
    },
    /// The queue has reached its depth limit.
    #[error(
        "queue {queue:?} is full: {depth} waiting, limit {limit}; retry later or raise its max_depth"
    )]
    QueueFull {
        /// The queue.
        queue: String,
        /// Jobs waiting.
        depth: u64,
        /// Its `max_depth`, or the server's default limit.
        limit: u64,
        /// When there may be room, if the drain rate is known.
        retry_after_ms: Option<u64>,
    },
    /// A client enqueues more jobs per second than allowed.
    #[error(
        "{who} enqueues more than {limit} jobs per second; slow down, and repeat this after \
         {retry_after_ms} ms"
    )]
    TooFast {
        /// The client.
        who: String,
        /// Allowed jobs per second.
        limit: u64,
        /// When the next job is allowed.
        retry_after_ms: u64,
    },
    /// A compare-and-set found another version.
    #[error("record {key:?} is at version {found}, not at {expected}; read it again and retry")]
    VersionConflict {
        /// The record.
        key: String,
        /// The version the caller expected (0: absent).
        expected: u64,
        /// The version it has (0: absent).
        found: u64,
    },
    /// This item is valid, but its all-or-nothing batch was refused because of another item.
    #[error("not stored: item {culprit} of this all-or-nothing batch was refused")]
    Aborted {
        /// Index of the first refused item.
        culprit: usize,
    },
    /// The engine does not have this capability.
    #[error("the {engine} engine has no {capability}; {hint}")]
    Unsupported {
        /// The engine's name.
        engine: &'static str,
        /// The missing capability.
        capability: Capability,
        /// The way out.
        hint: &'static str,
    },
    /// The store did not answer; the outcome is unknown and the call is safe to repeat.
    #[error("{store} is not answering: {reason}; the call is safe to repeat")]
    Unavailable {
        /// The store.
        store: String,
        /// The reason.
        reason: String,
    },
    /// Another open transaction holds a lock that this call needs and did not release it in time.
    #[error("{store} is busy: {reason}; nothing was done, repeat the call")]
    Busy {
        /// The store.
        store: String,
        /// What is locked, and how long the call waited.
        reason: String,
    },
    /// The store has no space left. Stored jobs can still be claimed, settled and removed.
    #[error("{store} has no room: {reason}; nothing was done, repeat the call later")]
    StoreFull {
        /// The store.
        store: String,
        /// What is full, and when there will be room.
        reason: String,
    },
    /// Another process owns the store, which allows only one owner.
    #[error("{store} is in use by process {pid}; {}", in_use_hint(address.as_deref()))]
    InUse {
        /// The store.
        store: String,
        /// The process that owns it.
        pid: u32,
        /// The address of that process, if it listens.
        address: Option<String>,
    },
    /// The request has no credentials or invalid ones. Nothing was done.
    #[error("unauthenticated: {reason}")]
    Unauthenticated {
        /// What is missing or wrong, and the way out. Never contains the credentials.
        reason: String,
    },
    /// The principal lacks the permission. Nothing was done.
    #[error(
        "{who} may not do this: it needs {needs}; ask for a key that may (`windlass keys create --may …`)"
    )]
    Forbidden {
        /// The name of the principal.
        who: String,
        /// The required permission, as written for keys.
        needs: String,
    },
    /// The store contains corrupt data.
    #[error("{store} contains corrupt data: {reason}; run `windlass check`")]
    Corrupt {
        /// The store.
        store: String,
        /// What was found.
        reason: String,
    },
}

impl Error {
    /// A stable code for the wire and for metrics.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid",
            Self::TooLarge { .. } => "too_large",
            Self::NotFound { .. } | Self::Missing { .. } => "not_found",
            Self::LeaseLost { .. } => "lease_lost",
            Self::SessionLost { .. } => "session_lost",
            Self::Duplicate { .. } => "duplicate",
            Self::Refused { .. } => "refused",
            Self::StateConflict { .. } => "state_conflict",
            Self::QueueFull { .. } => "queue_full",
            Self::TooFast { .. } => "too_fast",
            Self::VersionConflict { .. } => "version_conflict",
            Self::Aborted { .. } => "aborted",
            Self::Unsupported { .. } => "unsupported",
            Self::Unavailable { .. } => "unavailable",
            Self::Busy { .. } => "busy",
            Self::StoreFull { .. } => "store_full",
            Self::InUse { .. } => "in_use",
            Self::Unauthenticated { .. } => "unauthenticated",
            Self::Forbidden { .. } => "forbidden",
            Self::Corrupt { .. } => "corrupt",
        }
    }

    /// An error about an invalid field.
    pub fn invalid(
        field: impl Into<Cow<'static, str>>,
        value: impl std::fmt::Display,
        expected: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Invalid { field: field.into(), value: shown(value), expected: expected.into() }
    }

    /// An error about something that does not exist.
    pub fn missing(what: &'static str, name: impl Into<String>, hint: &'static str) -> Self {
        Self::Missing { what, name: name.into(), hint }
    }

    /// When to retry, if the error says so.
    pub const fn retry_after_ms(&self) -> Option<u64> {
        match self {
            Self::QueueFull { retry_after_ms, .. } => *retry_after_ms,
            Self::TooFast { retry_after_ms, .. } => Some(*retry_after_ms),
            _ => None,
        }
    }

    /// The field that this error is about, if any.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Invalid { field, .. } | Self::TooLarge { field, .. } => Some(field),
            _ => None,
        }
    }

    /// This error with `prefix` before its field, e.g. `follow_ups[2].kind`.
    #[must_use]
    pub fn within(mut self, prefix: impl std::fmt::Display) -> Self {
        if let Self::Invalid { field, .. } | Self::TooLarge { field, .. } = &mut self {
            *field = format!("{prefix}.{field}").into();
        }
        self
    }
}

/// Formats a value for an error message: quoted, control characters escaped, truncated to one line.
fn shown(value: impl std::fmt::Display) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    let text = value.to_string();
    let mut short: String =
        text.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        short.push('…');
    }
    format!("\"{short}\"")
}

/// The way out if another process owns the store.
fn in_use_hint(address: Option<&str>) -> String {
    match address {
        Some(address) => format!("connect to {address} instead, or stop that process"),
        None => "it listens nowhere: stop it, share its handle, or use another store".to_owned(),
    }
}

/// Checks `size` against a limit.
pub(crate) fn within_limit(
    field: impl Into<Cow<'static, str>>,
    size: usize,
    limit: usize,
    hint: &'static str,
) -> Result<()> {
    if size <= limit {
        return Ok(());
    }
    Err(Error::TooLarge { field: field.into(), size: size as u64, limit: limit as u64, hint })
}

/// Checks `value` against a range, both ends included.
pub fn within_range(
    field: &'static str,
    value: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    let expected = format!("it must be between {} and {}", range.start(), range.end());
    Err(Error::invalid(field, value, expected))
}

/// Checks that a duration is within a range of milliseconds.
pub fn within_time(
    field: &'static str,
    value: Duration,
    range_ms: std::ops::RangeInclusive<u64>,
) -> Result<()> {
    if range_ms.contains(&millis(value)) {
        return Ok(());
    }
    let [least, most] = [range_ms.start(), range_ms.end()].map(|ms| Duration::from_millis(*ms));
    let expected = format!("it must be between {least:?} and {most:?}");
    Err(Error::invalid(field, format_args!("{value:?}"), expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_or_odd_value_is_shown_short_and_escaped() {
        let error = Error::invalid("kind", "a\u{7}".repeat(100), "shorter");
        let text = error.to_string();
        assert!(text.starts_with("kind is \"a\\u{7}a"), "{text}");
        assert!(text.contains('…') && text.len() < 600, "{text}");
    }

    #[test]
    fn a_store_in_use_names_its_owner_and_its_address() {
        let held = |address| Error::InUse { store: "./jobs".into(), pid: 7, address };
        let text = held(Some("http://127.0.0.1:1".into())).to_string();
        assert!(text.contains("./jobs") && text.contains("process 7"), "{text}");
        assert!(text.contains("connect to http://127.0.0.1:1"), "{text}");
        assert!(held(None).to_string().contains("stop it"));
    }

    #[test]
    fn a_nested_error_names_the_whole_path() {
        let error = Error::invalid("kind", "", "not empty").within("follow_ups[2]");
        assert_eq!(error.field(), Some("follow_ups[2].kind"));
    }
}
