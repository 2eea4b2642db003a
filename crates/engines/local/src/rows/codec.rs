//! How a job is written: numbers for states and flags, JSON for what few jobs have.

use serde::{Deserialize, Serialize};
use windlass_core::engine::Lease;
use windlass_core::model::{
    Attempt, AttemptEnd, Envelope, Finish, JobError, LogLine, Part, Policy, Progress, State,
};
use windlass_core::policy::Unique;
use windlass_core::{Error, JobId, Result};

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
    /// Ended attempts before the latest, which is in the body.
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

/// The bits of a token that is 32 hexadecimal digits.
pub(super) fn token_bits(text: &str) -> Option<u128> {
    let (high, low) = <&[u8; 32]>::try_from(text.as_bytes()).ok()?.split_at(16);
    Some(u128::from(hex(high)?) << 64 | u128::from(hex(low)?))
}

/// Sixteen digits at a time, as that is a word of the machine.
fn hex(digits: &[u8]) -> Option<u64> {
    let lower = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    // The low bits of a letter count from one.
    let value = |byte: &u8| u64::from((byte & 0x0F) + 9 * (byte >> 6));
    let ours = digits.iter().all(lower);
    ours.then(|| digits.iter().fold(0, |bits, byte| bits << 4 | value(byte)))
}

/// The token with these bits.
pub(super) fn token_of(bits: u128) -> String {
    format!("{bits:032x}")
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

pub(super) fn attempt_end(code: u8) -> Result<AttemptEnd> {
    let known = ENDS.get(usize::from(code));
    known.copied().ok_or_else(|| corrupt(&format_args!("no attempt ends with number {code}")))
}

pub(super) fn attempt_end_code(end: AttemptEnd) -> Result<u8> {
    let code = ENDS.iter().position(|known| *known == end);
    code.map(|code| code as u8).ok_or_else(|| corrupt(&format_args!("unknown end {end:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tokens_that_read_back_as_they_were_are_packed() {
        let ours = "0123456789abcdef0123456789abcdef";
        assert_eq!(token_bits(ours).map(token_of).as_deref(), Some(ours));
        for other in
            ["0123456789ABCDEF0123456789ABCDEF", "", "x", "+123456789abcdef0123456789abcdef"]
        {
            assert_eq!(token_bits(other), None, "{other}");
        }
    }
}
