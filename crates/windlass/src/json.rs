//! Conversion between values and parts, as JSON. The only file of this crate that serializes or deserializes.

use crate::error::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use windlass_core::JobId;
use windlass_core::model::Part;

/// Serializes a value as a part; `job` identifies the job in error messages.
pub(crate) fn write<T>(job: impl Display, part: &'static str, value: &T) -> Result<Part>
where
    T: Serialize + ?Sized,
{
    let unwritable = |source| Error::Unwritable { job: job.to_string(), part, source };
    serde_json::to_vec(value).map(Part::new).map_err(unwritable)
}

/// Deserializes a part; a missing part reads as `null`.
pub(crate) fn read<T>(id: JobId, name: &'static str, part: Option<&Part>) -> Result<T>
where
    T: DeserializeOwned,
{
    let unreadable = |reason| Error::Unreadable { id, part: name, reason };
    let Some(part) = part else {
        let nothing = serde_json::from_value(serde_json::Value::Null);
        return nothing.map_err(|_| unreadable("there is none; read it as an Option".into()));
    };
    if let Some(envelope) = part.envelope() {
        return Err(unreadable(format!(
            "it is sealed ({envelope:?}): use the layers that wrote it"
        )));
    }
    serde_json::from_slice(&part.bytes).map_err(|error| unreadable(error.to_string()))
}
