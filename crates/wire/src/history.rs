//! The history of removed and expired jobs.

#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::Timestamp;
use windlass_core::engine::Cursor;
use windlass_core::limits::PAGE_DEFAULT;
use windlass_core::model::{Name, State};

/// Query for the history; absent fields match all.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct HistoryQuery {
    /// Queue of the jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<openapi::Name>))]
    pub queue: Option<Name>,
    /// Earliest time; the beginning by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<openapi::Bound>))]
    pub from: Option<Timestamp>,
    /// The `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<openapi::Cursor>))]
    pub after: Option<Cursor>,
    /// Maximum number of rows; 50 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<openapi::PageLimit>))]
    pub limit: Option<u32>,
}

impl HistoryQuery {
    /// The maximum number of rows, with its default.
    pub fn limit(&self) -> u32 {
        self.limit.unwrap_or(PAGE_DEFAULT)
    }
}

/// A page of the history.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryPage {
    /// The rows, oldest first. There may be few or none.
    pub rows: Vec<HistoryRow>,
    /// Cursor of the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Cursor>))]
    pub next: Option<Cursor>,
}

/// A number of jobs that were removed or expired together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryRow {
    /// Time of the removal or expiry.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub at: Timestamp,
    /// Queue of the jobs.
    pub queue: String,
    /// State before.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::State))]
    pub from: State,
    /// State after; absent if the jobs were deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::State>))]
    pub to: Option<State>,
    /// Number of jobs.
    pub count: u64,
}
