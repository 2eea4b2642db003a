//! Maintenance and checks of a store.

use crate::is_default;
#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::engine::{self, MaintainRequest};
use windlass_core::model::{Name, State};
use windlass_core::{Error, Result, Timestamp};

/// One step of maintenance.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"work": "promote", "budget": 1000}))))]
#[serde(deny_unknown_fields)]
pub struct Maintain {
    /// `promote`, `reclaim`, `expire`, `retain` or `compact`.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Work))]
    pub work: String,
    /// Maximum number of items to process.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Budget))]
    pub budget: u32,
    /// For `compact`: how long the history of removed jobs is kept; 90 days by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::HistoryMs>))]
    pub removed_kept_ms: Option<u64>,
}

impl Maintain {
    /// Converts to the core request.
    pub fn into_core(self) -> Result<MaintainRequest> {
        let known = || engine::Work::ALL.into_iter();
        let Some(work) = known().find(|work| work.to_string() == self.work) else {
            let names: Vec<String> = known().map(|work| work.to_string()).collect();
            return Err(Error::invalid("work", self.work, format!("use {}", names.join(", "))));
        };
        let request = MaintainRequest::new(work, self.budget);
        let kept_ms = self.removed_kept_ms.unwrap_or(request.removed_kept_ms);
        Ok(request.removed_kept_ms(kept_ms))
    }
}

impl From<MaintainRequest> for Maintain {
    fn from(request: MaintainRequest) -> Self {
        let usual = MaintainRequest::new(request.work, request.budget).removed_kept_ms;
        let kept_ms = Some(request.removed_kept_ms).filter(|ms| *ms != usual);
        Self { work: request.work.to_string(), budget: request.budget, removed_kept_ms: kept_ms }
    }
}

/// The result of one step.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MaintainReply {
    /// Number of processed items.
    pub done: u32,
    /// Whether more items are ready.
    pub more: bool,
    /// When the next item becomes due, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub next_at: Option<Timestamp>,
    /// Changes of jobs, by queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tallies: Vec<Tally>,
}

/// A number of jobs of one queue that changed state.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Tally {
    /// The queue.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub queue: Name,
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

impl From<engine::MaintainReply> for MaintainReply {
    fn from(reply: engine::MaintainReply) -> Self {
        let tally = |tally: engine::Tally| {
            let engine::TallyFields { queue, from, to, count } = tally.into();
            Tally { queue, from, to, count }
        };
        let tallies = reply.tallies.into_iter().map(tally).collect();
        Self { done: reply.done, more: reply.more, next_at: reply.next_at, tallies }
    }
}

impl From<MaintainReply> for engine::MaintainReply {
    fn from(reply: MaintainReply) -> Self {
        let tally = |tally: Tally| {
            let Tally { queue, from, to, count } = tally;
            engine::TallyFields { queue, from, to, count }.into()
        };
        let mut full = Self::default();
        (full.done, full.more, full.next_at) = (reply.done, reply.more, reply.next_at);
        full.tallies = reply.tallies.into_iter().map(tally).collect();
        full
    }
}

/// A check of the whole store.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Whether to repair the problems found.
    #[serde(default, skip_serializing_if = "is_default")]
    pub repair: bool,
}

/// The result of a check.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CheckReport {
    /// Number of checked jobs.
    pub jobs: u64,
    /// The problems found; empty if the store is consistent.
    pub findings: Vec<Finding>,
}

/// A problem in the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Finding {
    /// Description of the problem.
    pub what: String,
    /// Whether it was repaired.
    pub repaired: bool,
}

impl From<engine::CheckReport> for CheckReport {
    fn from(report: engine::CheckReport) -> Self {
        let finding = |finding: engine::Finding| {
            let engine::FindingFields { what, repaired } = finding.into();
            Finding { what, repaired }
        };
        Self { jobs: report.jobs, findings: report.findings.into_iter().map(finding).collect() }
    }
}

impl From<CheckReport> for engine::CheckReport {
    fn from(report: CheckReport) -> Self {
        let finding = |Finding { what, repaired }| engine::FindingFields { what, repaired }.into();
        let mut full = Self::default();
        full.jobs = report.jobs;
        full.findings = report.findings.into_iter().map(finding).collect();
        full
    }
}
