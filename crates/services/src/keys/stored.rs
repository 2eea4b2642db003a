//! A key as it is stored and as people see it. It must not know who asks for it.

use super::grant::Grants;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_core::engine::Record;
use windlass_core::{Error, Result, Timestamp};

/// How the names of the records begin.
pub(crate) const PREFIX: &str = "key/";
/// A record that is written with every change of a key, so that servers notice it without reading all.
pub(crate) const CHANGES_KEY: &str = "key-changes";

/// A key in its record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) may: Grants,
    /// What is kept of its secret; none where a certificate is the proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) certificate: Option<String>,
    pub(super) created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revoked_at: Option<Timestamp>,
    /// What a later version added; an earlier one that revokes the key must not lose it.
    #[serde(flatten)]
    pub(super) later: serde_json::Map<String, Value>,
}

impl Stored {
    pub(super) fn read(record: &Record) -> Result<Self> {
        serde_json::from_slice(&record.value).map_err(|error| Error::Corrupt {
            store: format!("record {:?}", record.key),
            reason: format!("it is not a key: {error}; delete the record and make another key"),
        })
    }

    pub(super) fn view(&self, id: &str) -> Key {
        Key {
            id: id.to_owned(),
            name: self.name.clone(),
            may: self.may.clone(),
            certificate: self.certificate.clone(),
            created_at: self.created_at,
            expires_at: self.expires_at,
            revoked_at: self.revoked_at,
        }
    }
}

/// The id in the name of a record.
pub(super) fn id(key: &str) -> &str {
    key.strip_prefix(PREFIX).unwrap_or(key)
}

/// What may be told of the content of a record that should be a key: nothing that proves anything.
pub(crate) fn shown(value: &[u8]) -> Value {
    let Ok(stored) = serde_json::from_slice::<Stored>(value) else { return json!("unreadable") };
    let Stored { name, may, certificate, expires_at, revoked_at, .. } = stored;
    json!({
        "name": name, "may": may, "certificate": certificate,
        "expires_at": expires_at, "revoked": revoked_at.is_some(),
    })
}

/// A key as people see it: everything but its proof.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Key {
    /// Its public part.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it may do.
    pub may: Grants,
    /// The name in a certificate that is its proof, if it has no secret.
    pub certificate: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it is worth nothing.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

impl Key {
    /// Whether it opens anything at `now`.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|at| now < at)
    }
}
