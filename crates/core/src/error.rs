//! What can go wrong, in words a person can act on: the thing, the value, the way out.

use crate::engine::Capability;
use crate::id::JobId;
use crate::machine::EventKind;
use crate::model::State;
use std::borrow::Cow;

/// A result with our [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Every failure an engine or a policy answers with.
///
/// Match on the variant, or on [`Error::code`] across the wire. An error about one item of a batch
/// comes in that item's place; an error of the whole call means that nothing of it was done
/// ([`Error::Unavailable`] excepted, where the outcome is unknown and the call should be repeated:
/// ids, claim numbers and leases make every verb safe to repeat).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A field holds a value it cannot have.
    #[error("{field} is {value}: {expected}")]
    Invalid {
        /// The field, by its path in the request.
        field: Cow<'static, str>,
        /// What it held, shortened for display.
        value: String,
        /// What it must be instead.
        expected: Cow<'static, str>,
    },
    /// Something is bigger than its limit.
    #[error("{field} has size {size}, the limit is {limit}; {hint}")]
    TooLarge {
        /// The field, by its path in the request.
        field: Cow<'static, str>,
        /// Its size or count.
        size: u64,
        /// The named limit it crossed.
        limit: u64,
        /// The way out.
        hint: &'static str,
    },
    /// No such job; it never existed, or its retention is over.
    #[error("job {id} does not exist: never enqueued here, or already past its retention")]
    NotFound {
        /// The id asked for.
        id: JobId,
    },
    /// The lease is not the job's current one. Whatever the worker did is not recorded.
    #[error(
        "the lease on job {id} is lost: it ran out, or the job was cancelled or given to another \
         worker; drop this attempt"
    )]
    LeaseLost {
        /// The job.
        id: JobId,
    },
    /// The session ran out or never existed.
    #[error("session {session} is gone: it was not heartbeaten in time; open a new one")]
    SessionLost {
        /// The session.
        session: String,
    },
    /// Another job holds the unique key and the newcomer asked to be rejected.
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
        /// What was asked of it.
        event: EventKind,
        /// The way out.
        hint: &'static str,
    },
    /// A change was asked for a job in one state, and the job is in another. Nothing was changed.
    #[error(
        "job {id} is {found}, not {expected}: nothing was changed; read the job again and decide anew"
    )]
    StateConflict {
        /// The job.
        id: JobId,
        /// The state that the request named.
        expected: State,
        /// The state the job is in.
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
        /// Its `max_depth`, or what a server lets wait in a queue that has none.
        limit: u64,
        /// When there may be room, where somebody knows how fast it drains.
        retry_after_ms: Option<u64>,
    },
    /// Somebody hands over more jobs per second than it may.
    #[error(
        "{who} hands over more than {limit} jobs per second; slow down, and repeat this after \
         {retry_after_ms} ms"
    )]
    TooFast {
        /// Who.
        who: String,
        /// Jobs per second it may hand over.
        limit: u64,
        /// When the next may come.
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
    /// This item was fine, but its all-or-nothing batch was refused because of another.
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
        /// What it lacks.
        capability: Capability,
        /// The way out.
        hint: &'static str,
    },
    /// The store did not answer; the outcome is unknown and the call is safe to repeat.
    #[error("{store} is not answering: {reason}; the call is safe to repeat")]
    Unavailable {
        /// Which store.
        store: String,
        /// What it said.
        reason: String,
    },
    /// Something this call needs is held by another transaction that is still open, and it was not let
    /// go of in time.
    #[error("{store} is busy: {reason}; nothing was done, repeat the call")]
    Busy {
        /// Which store.
        store: String,
        /// What is held, and how long it was waited for.
        reason: String,
    },
    /// The store has no space for this. Stored jobs can still be claimed, settled and removed.
    #[error("{store} has no room: {reason}; nothing was done, repeat the call later")]
    StoreFull {
        /// Which store.
        store: String,
        /// What is full, and when there is room again.
        reason: String,
    },
    /// Another process owns the store, and only one can.
    #[error("{store} is in use by process {pid}; {}", in_use_hint(address.as_deref()))]
    InUse {
        /// Which store.
        store: String,
        /// The process that owns it.
        pid: u32,
        /// Where that process can be talked to, if it listens.
        address: Option<String>,
    },
    /// Nobody said who asks, or nobody is let in with what was shown. Nothing was done.
    #[error("not let in: {reason}")]
    Unauthenticated {
        /// What was missing or wrong, and the way out. Never what was shown.
        reason: String,
    },
    /// Whoever asks may not do this. Nothing was done.
    #[error(
        "{who} may not do this: it needs {needs}; ask for a key that may (`windlass keys create --may …`)"
    )]
    Forbidden {
        /// Who asks, by name.
        who: String,
        /// What it would take, as a key's permissions are written.
        needs: String,
    },
    /// The store holds something it should not.
    #[error("{store} holds bad data: {reason}; run `windlass check`")]
    Corrupt {
        /// Which store.
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
            Self::NotFound { .. } => "not_found",
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

    /// A field with a value it cannot have.
    pub fn invalid(
        field: impl Into<Cow<'static, str>>,
        value: impl std::fmt::Display,
        expected: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Invalid { field: field.into(), value: shown(value), expected: expected.into() }
    }

    /// When the same is worth another try, where whoever refused it said so.
    pub const fn retry_after_ms(&self) -> Option<u64> {
        match self {
            Self::QueueFull { retry_after_ms, .. } => *retry_after_ms,
            Self::TooFast { retry_after_ms, .. } => Some(*retry_after_ms),
            _ => None,
        }
    }

    /// The field this error names, where it names one.
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

/// A value as an error shows it: quoted, control characters escaped, and never longer than a line.
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

/// The way out for somebody who found a store owned by another process.
fn in_use_hint(address: Option<&str>) -> String {
    match address {
        Some(address) => format!("connect to {address} instead, or stop that process"),
        None => "it listens nowhere: stop it, share its handle, or use another store".to_owned(),
    }
}

/// `size` checked against a limit.
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

/// `value` checked against a range, both ends included.
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
    fn a_store_in_use_says_by_whom_and_where_to_go() {
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
