//! Parts of a job: as JSON, byte for byte, if they are JSON; otherwise as base64.

#[cfg(feature = "openapi")]
use crate::openapi;
use crate::present;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::model::{self, Codec, Location, PartEdit};
use windlass_core::{Error, Result};

/// One part: `json` or `base64`, with its encoding if it is not plain.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The bytes, if they are JSON.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Json))]
    pub json: Option<Box<RawValue>>,
    /// The bytes in base64, if they are not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Base64>))]
    pub base64: Option<String>,
    /// Encoding and location of the bytes; plain if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope: Option<Envelope>,
}

/// Encoding and location of the bytes of a part.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// The encoding.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Codec))]
    pub codec: Codec,
    /// The location.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Location))]
    pub location: Location,
    /// Id of the key they are encrypted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
}

impl From<Envelope> for model::Envelope {
    fn from(envelope: Envelope) -> Self {
        let Envelope { codec, location, key_id } = envelope;
        model::EnvelopeFields { codec, location, key_id }.into()
    }
}

impl From<model::Envelope> for Envelope {
    fn from(envelope: model::Envelope) -> Self {
        let model::EnvelopeFields { codec, location, key_id } = envelope.into();
        Self { codec, location, key_id }
    }
}

/// The parts of a job, except for a plain payload or result.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// The input, if it is not plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Part>,
    /// The checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Part>,
    /// The large binary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<Part>,
    /// The application's notes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Part>,
    /// The result, if it is not plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Part>,
}

impl Parts {
    /// Splits the parts of a job: a plain payload goes into its own fields.
    pub(crate) fn spread(parts: model::Parts) -> (Option<Box<RawValue>>, Option<String>, Self) {
        let model::Parts { payload, checkpoint, blob, metadata } = parts;
        let (json, base64, payload) = spread(payload);
        let (checkpoint, blob) = (checkpoint.map(Into::into), blob.map(Into::into));
        let metadata = metadata.map(Into::into);
        (json, base64, Self { payload, checkpoint, blob, metadata, result: None })
    }

    /// Joins the parts of a job, with the payload from either place. A result is refused.
    pub(crate) fn gather(
        self,
        json: Option<Box<RawValue>>,
        base64: Option<String>,
    ) -> Result<model::Parts> {
        absent(&self.result, "parts.result", "only a completed job has a result")?;
        let part = |part: Option<Part>, field| part.map(|part| part.into_core(field)).transpose();
        Ok(model::Parts {
            payload: gather((json, base64, self.payload), "payload")?,
            checkpoint: part(self.checkpoint, "parts.checkpoint")?,
            blob: part(self.blob, "parts.blob")?,
            metadata: part(self.metadata, "parts.metadata")?,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        let Self { payload, checkpoint, blob, metadata, result } = self;
        [payload, checkpoint, blob, metadata, result].into_iter().all(Option::is_none)
    }
}

/// Changes to parts: absent keeps, `null` removes, other values replace.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PartEdits {
    /// The input.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Part>))]
    pub payload: Option<Option<Part>>,
    /// The checkpoint.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Part>))]
    pub checkpoint: Option<Option<Part>>,
    /// The large binary.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Part>))]
    pub blob: Option<Option<Part>>,
    /// The application's notes.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Part>))]
    pub metadata: Option<Option<Part>>,
    /// The result, if it is not plain; only for a completion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Part>,
}

impl PartEdits {
    pub(crate) fn is_empty(&self) -> bool {
        let Self { payload, checkpoint, blob, metadata, result } = self;
        let edits = [payload, checkpoint, blob, metadata];
        edits.into_iter().all(Option::is_none) && result.is_none()
    }

    /// Converts the edits that a worker may make; others are refused.
    pub(crate) fn into_core(self) -> Result<model::PartEdits> {
        absent(&self.result, "parts.result", "only `complete` has a result")?;
        let edits = model::PartEditsFields {
            payload: edit_in(self.payload, "parts.payload")?,
            checkpoint: edit_in(self.checkpoint, "parts.checkpoint")?,
            metadata: edit_in(self.metadata, "parts.metadata")?,
            blob: edit_in(self.blob, "parts.blob")?,
        };
        Ok(edits.into())
    }
}

impl From<model::PartEdits> for PartEdits {
    fn from(edits: model::PartEdits) -> Self {
        let model::PartEditsFields { payload, checkpoint, metadata, blob } = edits.into();
        let (payload, checkpoint) = (edit_out(payload), edit_out(checkpoint));
        let (blob, metadata) = (edit_out(blob), edit_out(metadata));
        Self { payload, checkpoint, blob, metadata, result: None }
    }
}

pub(crate) fn edit_in(edit: Option<Option<Part>>, field: &'static str) -> Result<PartEdit> {
    match edit {
        None => Ok(PartEdit::Keep),
        Some(None) => Ok(PartEdit::Unset),
        Some(Some(part)) => part.into_core(field).map(PartEdit::Set),
    }
}

pub(crate) fn edit_out(edit: PartEdit) -> Option<Option<Part>> {
    match edit {
        PartEdit::Keep => None,
        PartEdit::Unset => Some(None),
        PartEdit::Set(part) => Some(Some(part.into())),
    }
}

/// Refuses a field that does not apply here.
pub(crate) fn absent<T>(value: &Option<T>, field: &'static str, why: &'static str) -> Result<()> {
    match value {
        Some(_) => Err(Error::invalid(field, "given", why)),
        None => Ok(()),
    }
}

impl Part {
    pub(crate) fn into_core(self, field: &'static str) -> Result<model::Part> {
        let bytes = bytes_in(self.json, self.base64, field)?;
        let bytes = bytes.ok_or_else(|| {
            Error::invalid(field, "{}", "give `json`, or `base64` for bytes that are not JSON")
        })?;
        Ok(match self.envelope {
            Some(envelope) => model::Part::sealed(envelope.into(), bytes),
            None => model::Part::new(bytes),
        })
    }
}

impl From<model::Part> for Part {
    fn from(part: model::Part) -> Self {
        let envelope = part.envelope().cloned().map(Into::into);
        let (json, base64) = bytes_out(&part.bytes);
        Self { json, base64, envelope }
    }
}

/// A part as three fields of a job: plain JSON, plain bytes, or sealed among its `parts`.
pub(crate) type Spread = (Option<Box<RawValue>>, Option<String>, Option<Part>);

/// Splits a part into its three possible fields; at most one is set.
pub(crate) fn spread(part: Option<model::Part>) -> Spread {
    match part {
        None => (None, None, None),
        Some(part) if part.envelope().is_some() => (None, None, Some(part.into())),
        Some(part) => {
            let (json, base64) = bytes_out(&part.bytes);
            (json, base64, None)
        }
    }
}

/// Joins a part from its three possible fields.
pub(crate) fn gather(parts: Spread, field: &'static str) -> Result<Option<model::Part>> {
    let (json, base64, sealed) = parts;
    match (bytes_in(json, base64, field)?, sealed) {
        (Some(_), Some(_)) => Err(Error::invalid(field, "given twice", "give it once")),
        (Some(bytes), None) => Ok(Some(model::Part::new(bytes))),
        (None, Some(part)) => part.into_core(field).map(Some),
        (None, None) => Ok(None),
    }
}

/// Encodes bytes as JSON, byte for byte, if they are JSON; otherwise as base64. JSON nested deeper
/// than the limit is sent as base64 too, as it would make the whole response unparsable.
pub(crate) fn bytes_out(bytes: &Bytes) -> (Option<Box<RawValue>>, Option<String>) {
    let text = std::str::from_utf8(bytes).ok().filter(|_| model::too_deep(bytes).is_none());
    let json = text.and_then(|text| {
        let json: &RawValue = serde_json::from_str(text).ok()?;
        // Surrounding white space would be lost.
        (json.get().len() == text.len()).then(|| json.to_owned())
    });
    match json {
        Some(json) => (Some(json), None),
        None => (None, Some(STANDARD.encode(bytes))),
    }
}

/// Decodes bytes from JSON or base64.
pub(crate) fn bytes_in(
    json: Option<Box<RawValue>>,
    base64: Option<String>,
    field: &'static str,
) -> Result<Option<Bytes>> {
    match (json, base64) {
        (Some(_), Some(_)) => {
            Err(Error::invalid(field, "given twice", "give it as JSON or as base64, not both"))
        }
        (Some(json), None) => Ok(Some(Bytes::from(Box::<str>::from(json).into_string()))),
        (None, Some(text)) => {
            STANDARD.decode(&text).map(|bytes| Some(bytes.into())).map_err(|error| {
                Error::invalid(field, text, format!("it must be base64 with padding: {error}"))
            })
        }
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn there_and_back(bytes: &[u8]) -> (bool, Bytes) {
        let part = Part::from(model::Part::new(bytes.to_vec()));
        let is_json = part.json.is_some();
        let back: Part = crate::read(&crate::write(&part)).unwrap();
        (is_json, back.into_core("payload").unwrap().bytes)
    }

    #[test]
    fn json_travels_as_json_and_to_the_byte() {
        for text in
            ["null", r#"{"a" : [1,  2.50, 1e400], "a":"\u00e9\ud800"}"#, "\"\u{2028}\"", "-0"]
        {
            assert_eq!(there_and_back(text.as_bytes()), (true, Bytes::from(text)));
        }
        for text in ["", " 1", "1\n", "{", "nul", "\u{feff}1"] {
            assert_eq!(there_and_back(text.as_bytes()), (false, Bytes::from(text)), "{text:?}");
        }
        assert!(!there_and_back(b"\"\xff\"").0);
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(there_and_back(deep.as_bytes()), (false, Bytes::from(deep.clone())));
    }

    #[test]
    fn a_part_given_twice_or_not_at_all_is_refused() {
        for text in [r#"{"json": 1, "base64": ""}"#, "{}", r#"{"base64": "?"}"#] {
            let part: Part = crate::read(text.as_bytes()).unwrap();
            assert_eq!(part.into_core("blob").unwrap_err().field(), Some("blob"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_arrive_as_they_were_sent(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(&there_and_back(&bytes).1, &bytes);
        }

        #[test]
        fn any_text_arrives_as_it_was_sent(text in "[ \\[\\]{}\",:0-9a-e\\\\\n]{0,12}") {
            prop_assert_eq!(&there_and_back(text.as_bytes()).1, text.as_bytes());
        }
    }
}
