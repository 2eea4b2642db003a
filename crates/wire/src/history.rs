//! The history of removals and expiries.

#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::Timestamp;
use windlass_core::engine::Cursor;
use windlass_core::limits::PAGE_DEFAULT;
use windlass_core::model::{Name, State};

/// Which part of the history; what is absent is any.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct HistoryQuery {
    /// Of this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<openapi::Name>))]
    pub queue: Option<Name>,
    /// At this instant or later; without it, from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<openapi::Bound>))]
    pub from: Option<Timestamp>,
    /// After this place, as the last page named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<openapi::Cursor>))]
    pub after: Option<Cursor>,
    /// At most so many rows; 50 unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<openapi::PageLimit>))]
    pub limit: Option<u32>,
}

impl HistoryQuery {
    /// At most so many rows.
    pub fn limit(&self) -> u32 {
        self.limit.unwrap_or(PAGE_DEFAULT)
    }
}

/// A page of the history.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryPage {
    /// The rows, oldest first. There may be few, even none.
    pub rows: Vec<HistoryRow>,
    /// Where to go on; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Cursor>))]
    pub next: Option<Cursor>,
}

/// Jobs that were removed, or expired, at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryRow {
    /// When.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub at: Timestamp,
    /// The queue they were in.
    pub queue: String,
    /// The state they were in.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::State))]
    pub from: State,
    /// The state they are in now; absent: they are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::State>))]
    pub to: Option<State>,
    /// How many.
    pub count: u64,
}
