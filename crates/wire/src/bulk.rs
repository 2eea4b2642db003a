//! Changes of all jobs that match a filter.

use crate::bounded;
#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use windlass_core::engine::{Field, Filter};
use windlass_core::limits::FILTER_FIELDS_MAX;
use windlass_core::model::{Name, State};
use windlass_core::{IdPrefix, JobId, Result, Timestamp};

/// Selects jobs; absent fields match all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct JobFilter {
    /// Queue of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub queue: Option<Name>,
    /// Kind of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub kind: Option<Name>,
    /// State of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::State>))]
    pub state: Option<State>,
    /// Tenant of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Label>))]
    pub tenant: Option<String>,
    /// Ordering key of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Key>))]
    pub key: Option<String>,
    /// A tag of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Tag>))]
    pub tag: Option<String>,
    /// The job that created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::JobId>))]
    pub parent: Option<JobId>,
    /// Earliest time of the enqueue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Bound>))]
    pub created_from: Option<Timestamp>,
    /// Time of the enqueue, exclusive upper bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Bound>))]
    pub created_until: Option<Timestamp>,
    /// Earliest time at which the job is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Bound>))]
    pub due_from: Option<Timestamp>,
    /// Time at which the job is due, exclusive upper bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Bound>))]
    pub due_until: Option<Timestamp>,
    /// Earliest time of the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Bound>))]
    pub ended_from: Option<Timestamp>,
    /// Time of the end, exclusive upper bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Bound>))]
    pub ended_until: Option<Timestamp>,
    /// The first hex digits of the id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::IdPrefix>))]
    pub id: Option<IdPrefix>,
    /// A text in the payload or the last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::SearchText>))]
    pub text: Option<String>,
    /// Values of fields of payload and metadata: `{"payload.customer": "42"}`; at most 8.
    #[serde(
        deserialize_with = "bounded::map::<FILTER_FIELDS_MAX, _>",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub fields: BTreeMap<String, String>,
}

impl JobFilter {
    /// Converts to the core filter.
    pub fn into_core(self) -> Result<Filter> {
        let mut filter = Filter::default();
        (filter.queue, filter.kind, filter.state) = (self.queue, self.kind, self.state);
        (filter.tenant, filter.key, filter.tag) = (self.tenant, self.key, self.tag);
        filter.parent = self.parent;
        (filter.created_from, filter.created_until) = (self.created_from, self.created_until);
        (filter.due_from, filter.due_until) = (self.due_from, self.due_until);
        (filter.ended_from, filter.ended_until) = (self.ended_from, self.ended_until);
        (filter.id, filter.text) = (self.id, self.text);
        let field = |(name, value): (String, String)| Ok((name.parse::<Field>()?, value));
        filter.fields = self.fields.into_iter().map(field).collect::<Result<_>>()?;
        filter.check()?;
        Ok(filter)
    }
}

impl From<Filter> for JobFilter {
    fn from(filter: Filter) -> Self {
        let field = |(field, value): (Field, String)| (field.to_string(), value);
        Self {
            queue: filter.queue,
            kind: filter.kind,
            state: filter.state,
            tenant: filter.tenant,
            key: filter.key,
            tag: filter.tag,
            parent: filter.parent,
            created_from: filter.created_from,
            created_until: filter.created_until,
            due_from: filter.due_from,
            due_until: filter.due_until,
            ended_from: filter.ended_from,
            ended_until: filter.ended_until,
            id: filter.id,
            text: filter.text,
            fields: filter.fields.into_iter().map(field).collect(),
        }
    }
}

/// The type of a change of many jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BulkChange {
    /// End waiting jobs; ask the workers of running ones to stop.
    Cancel,
    /// End waiting jobs as dead.
    Kill,
    /// Make scheduled jobs due now.
    Promote,
    /// Change the due time to `run_at`.
    Reschedule,
    /// Set the `priority`.
    Reprioritise,
    /// Move waiting jobs to another `queue`.
    Move,
    /// Pause waiting jobs.
    Pause,
    /// Resume paused jobs.
    Resume,
    /// Run dead, cancelled and expired jobs again.
    Replay,
    /// Delete ended jobs.
    Discard,
    /// Delete jobs in any state; running ones are asked to stop, and stay until then.
    Purge,
}

/// A change of all jobs that match a filter.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewBulk {
    /// Selects the jobs; `{}` selects all.
    pub filter: JobFilter,
    /// The type of change.
    pub change: BulkChange,
    /// New priority, for `reprioritise`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Priority>))]
    pub priority: Option<i32>,
    /// Queue to move to, for `move`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub queue: Option<Name>,
    /// Time at which the jobs are due, for `reschedule`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub run_at: Option<Timestamp>,
    /// For `replay`: start from the beginning, without the last checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_over: Option<bool>,
    /// For `replay`: the sensitive kind that may be replayed. For `purge`: the queue of the filter, as confirmation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub confirm: Option<Name>,
    /// Whether to count the jobs only.
    #[serde(default)]
    pub dry_run: bool,
}

/// A bulk operation with its progress.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Bulk {
    /// Its id.
    pub id: String,
    /// The jobs to change.
    pub filter: JobFilter,
    /// The type of change.
    pub change: String,
    /// Whether jobs are counted only.
    pub dry_run: bool,
    /// Who started it.
    pub by: String,
    /// When it began. Jobs enqueued later are not changed.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub begun: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub ended: Option<Timestamp>,
    /// `counting`, `running`, `done` or `cancelled`.
    pub state: String,
    /// Number of jobs to change, as far as they are counted.
    pub total: u64,
    /// Number of changed jobs.
    pub changed: u64,
    /// Number of jobs that the store refused to change.
    pub refused: u64,
    /// The first refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Bulk operations.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Bulks {
    /// The operations, the oldest first.
    pub bulks: Vec<Bulk>,
}
