//! The stored formats of jobs: those that stores share, with errors that name this store, and lease tokens as UUIDs.

use crate::conn::error::corrupt;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use windlass_core::engine::Lease;
use windlass_core::model::{Input, Part, State};
use windlass_core::{Error, JobId, Result};
use windlass_workset::codec::{self, Damaged, StoredInput};
pub(crate) use windlass_workset::codec::{Spec, Tail, not_loaded};

#[expect(clippy::needless_pass_by_value, reason = "the shape that `map_err` takes")]
fn damaged(reason: Damaged) -> Error {
    corrupt(&reason)
}

/// A value as JSON; `None` for the default value.
pub(crate) fn to_text<T: Serialize + Default + PartialEq>(value: &T) -> Result<Option<String>> {
    codec::to_text(value).map_err(damaged)
}

/// A value as JSON.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<String> {
    codec::json(value).map_err(damaged)
}

/// The value of a JSON text; the default value for `None`.
pub(crate) fn from_text<T: for<'a> Deserialize<'a> + Default>(text: Option<&str>) -> Result<T> {
    codec::from_text(text).map_err(damaged)
}

/// A dependency as text, without the job that it waits for.
pub(crate) fn input_text(input: &Input) -> Result<Option<String>> {
    StoredInput::text(input).map_err(damaged)
}

/// The dependency on `job` with this text.
pub(crate) fn input(job: JobId, text: Option<&str>) -> Result<Input> {
    StoredInput::read(job, text).map_err(damaged)
}

pub(crate) fn envelope_text(part: &Part) -> Result<Option<String>> {
    codec::envelope_text(part).map_err(damaged)
}

pub(crate) fn part(bytes: Vec<u8>, envelope: Option<&str>) -> Result<Part> {
    codec::part(bytes, envelope).map_err(damaged)
}

pub(crate) fn state(code: i16) -> Result<State> {
    codec::state(code.into()).map_err(damaged)
}

/// A generated lease as it is stored; `None` for any other text.
pub(crate) fn token(lease: &Lease) -> Option<Uuid> {
    codec::token_bits(lease.as_str()).map(Uuid::from_u128)
}

/// The lease with this token.
pub(crate) fn lease(token: Uuid) -> Lease {
    Lease::new(token.simple().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::random::Seeded;

    #[test]
    fn generated_leases_are_read_back_and_others_are_not_stored() {
        let ours = Lease::random(&Seeded::new(3));
        assert_eq!(token(&ours).map(lease), Some(ours));
        assert_eq!(token(&Lease::new("0123456789ABCDEF0123456789ABCDEF")), None);
    }
}
