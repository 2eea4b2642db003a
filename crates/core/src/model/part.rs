//! The four byte parts of a job, each in an envelope that says how to read it.

use crate::error::{Result, within_limit};
use crate::limits;
use crate::model::nesting::check_depth;
use crate::name::check_text;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Which of the four parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartName {
    /// The input, JSON by default; written once with the job.
    Payload,
    /// The checkpoint carried between attempts, for example a VM snapshot.
    State,
    /// A large binary.
    Blob,
    /// Whatever the application wants to keep beside the job.
    Metadata,
}

impl PartName {
    /// All four.
    pub const ALL: [Self; 4] = [Self::Payload, Self::State, Self::Blob, Self::Metadata];

    /// The name on the wire and in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Payload => "payload",
            Self::State => "state",
            Self::Blob => "blob",
            Self::Metadata => "metadata",
        }
    }

    /// The most bytes it may hold, where the payload's own limit is `payload_bytes_max`.
    pub const fn bytes_max(self, payload_bytes_max: usize) -> usize {
        match self {
            Self::Payload => payload_bytes_max,
            Self::State => limits::STATE_BYTES_MAX,
            Self::Blob => limits::BLOB_BYTES_MAX,
            Self::Metadata => limits::METADATA_BYTES_MAX,
        }
    }
}

/// A set of part names: what a claim or a read should bring along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartSet(u8);

impl PartSet {
    /// None of them: the lightest claim.
    pub const NONE: Self = Self(0);
    /// The payload only, what most handlers need.
    pub const PAYLOAD: Self = Self(1 << PartName::Payload as u8);
    /// All four.
    pub const ALL: Self = Self(0b1111);

    /// This set and `part`.
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
    /// As the application gave them.
    #[default]
    Plain,
    /// Compressed with Zstandard.
    Zstd,
    /// By a codec this version does not know; carried along untouched.
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
    /// At an address in another store; the part's bytes are empty.
    At(String),
}

/// What a reader must know to turn the stored bytes back into the application's.
///
/// Layers that compress, encrypt or offload write it, so that whatever set of layers reads the job
/// later can tell what was done. Engines store and return it untouched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Envelope {
    /// How the bytes are encoded.
    pub codec: Codec,
    /// Where they are.
    pub location: Location,
    /// The key they are encrypted with, by its id.
    pub key_id: Option<String>,
}

impl Envelope {
    /// Simply the application's bytes.
    pub const PLAIN: Self = Self { codec: Codec::Plain, location: Location::Inline, key_id: None };
}

/// Bytes of a job in their envelope. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The bytes as stored.
    pub bytes: Bytes,
    /// How to read them, unless they are plain: most are, and jobs should be small.
    envelope: Option<Box<Envelope>>,
}

impl Part {
    /// Plain bytes of the application.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self { envelope: None, bytes: bytes.into() }
    }

    /// Bytes that are to be read as `envelope` says.
    pub fn sealed(envelope: Envelope, bytes: impl Into<Bytes>) -> Self {
        let envelope = (envelope != Envelope::PLAIN).then(|| Box::new(envelope));
        Self { envelope, bytes: bytes.into() }
    }

    /// How to read the bytes; `None` where they are plain, and engines have nothing to store.
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

/// The parts of a job; `None` is unset, which is not the same as empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The input.
    pub payload: Option<Part>,
    /// The checkpoint.
    pub state: Option<Part>,
    /// The large binary.
    pub blob: Option<Part>,
    /// The application's notes.
    pub metadata: Option<Part>,
}

impl Parts {
    /// One of them.
    pub const fn get(&self, name: PartName) -> Option<&Part> {
        match name {
            PartName::Payload => self.payload.as_ref(),
            PartName::State => self.state.as_ref(),
            PartName::Blob => self.blob.as_ref(),
            PartName::Metadata => self.metadata.as_ref(),
        }
    }

    /// The place of one of them.
    pub const fn slot(&mut self, name: PartName) -> &mut Option<Part> {
        match name {
            PartName::Payload => &mut self.payload,
            PartName::State => &mut self.state,
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

/// What to do with one part of a stored job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PartEdit {
    /// Leave it.
    #[default]
    Keep,
    /// Put these bytes there.
    Set(Part),
    /// Remove it.
    Unset,
}

/// What a worker may do with the parts of its job; the payload stays as it was handed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartEdits {
    /// The checkpoint for the next attempt.
    pub state: PartEdit,
    /// The application's notes.
    pub metadata: PartEdit,
    /// The large binary.
    pub blob: PartEdit,
}

impl PartEdits {
    /// Leaves all of them.
    pub const KEEP: Self =
        Self { state: PartEdit::Keep, metadata: PartEdit::Keep, blob: PartEdit::Keep };

    /// Carries the edits out.
    pub fn apply(self, parts: &mut Parts) {
        self.state.apply(&mut parts.state);
        self.metadata.apply(&mut parts.metadata);
        self.blob.apply(&mut parts.blob);
    }

    pub(crate) fn check(&self) -> Result<()> {
        // The payload is not among them, so that its limit does not matter.
        self.state.check(PartName::State, 0)?;
        self.metadata.check(PartName::Metadata, 0)?;
        self.blob.check(PartName::Blob, 0)
    }
}

impl PartEdit {
    /// Carries the edit out on `slot`.
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
