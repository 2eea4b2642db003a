//! The four byte parts of a job, each in an envelope that describes its encoding.

use crate::error::{Result, within_limit};
use crate::growing::growing;
use crate::limits;
use crate::model::nesting::check_depth;
use crate::name::check_text;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The name of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartName {
    /// The input, JSON by default.
    Payload,
    /// The checkpoint that is passed between attempts, for example a VM snapshot.
    Checkpoint,
    /// A large binary.
    Blob,
    /// Any data that the application wants to store with the job.
    Metadata,
}

impl PartName {
    /// All four parts.
    pub const ALL: [Self; 4] = [Self::Payload, Self::Checkpoint, Self::Blob, Self::Metadata];

    /// The name on the wire and in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Payload => "payload",
            Self::Checkpoint => "checkpoint",
            Self::Blob => "blob",
            Self::Metadata => "metadata",
        }
    }

    /// Maximum size in bytes, given the payload limit `payload_bytes_max`.
    pub const fn bytes_max(self, payload_bytes_max: usize) -> usize {
        match self {
            Self::Payload => payload_bytes_max,
            Self::Checkpoint => limits::CHECKPOINT_BYTES_MAX,
            Self::Blob => limits::BLOB_BYTES_MAX,
            Self::Metadata => limits::METADATA_BYTES_MAX,
        }
    }
}

/// A set of part names: the parts that a claim or a read loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartSet(u8);

impl PartSet {
    /// No parts: the cheapest claim.
    pub const NONE: Self = Self(0);
    /// Only the payload, which is all that most handlers need.
    pub const PAYLOAD: Self = Self(1 << PartName::Payload as u8);
    /// All four parts.
    pub const ALL: Self = Self(0b1111);

    /// Adds `part` to this set.
    #[must_use]
    pub const fn with(self, part: PartName) -> Self {
        Self(self.0 | 1 << part as u8)
    }

    /// Whether `part` is in it.
    pub const fn has(self, part: PartName) -> bool {
        self.0 & (1 << part as u8) != 0
    }
}

/// How the bytes of a part are encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Codec {
    /// The application's bytes, unchanged.
    #[default]
    Plain,
    /// Compressed with Zstandard.
    Zstd,
    /// A codec that this version does not know; passed through unchanged.
    Other(String),
}

/// Where the bytes of a part are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Location {
    /// In the part itself.
    #[default]
    Inline,
    /// At an address in another store; the part's own bytes are empty.
    At(String),
}

growing! {
    /// How to turn the stored bytes back into the application's bytes.
    ///
    /// Written by layers that compress, encrypt or offload, so that any set of layers that reads the job later
    /// knows what was done. Engines store and return it unchanged.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Envelope as EnvelopeFields {
        /// How the bytes are encoded.
        pub codec: Codec,
        /// Where they are.
        pub location: Location,
        /// The id of the encryption key.
        pub key_id: Option<String>,
    }
}

impl Envelope {
    /// Unencoded bytes of the application.
    pub const PLAIN: Self = Self { codec: Codec::Plain, location: Location::Inline, key_id: None };

    /// Sets the encoding.
    #[must_use]
    pub fn with_codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// Sets the location.
    #[must_use]
    pub fn with_location(mut self, location: Location) -> Self {
        self.location = location;
        self
    }

    /// Sets the id of the encryption key.
    #[must_use]
    pub fn with_key_id(mut self, key_id: impl Into<String>) -> Self {
        self.key_id = Some(key_id.into());
        self
    }
}

/// Bytes of a job in their envelope. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The bytes as stored.
    pub bytes: Bytes,
    /// The envelope; `None` for plain bytes, which are the common case, to keep jobs small.
    envelope: Option<Box<Envelope>>,
}

impl Part {
    /// Plain bytes of the application.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self { envelope: None, bytes: bytes.into() }
    }

    /// Bytes encoded as described by `envelope`.
    pub fn sealed(envelope: Envelope, bytes: impl Into<Bytes>) -> Self {
        let envelope = (envelope != Envelope::PLAIN).then(|| Box::new(envelope));
        Self { envelope, bytes: bytes.into() }
    }

    /// The envelope; `None` for plain bytes, for which engines store nothing.
    pub fn envelope(&self) -> Option<&Envelope> {
        self.envelope.as_deref()
    }

    /// Checks the size, the nesting and the envelope.
    pub(crate) fn check(&self, field: &'static str, bytes_max: usize) -> Result<()> {
        within_limit(field, self.bytes.len(), bytes_max, "keep large data in `blob` or elsewhere")?;
        check_depth(field, &self.bytes)?;
        let Some(envelope) = self.envelope() else { return Ok(()) };
        let texts = [
            match &envelope.codec {
                Codec::Other(name) => Some(name),
                Codec::Plain | Codec::Zstd => None,
            },
            match &envelope.location {
                Location::At(address) => Some(address),
                Location::Inline => None,
            },
            envelope.key_id.as_ref(),
        ];
        texts
            .into_iter()
            .flatten()
            .try_for_each(|text| check_text(field, text, limits::ENVELOPE_FIELD_BYTES_MAX))
    }
}

/// The parts of a job; `None` means unset, which is not the same as empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The input.
    pub payload: Option<Part>,
    /// The checkpoint.
    pub checkpoint: Option<Part>,
    /// The large binary.
    pub blob: Option<Part>,
    /// The application's own data.
    pub metadata: Option<Part>,
}

impl Parts {
    /// Returns a part.
    pub const fn get(&self, name: PartName) -> Option<&Part> {
        match name {
            PartName::Payload => self.payload.as_ref(),
            PartName::Checkpoint => self.checkpoint.as_ref(),
            PartName::Blob => self.blob.as_ref(),
            PartName::Metadata => self.metadata.as_ref(),
        }
    }

    /// Returns a part for modification.
    pub const fn slot(&mut self, name: PartName) -> &mut Option<Part> {
        match name {
            PartName::Payload => &mut self.payload,
            PartName::Checkpoint => &mut self.checkpoint,
            PartName::Blob => &mut self.blob,
            PartName::Metadata => &mut self.metadata,
        }
    }

    /// A copy with only the parts in `set`.
    #[must_use]
    pub fn only(&self, set: PartSet) -> Self {
        let mut copy = Self::default();
        for name in PartName::ALL {
            if set.has(name) {
                *copy.slot(name) = self.get(name).cloned();
            }
        }
        copy
    }

    pub(crate) fn check(&self, payload_bytes_max: usize) -> Result<()> {
        PartName::ALL.into_iter().try_for_each(|name| match self.get(name) {
            Some(part) => part.check(name.as_str(), name.bytes_max(payload_bytes_max)),
            None => Ok(()),
        })
    }
}

/// An edit of one part of a stored job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PartEdit {
    /// Leave it unchanged.
    #[default]
    Keep,
    /// Replace it.
    Set(Part),
    /// Remove it.
    Unset,
}

growing! {
    /// The edits that a worker may make to the parts of its job.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct PartEdits as PartEditsFields {
        /// The input of the next attempt.
        pub payload: PartEdit,
        /// The checkpoint for the next attempt.
        pub checkpoint: PartEdit,
        /// The application's own data.
        pub metadata: PartEdit,
        /// The large binary.
        pub blob: PartEdit,
    }
}

impl PartEdits {
    /// Leaves all parts unchanged.
    pub const KEEP: Self = Self {
        payload: PartEdit::Keep,
        checkpoint: PartEdit::Keep,
        metadata: PartEdit::Keep,
        blob: PartEdit::Keep,
    };

    /// Number of bytes of the parts that are replaced.
    pub fn bytes(&self) -> usize {
        let Self { payload, checkpoint, metadata, blob } = self;
        let bytes = |edit: &PartEdit| match edit {
            PartEdit::Set(part) => part.bytes.len(),
            PartEdit::Keep | PartEdit::Unset => 0,
        };
        [payload, checkpoint, metadata, blob].into_iter().map(bytes).sum()
    }

    /// Applies the edits.
    pub fn apply(self, parts: &mut Parts) {
        self.payload.apply(&mut parts.payload);
        self.checkpoint.apply(&mut parts.checkpoint);
        self.metadata.apply(&mut parts.metadata);
        self.blob.apply(&mut parts.blob);
    }

    pub(crate) fn check(&self, payload_bytes_max: usize) -> Result<()> {
        self.payload.check(PartName::Payload, payload_bytes_max)?;
        self.checkpoint.check(PartName::Checkpoint, payload_bytes_max)?;
        self.metadata.check(PartName::Metadata, payload_bytes_max)?;
        self.blob.check(PartName::Blob, payload_bytes_max)
    }
}

impl PartEdit {
    /// Applies the edit to `slot`.
    pub fn apply(self, slot: &mut Option<Part>) {
        match self {
            Self::Keep => {}
            Self::Set(part) => *slot = Some(part),
            Self::Unset => *slot = None,
        }
    }

    pub(crate) fn check(&self, name: PartName, payload_bytes_max: usize) -> Result<()> {
        match self {
            Self::Set(part) => part.check(name.as_str(), name.bytes_max(payload_bytes_max)),
            Self::Keep | Self::Unset => Ok(()),
        }
    }
}
