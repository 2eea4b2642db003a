//! Updates from running jobs.

use crate::bounded;
use crate::claim::{part_names, part_set};
use crate::is_default;
#[cfg(feature = "openapi")]
use crate::openapi;
use crate::part::{PartEdits, Parts};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::engine::{self, Lease};
use windlass_core::limits::{BATCH_MAX, LOG_LINES_MAX, STEPS_MAX};
use windlass_core::model::{self, PartName};
use windlass_core::{Error, JobId, Result};

/// Progress of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Completed units.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Whole))]
    pub done: u64,
    /// Total units, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Whole>))]
    pub total: Option<u64>,
    /// Human-readable note.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// An update of one job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UpdateItem {
    /// The job.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::JobId))]
    pub id: JobId,
    /// The lease from its claim.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Lease))]
    pub lease: Lease,
    /// Progress of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Changes to its parts.
    #[serde(default, skip_serializing_if = "PartEdits::is_empty")]
    pub parts: PartEdits,
    /// Steps to record. A step that is recorded already may be repeated unchanged.
    #[serde(
        default,
        deserialize_with = "bounded::vec::<STEPS_MAX, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::Step>, max_items = 1000))]
    pub steps: Vec<model::Step>,
    /// Lines for the job's log.
    #[serde(
        default,
        deserialize_with = "bounded::vec::<LOG_LINES_MAX, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[cfg_attr(feature = "openapi", schema(max_items = 100))]
    pub log: Vec<String>,
    /// Parts to return.
    #[serde(
        default,
        deserialize_with = "bounded::distinct",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::PartName>))]
    pub fetch: Vec<PartName>,
    /// Whether to return what the job needs to continue after it has waited: what ended its last wait.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recall: bool,
    /// For a claim without a session: extends its leases to this time from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::LeaseMs>))]
    pub extend_ms: Option<u64>,
}

impl UpdateItem {
    fn into_core(self) -> Result<engine::UpdateItem> {
        let mut item = engine::UpdateItem::new(self.id, self.lease);
        item.progress = self.progress.map(|Progress { done, total, note }| model::Progress {
            done,
            total,
            note,
        });
        item.parts = self.parts.into_core()?;
        item.steps = self.steps;
        item.log = self.log;
        item.fetch = part_set(&self.fetch);
        item.recall = self.recall;
        item.extend_ms = self.extend_ms;
        Ok(item)
    }
}

impl From<engine::UpdateItem> for UpdateItem {
    fn from(item: engine::UpdateItem) -> Self {
        let progress = item.progress.map(|model::Progress { done, total, note }| Progress {
            done,
            total,
            note,
        });
        Self {
            id: item.id,
            lease: item.lease,
            progress,
            parts: item.parts.into(),
            steps: item.steps,
            log: item.log,
            fetch: part_names(item.fetch),
            recall: item.recall,
            extend_ms: item.extend_ms,
        }
    }
}

/// Updates of running jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Update {
    /// The updates.
    #[serde(deserialize_with = "bounded::vec::<BATCH_MAX, _, _>")]
    #[cfg_attr(feature = "openapi", schema(max_items = 10000))]
    pub items: Vec<UpdateItem>,
}

impl Update {
    /// Converts to the core request, and returns errors of invalid updates with their index: each
    /// fails alone.
    pub fn into_core(self) -> (engine::Update, Vec<(usize, Error)>) {
        let (mut items, mut bad) = (Vec::with_capacity(self.items.len()), Vec::new());
        for (index, item) in self.items.into_iter().enumerate() {
            match item.into_core() {
                Ok(item) => items.push(item),
                Err(error) => bad.push((index, error)),
            }
        }
        (engine::Update::new(items), bad)
    }
}

impl From<engine::Update> for Update {
    fn from(request: engine::Update) -> Self {
        Self { items: request.items.into_iter().map(Into::into).collect() }
    }
}

/// The result of an update.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Updated {
    /// The payload, if requested.
    #[serde(default, deserialize_with = "crate::present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Json))]
    pub payload: Option<Box<RawValue>>,
    /// The payload in base64, if it is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Base64>))]
    pub payload_base64: Option<String>,
    /// Other requested parts.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    pub parts: Parts,
    /// Whether a cancellation was requested.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cancel_requested: bool,
    /// What the job needs to continue after it has waited, if requested and if there is anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Continuation>))]
    pub continuation: Option<Box<model::Continuation>>,
}

impl From<engine::Updated> for Updated {
    fn from(updated: engine::Updated) -> Self {
        let engine::Updated { parts, cancel_requested, continuation, .. } = updated;
        let (payload, payload_base64, parts) = Parts::spread(parts);
        Self { payload, payload_base64, parts, cancel_requested, continuation }
    }
}

impl Updated {
    /// Converts to the core result.
    pub fn into_core(self) -> Result<engine::Updated> {
        let parts = self.parts.gather(self.payload, self.payload_base64)?;
        Ok(engine::Updated::new(parts, self.cancel_requested).continuing(self.continuation))
    }
}
