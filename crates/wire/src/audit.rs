//! The audit log: who did what, and when.

#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_core::Timestamp;
use windlass_core::engine::Cursor;
use windlass_core::limits::PAGE_DEFAULT;

/// A page of actions, as a query.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct AuditList {
    /// Of whom: the name or the id of a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Label, required = false))]
    pub who: Option<String>,
    /// Which action: `job.cancel`, or `job` for all actions on jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Label, required = false))]
    pub action: Option<String>,
    /// To what: a job's id, a queue, a kind, a schedule, a key's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Label, required = false))]
    pub target: Option<String>,
    /// At this instant or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Bound, required = false))]
    pub from: Option<Timestamp>,
    /// The `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Cursor, required = false))]
    pub after: Option<Cursor>,
    /// At most so many; 50 unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::PageLimit, required = false))]
    pub limit: Option<u32>,
}

impl AuditList {
    /// How many at most.
    pub fn limit(&self) -> u32 {
        self.limit.unwrap_or(PAGE_DEFAULT)
    }
}

/// A page of actions, the latest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditPage {
    /// The actions; a page may be short, even empty.
    pub actions: Vec<Action>,
    /// Where to go on; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Cursor>))]
    pub next: Option<Cursor>,
}

/// Something that somebody did.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Action {
    /// Its id in the log.
    pub id: String,
    /// When, by the store's clock.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub at: Timestamp,
    /// Who, by the name of the key.
    pub who: String,
    /// The id of that key; absent where nobody is asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What, as in `job.cancel`.
    pub action: String,
    /// To what, the first 20 by name.
    pub targets: Vec<String>,
    /// To how many in all.
    pub count: u64,
    /// How many of them were refused.
    pub refused: u64,
    /// What the target was like, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Json>))]
    pub before: Option<Value>,
    /// What it is like now, or what was asked for. Never a payload or a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Json>))]
    pub after: Option<Value>,
}
