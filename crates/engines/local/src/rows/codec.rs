//! Stored formats of jobs: the formats shared with other stores, with errors that name this store, and the codes of
//! attempt ends.

use serde::{Deserialize, Serialize};
use windlass_core::model::{AttemptEnd, Part, State};
use windlass_core::{Error, Result};
use windlass_workset::codec::{self, Damaged};
pub(super) use windlass_workset::codec::{Spec, StoredInput, Tail, token_bits, token_of};

pub(super) fn corrupt(reason: &dyn std::fmt::Display) -> Error {
    Error::Corrupt { store: "the local store".into(), reason: reason.to_string() }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that `map_err` takes")]
fn damaged(reason: Damaged) -> Error {
    corrupt(&reason)
}

/// Encodes a value as JSON; `None` for the default value.
pub(super) fn to_text<T: Serialize + Default + PartialEq>(value: &T) -> Result<Option<String>> {
    codec::to_text(value).map_err(damaged)
}

/// Decodes JSON; the default value for `None`.
pub(super) fn from_text<T: for<'a> Deserialize<'a> + Default>(text: Option<&str>) -> Result<T> {
    codec::from_text(text).map_err(damaged)
}

pub(super) fn envelope_text(part: &Part) -> Result<Option<String>> {
    codec::envelope_text(part).map_err(damaged)
}

pub(super) fn part(bytes: Vec<u8>, envelope: Option<&str>) -> Result<Part> {
    codec::part(bytes, envelope).map_err(damaged)
}

pub(super) fn state(code: i64) -> Result<State> {
    codec::state(code).map_err(damaged)
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
