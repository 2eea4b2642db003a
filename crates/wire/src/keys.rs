//! Access keys.

#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::Timestamp;

/// An access key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = AccessKey))]
pub struct Key {
    /// Its id.
    pub id: String,
    /// Its name, usually that of the service that uses it.
    pub name: String,
    /// Its permissions: `enqueue:KIND`, `work:QUEUE`, `view` or `admin`.
    pub may: Vec<String>,
    /// Subject of the client certificate that authenticates instead of a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// When it was created.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub created_at: Timestamp,
    /// When it expires; absent if it is valid until it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub revoked_at: Option<Timestamp>,
}

/// All keys; a store has at most 10,000.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = AccessKeys))]
pub struct Keys {
    /// The keys, by the time of their creation, revoked and expired ones included.
    pub keys: Vec<Key>,
}

/// A key to create.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(
    feature = "openapi",
    derive(utoipa::ToSchema),
    schema(as = NewAccessKey, examples(json!({"name": "billing", "may": ["enqueue:generate_invoice", "work:billing"]})))
)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// Its name, usually that of the service that uses it.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Label))]
    pub name: String,
    /// Its permissions: `enqueue:KIND`, `work:QUEUE`, `view` or `admin`.
    pub may: Vec<String>,
    /// Time until it expires; without it, it is valid until it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// Subject of a client certificate (`CN=…`, `DNS:…`, `URI:…` or `EMAIL:…`) that authenticates instead of a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
}

/// A key that was created.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CreatedAccessKey))]
pub struct CreatedKey {
    /// The key.
    #[serde(flatten)]
    pub key: Key,
    /// Its secret, which no other reply contains; absent for a key with a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}
