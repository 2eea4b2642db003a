//! Errors as RFC 9457 problems, which convert back to the identical core error.

use crate::intern::intern;
use serde::{Deserialize, Serialize};
use windlass_core::engine::Capability;
use windlass_core::machine::EventKind;
use windlass_core::model::State;
use windlass_core::{Error, JobId};

/// A core error with its fields, tagged by its stable `code`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
#[expect(missing_docs, reason = "documented at the variants of `windlass_core::Error`")]
pub enum Fault {
    Invalid {
        field: String,
        value: String,
        expected: String,
    },
    TooLarge {
        field: String,
        size: u64,
        limit: u64,
        hint: String,
    },
    /// A job by its id, or anything else by its name.
    NotFound {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<JobId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        what: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
    },
    LeaseLost {
        id: JobId,
    },
    SessionLost {
        session: String,
    },
    Duplicate {
        key: String,
        holder: JobId,
    },
    Refused {
        id: JobId,
        state: State,
        event: String,
        hint: String,
    },
    StateConflict {
        id: JobId,
        expected: State,
        #[serde(rename = "state")]
        found: State,
    },
    QueueFull {
        queue: String,
        depth: u64,
        limit: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    TooFast {
        who: String,
        limit: u64,
        retry_after_ms: u64,
    },
    VersionConflict {
        key: String,
        expected: u64,
        found: u64,
    },
    Aborted {
        culprit: usize,
    },
    Unsupported {
        engine: String,
        capability: String,
        hint: String,
    },
    Unavailable {
        store: String,
        reason: String,
    },
    Busy {
        store: String,
        reason: String,
    },
    StoreFull {
        store: String,
        reason: String,
    },
    InUse {
        store: String,
        pid: u32,
        address: Option<String>,
    },
    Unauthenticated {
        reason: String,
    },
    Forbidden {
        who: String,
        needs: String,
    },
    Corrupt {
        store: String,
        reason: String,
    },
}

/// An error as the body of a reply: `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// URI of the problem type: `urn:windlass:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The HTTP status, repeated for clients that see only the body.
    pub status: u16,
    /// Human-readable description of the problem and its solution.
    pub detail: String,
    /// The machine-readable error.
    #[serde(flatten)]
    pub fault: Fault,
}

impl Problem {
    /// The problem for `error`.
    pub fn new(error: Error) -> Self {
        let (kind, detail) = (format!("urn:windlass:{}", error.code()), error.to_string());
        let fault = Fault::from(error);
        Self { kind, status: fault.status(), detail, fault }
    }
}

impl Fault {
    /// The HTTP status of this error.
    pub const fn status(&self) -> u16 {
        match self {
            Self::Invalid { .. } | Self::Unsupported { .. } => 422,
            Self::TooLarge { .. } => 413,
            Self::NotFound { .. } => 404,
            Self::LeaseLost { .. }
            | Self::SessionLost { .. }
            | Self::Duplicate { .. }
            | Self::Refused { .. }
            | Self::StateConflict { .. }
            | Self::VersionConflict { .. }
            | Self::Aborted { .. } => 409,
            Self::QueueFull { .. } | Self::TooFast { .. } => 429,
            Self::Unavailable { .. }
            | Self::Busy { .. }
            | Self::StoreFull { .. }
            | Self::InUse { .. } => 503,
            Self::Unauthenticated { .. } => 401,
            Self::Forbidden { .. } => 403,
            Self::Corrupt { .. } => 500,
        }
    }

    /// Converts to the core error.
    pub fn into_core(self) -> Error {
        match self {
            Self::Invalid { field, value, expected } => {
                Error::Invalid { field: field.into(), value, expected: expected.into() }
            }
            Self::TooLarge { field, size, limit, hint } => {
                Error::TooLarge { field: field.into(), size, limit, hint: known(&hint) }
            }
            Self::NotFound { id: Some(id), .. } => Error::NotFound { id },
            Self::NotFound { id: None, what, name, hint } => Error::Missing {
                what: intern(&what.unwrap_or_default(), "resource"),
                name: name.unwrap_or_default(),
                hint: known(&hint.unwrap_or_default()),
            },
            Self::LeaseLost { id } => Error::LeaseLost { id },
            Self::SessionLost { session } => Error::SessionLost { session },
            Self::Duplicate { key, holder } => Error::Duplicate { key, holder },
            Self::Refused { id, state, event, hint } => match EventKind::named(&event) {
                Some(event) => Error::Refused { id, state, event, hint: known(&hint) },
                None => Error::invalid("event", event, "this client is older than the server"),
            },
            Self::StateConflict { id, expected, found } => {
                Error::StateConflict { id, expected, found }
            }
            Self::QueueFull { queue, depth, limit, retry_after_ms } => {
                Error::QueueFull { queue, depth, limit, retry_after_ms }
            }
            Self::TooFast { who, limit, retry_after_ms } => {
                Error::TooFast { who, limit, retry_after_ms }
            }
            Self::VersionConflict { key, expected, found } => {
                Error::VersionConflict { key, expected, found }
            }
            Self::Aborted { culprit } => Error::Aborted { culprit },
            Self::Unsupported { engine, capability, hint } => match capability_named(&capability) {
                Some(capability) => {
                    let engine = intern(&engine, "remote");
                    Error::Unsupported { engine, capability, hint: known(&hint) }
                }
                None => Error::invalid("capability", capability, "the server does not have it"),
            },
            Self::Unavailable { store, reason } => Error::Unavailable { store, reason },
            Self::Busy { store, reason } => Error::Busy { store, reason },
            Self::StoreFull { store, reason } => Error::StoreFull { store, reason },
            Self::InUse { store, pid, address } => Error::InUse { store, pid, address },
            Self::Unauthenticated { reason } => Error::Unauthenticated { reason },
            Self::Forbidden { who, needs } => Error::Forbidden { who, needs },
            Self::Corrupt { store, reason } => Error::Corrupt { store, reason },
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid { field, value, expected } => {
                Self::Invalid { field: field.into(), value, expected: expected.into() }
            }
            Error::TooLarge { field, size, limit, hint } => {
                Self::TooLarge { field: field.into(), size, limit, hint: hint.into() }
            }
            Error::NotFound { id } => {
                Self::NotFound { id: Some(id), what: None, name: None, hint: None }
            }
            Error::Missing { what, name, hint } => Self::NotFound {
                id: None,
                what: Some(what.to_owned()),
                name: Some(name),
                hint: Some(hint.to_owned()),
            },
            Error::LeaseLost { id } => Self::LeaseLost { id },
            Error::SessionLost { session } => Self::SessionLost { session },
            Error::Duplicate { key, holder } => Self::Duplicate { key, holder },
            Error::Refused { id, state, event, hint } => {
                Self::Refused { id, state, event: event.name().to_owned(), hint: hint.into() }
            }
            Error::StateConflict { id, expected, found } => {
                Self::StateConflict { id, expected, found }
            }
            Error::QueueFull { queue, depth, limit, retry_after_ms } => {
                Self::QueueFull { queue, depth, limit, retry_after_ms }
            }
            Error::TooFast { who, limit, retry_after_ms } => {
                Self::TooFast { who, limit, retry_after_ms }
            }
            Error::VersionConflict { key, expected, found } => {
                Self::VersionConflict { key, expected, found }
            }
            Error::Aborted { culprit } => Self::Aborted { culprit },
            Error::Unsupported { engine, capability, hint } => Self::Unsupported {
                engine: engine.into(),
                capability: capability_name(capability).into(),
                hint: hint.into(),
            },
            Error::Unavailable { store, reason } => Self::Unavailable { store, reason },
            Error::Busy { store, reason } => Self::Busy { store, reason },
            Error::StoreFull { store, reason } => Self::StoreFull { store, reason },
            Error::InUse { store, pid, address } => Self::InUse { store, pid, address },
            Error::Unauthenticated { reason } => Self::Unauthenticated { reason },
            Error::Forbidden { who, needs } => Self::Forbidden { who, needs },
            Error::Corrupt { store, reason } => Self::Corrupt { store, reason },
            // Core may add errors; one without a wire form keeps at least its message.
            other => Self::Corrupt { store: "the store".to_owned(), reason: other.to_string() },
        }
    }
}

/// Interns a hint received from a peer.
fn known(hint: &str) -> &'static str {
    intern(hint, "see the server's own message")
}

/// The name of a capability on the wire; stable, unlike core's display names.
pub(crate) const fn capability_name(capability: Capability) -> &'static str {
    match capability {
        Capability::GlobalUnique => "global_unique",
        Capability::FairOrder => "fair_order",
        Capability::Move => "move",
        Capability::Limits => "limits",
        Capability::Flows => "flows",
        Capability::Events => "events",
        Capability::Topics => "topics",
        _ => "unknown",
    }
}

pub(crate) fn capability_named(name: &str) -> Option<Capability> {
    Capability::ALL.into_iter().find(|capability| capability_name(*capability) == name)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One error of each variant.
    pub(crate) fn errors() -> Vec<Error> {
        let id = JobId::from_bytes([7; 16]);
        let hint = "the way out";
        let mut errors = vec![
            Error::invalid("jobs[3].kind", "a b", "use letters"),
            Error::TooLarge { field: "blob".into(), size: 2, limit: 1, hint },
            Error::NotFound { id },
            Error::missing("schedule", "daily", hint),
            Error::LeaseLost { id },
            Error::SessionLost { session: "ü".into() },
            Error::Duplicate { key: "k\"".into(), holder: id },
            Error::QueueFull { queue: "mail".into(), depth: 9, limit: 8, retry_after_ms: None },
            Error::QueueFull { queue: "m".into(), depth: 9, limit: 8, retry_after_ms: Some(7) },
            Error::TooFast { who: "billing".into(), limit: 8, retry_after_ms: 7 },
            Error::VersionConflict { key: "a".into(), expected: 0, found: u64::MAX },
            Error::StateConflict { id, expected: State::Dead, found: State::Available },
            Error::Aborted { culprit: 4 },
            Error::Unavailable { store: "s".into(), reason: "r".into() },
            Error::Busy { store: "s".into(), reason: "r".into() },
            Error::StoreFull { store: "s".into(), reason: "r".into() },
            Error::InUse { store: "s".into(), pid: 1, address: None },
            Error::InUse { store: "s".into(), pid: 1, address: Some("http://x".into()) },
            Error::Unauthenticated { reason: "r".into() },
            Error::Forbidden { who: "w".into(), needs: "view".into() },
            Error::Corrupt { store: "s".into(), reason: "r".into() },
        ];
        for event in EventKind::ALL {
            errors.extend(State::ALL.map(|state| Error::Refused { id, state, event, hint }));
        }
        for capability in Capability::ALL {
            errors.push(Error::Unsupported { engine: "memory", capability, hint });
        }
        errors
    }

    #[test]
    fn every_error_arrives_as_it_was_sent() {
        for error in errors() {
            let text = crate::write(&Problem::new(error.clone()));
            let problem: Problem = crate::read(&text).unwrap();
            assert_eq!(problem.detail, error.to_string());
            assert_eq!(problem.kind, format!("urn:windlass:{}", error.code()));
            assert_eq!(problem.fault.into_core(), error);
            let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
            assert_eq!(json["code"], error.code());
        }
    }
}
