//! The history of removed jobs.

#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::Timestamp;
use windlass_core::engine::{
    Cursor, Page, RemovedCount, RemovedCountFields, RemovedKey, RemovedQuery,
};
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
    /// Only hours that end after this time; all by default.
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

/// A page of the history.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryPage {
    /// The rows, oldest hour first.
    pub rows: Vec<HistoryRow>,
    /// Cursor of the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Cursor>))]
    pub next: Option<Cursor>,
}

/// A number of jobs that were removed in the same hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryRow {
    /// Beginning of the hour of the removal.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub hour: Timestamp,
    /// Queue of the jobs.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub queue: Name,
    /// Kind of the jobs.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub kind: Name,
    /// Tenant of the jobs; absent for jobs without one, `other` for tenants beyond the first 100 of an
    /// hour, queue and kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// State in which they ended.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::State))]
    pub outcome: State,
    /// Number of jobs.
    pub count: u64,
}

impl From<HistoryQuery> for RemovedQuery {
    fn from(query: HistoryQuery) -> Self {
        let mut full = Self::default();
        full.from = query.from.unwrap_or(full.from);
        full.limit = query.limit.unwrap_or(full.limit);
        (full.queue, full.after) = (query.queue, query.after);
        full
    }
}

impl From<RemovedQuery> for HistoryQuery {
    fn from(query: RemovedQuery) -> Self {
        let RemovedQuery { from, queue, after, limit, .. } = query;
        Self { queue, from: Some(from), after, limit: Some(limit) }
    }
}

impl From<Page<RemovedCount>> for HistoryPage {
    fn from(page: Page<RemovedCount>) -> Self {
        let row = |row: RemovedCount| {
            let RemovedCountFields { key, count } = row.into();
            let RemovedKey { hour, queue, kind, tenant, outcome, .. } = key;
            HistoryRow { hour, queue, kind, tenant, outcome, count }
        };
        Self { rows: page.rows.into_iter().map(row).collect(), next: page.next }
    }
}

impl From<HistoryPage> for Page<RemovedCount> {
    fn from(page: HistoryPage) -> Self {
        let row = |row: HistoryRow| {
            let HistoryRow { hour, queue, kind, tenant, outcome, count } = row;
            let key = RemovedKey::new(hour, queue, kind, tenant, outcome);
            RemovedCountFields { key, count }.into()
        };
        Self::new(page.rows.into_iter().map(row).collect(), page.next)
    }
}
