//! The audit log.

#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_core::Timestamp;
use windlass_core::engine::Cursor;
use windlass_core::limits::PAGE_DEFAULT;

/// Query for a page of the audit log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct AuditList {
    /// Name or id of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Label, required = false))]
    pub who: Option<String>,
    /// The action, e.g. `job.cancel`, or a prefix: `job` for all actions on jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Label, required = false))]
    pub action: Option<String>,
    /// The target: a job's id, a queue, a kind, a schedule or a key's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Label, required = false))]
    pub target: Option<String>,
    /// Earliest time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Bound, required = false))]
    pub from: Option<Timestamp>,
    /// Time before which the entries are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Bound, required = false))]
    pub until: Option<Timestamp>,
    /// The `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Cursor, required = false))]
    pub after: Option<Cursor>,
    /// Maximum number of rows; 50 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::PageLimit, required = false))]
    pub limit: Option<u32>,
}

impl AuditList {
    /// The maximum number of rows, with its default.
    pub fn limit(&self) -> u32 {
        self.limit.unwrap_or(PAGE_DEFAULT)
    }
}

/// A page of the audit log, newest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditPage {
    /// The entries; a page may be short or even empty.
    pub actions: Vec<Action>,
    /// Cursor of the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Cursor>))]
    pub next: Option<Cursor>,
}

/// An entry of the audit log.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Action {
    /// Id of the entry.
    pub id: String,
    /// Time of the action on the store's clock.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub at: Timestamp,
    /// Name of the key that was used.
    pub who: String,
    /// Id of that key; absent for unauthenticated requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The action, e.g. `job.cancel`.
    pub action: String,
    /// Names of the first 20 targets.
    pub targets: Vec<String>,
    /// Total number of targets.
    pub count: u64,
    /// Number of targets for which the action was refused.
    pub refused: u64,
    /// The target before the action, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Json>))]
    pub before: Option<Value>,
    /// The target after the action, or the requested change. Never contains payloads or secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Json>))]
    pub after: Option<Value>,
}
