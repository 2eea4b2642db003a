//! How a job is written: numbers for states and flags, JSON for what few jobs have.

use rusqlite::types::Value;
use serde::{Deserialize, Serialize};
use windlass_core::engine::Lease;
use windlass_core::model::{
    Attempt, AttemptEnd, Envelope, Finish, JobError, LogLine, Part, Policy, Progress, State,
};
use windlass_core::policy::Unique;
use windlass_core::{Error, JobId, Result};

/// Bits of the `flags` column.
pub(super) mod flag {
    /// Somebody asked to cancel it while it ran.
    pub(in crate::rows) const CANCEL_REQUESTED: i64 = 1;
    /// It waits for a signal.
    pub(in crate::rows) const WAITS: i64 = 2;
    /// A signal came before it waited.
    pub(in crate::rows) const SIGNALLED: i64 = 4;
    /// It holds its ordering key.
    pub(in crate::rows) const HOLDS_KEY: i64 = 8;
    /// It has rows in `part`.
    pub(in crate::rows) const HAS_PARTS: i64 = 16;
}

/// What a producer may say of a job and seldom does.
#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Spec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unique: Option<Unique>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<JobId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trace: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) policy: Policy,
}

fn is_default(policy: &Policy) -> bool {
    *policy == Policy::default()
}

/// What may have become of a job and seldom has.
#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Tail {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finish: Option<Finish>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<JobError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) progress: Option<Progress>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) log: Vec<LogLine>,
    /// Ended attempts before the latest, which has columns of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) past: Vec<(Lease, Attempt)>,
    /// The error of the latest ended attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) attempt_error: Option<JobError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<StoredPart>,
    /// The policy, where a replay has changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) policy: Option<Policy>,
}

/// A part inside JSON; results are small.
#[derive(PartialEq, Serialize, Deserialize)]
pub(super) struct StoredPart {
    bytes: Vec<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    envelope: Option<Envelope>,
}

impl From<&Part> for StoredPart {
    fn from(part: &Part) -> Self {
        Self { bytes: part.bytes.to_vec(), envelope: part.envelope().cloned() }
    }
}

impl From<StoredPart> for Part {
    fn from(stored: StoredPart) -> Self {
        Self::sealed(stored.envelope.unwrap_or_default(), stored.bytes)
    }
}

/// The text of a value, or nothing for the usual one.
pub(super) fn to_text<T: Serialize + Default + PartialEq>(value: &T) -> Result<Option<String>> {
    if *value == T::default() {
        return Ok(None);
    }
    serde_json::to_string(value).map(Some).map_err(|error| corrupt(&error))
}

/// The value of a text, the usual one for nothing.
pub(super) fn from_text<T: for<'a> Deserialize<'a> + Default>(text: Option<&str>) -> Result<T> {
    text.map_or_else(
        || Ok(T::default()),
        |text| serde_json::from_str(text).map_err(|error| corrupt(&error)),
    )
}

pub(super) fn corrupt(reason: &dyn std::fmt::Display) -> Error {
    Error::Corrupt { store: "the local store".into(), reason: reason.to_string() }
}

/// A token in as few bytes as it can be: 32 hexadecimal digits are 16 bytes, anything else is text.
pub(super) fn token(text: &str) -> Value {
    match token_bits(text) {
        Some(bits) => Value::Blob(bits.to_be_bytes().to_vec()),
        None => Value::Text(text.to_owned()),
    }
}

/// The bits of a token that is 32 hexadecimal digits.
pub(super) fn token_bits(text: &str) -> Option<u128> {
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let ours = text.len() == 32 && text.as_bytes().iter().all(is_hex);
    u128::from_str_radix(text, 16).ok().filter(|_| ours)
}

/// The token with these bits.
pub(super) fn token_of(bits: u128) -> String {
    format!("{bits:032x}")
}

/// The text of a stored token.
pub(super) fn token_text(stored: Value) -> Result<String> {
    match stored {
        Value::Text(text) => Ok(text),
        Value::Blob(bytes) => match <[u8; 16]>::try_from(bytes) {
            Ok(bytes) => Ok(token_of(u128::from_be_bytes(bytes))),
            Err(_) => Err(corrupt(&"a token that is not 16 bytes long")),
        },
        other => Err(corrupt(&format_args!("a token that is {other:?}"))),
    }
}

pub(super) fn envelope_text(part: &Part) -> Result<Option<String>> {
    let text = part.envelope().map(serde_json::to_string).transpose();
    text.map_err(|error| corrupt(&error))
}

pub(super) fn part(bytes: Vec<u8>, envelope: Option<&str>) -> Result<Part> {
    Ok(match envelope {
        Some(_) => Part::sealed(from_text(envelope)?, bytes),
        None => Part::new(bytes),
    })
}

pub(super) fn state(code: i64) -> Result<State> {
    let known = usize::try_from(code).ok().and_then(|code| State::ALL.get(code));
    known.copied().ok_or_else(|| corrupt(&format_args!("no state has the number {code}")))
}

const ENDS: [AttemptEnd; 8] = [
    AttemptEnd::Complete,
    AttemptEnd::Retry,
    AttemptEnd::Snooze,
    AttemptEnd::Fail,
    AttemptEnd::Release,
    AttemptEnd::Wait,
    AttemptEnd::Cancel,
    AttemptEnd::Lost,
];

pub(super) fn attempt_end(code: i64) -> Result<AttemptEnd> {
    let known = usize::try_from(code).ok().and_then(|code| ENDS.get(code));
    known.copied().ok_or_else(|| corrupt(&format_args!("no attempt ends with number {code}")))
}

pub(super) fn attempt_end_code(end: AttemptEnd) -> Result<i64> {
    let code = ENDS.iter().position(|known| *known == end);
    code.map(|code| code as i64).ok_or_else(|| corrupt(&format_args!("unknown end {end:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_read_back_as_they_were_whatever_their_form() {
        let odd = ["0123456789abcdef0123456789abcdef", "0123456789ABCDEF0123456789ABCDEF", "", "x"];
        for text in odd.into_iter().chain(["alone:abc", "+123456789abcdef0123456789abcdef"]) {
            assert_eq!(token_text(token(text)).unwrap(), text);
        }
        assert!(matches!(token(odd[0]), Value::Blob(bytes) if bytes.len() == 16));
    }
}
