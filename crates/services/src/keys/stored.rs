//! Stored form and display form of a key. Independent of authentication.

use super::grant::Grants;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_core::engine::Record;
use windlass_core::{Error, Result, Timestamp};

/// Key prefix of the records.
pub(crate) const PREFIX: &str = "key/";
/// The change marker: a record written with every change of a key, so that servers notice changes cheaply.
pub(crate) const CHANGES_KEY: &str = "key-changes";

/// The stored form of a key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) may: Grants,
    /// Hash of the secret; `None` if the credential is a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) certificate: Option<String>,
    pub(super) created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revoked_at: Option<Timestamp>,
    /// Unknown fields of a later version, preserved when this version revokes the key.
    #[serde(flatten)]
    pub(super) later: serde_json::Map<String, Value>,
}

impl Stored {
    pub(super) fn read(record: &Record) -> Result<Self> {
        serde_json::from_slice(&record.value).map_err(|error| Error::Corrupt {
            store: format!("record {:?}", record.key),
            reason: format!("invalid key record: {error}; delete it and create another key"),
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

/// The id in the key of a record.
pub(super) fn id(key: &str) -> &str {
    key.strip_prefix(PREFIX).unwrap_or(key)
}

/// The content of a key record for the audit log, without its credential.
pub(crate) fn shown(value: &[u8]) -> Value {
    let Ok(stored) = serde_json::from_slice::<Stored>(value) else { return json!("unreadable") };
    let Stored { name, may, certificate, expires_at, revoked_at, .. } = stored;
    json!({
        "name": name, "may": may, "certificate": certificate,
        "expires_at": expires_at, "revoked": revoked_at.is_some(),
    })
}

/// The display form of a key, without its credential.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Key {
    /// The public part of the key.
    pub id: String,
    /// The display name.
    pub name: String,
    /// Its permissions.
    pub may: Grants,
    /// The certificate name that is its credential, if it has no secret.
    pub certificate: Option<String>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Expiry time.
    pub expires_at: Option<Timestamp>,
    /// Revocation time.
    pub revoked_at: Option<Timestamp>,
}

impl Key {
    /// Whether the key is valid at `now`.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|at| now < at)
    }
}
