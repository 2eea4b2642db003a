//! Time series of queues.

#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::Timestamp;
use windlass_core::model::Name;

/// Query for a time series.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct SeriesQuery {
    /// The queue; all queues together by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Name, required = false))]
    pub queue: Option<Name>,
    /// Start of the range; an hour before `to` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Bound, required = false))]
    pub from: Option<Timestamp>,
    /// End of the range, exclusive; now by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Bound, required = false))]
    pub to: Option<Timestamp>,
    /// Length of a point in whole minutes; by default, the range is divided into at most 300
    /// points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 60000))]
    pub step_ms: Option<u64>,
}

/// A time series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Series {
    /// Length of a point.
    pub step_ms: u64,
    /// The points, oldest first. Times without data have no point.
    pub points: Vec<Point>,
}

/// Statistics of one interval. Numbers of jobs are averages; numbers of events are sums.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Point {
    /// Start of the interval.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub at: Timestamp,
    /// Jobs that have not started, for any reason.
    pub depth: f64,
    /// Maximum depth; for several queues, the sum of their maxima.
    pub depth_max: u64,
    /// Ready jobs.
    pub available: f64,
    /// Running jobs.
    pub running: f64,
    /// Dead letters.
    pub dead: f64,
    /// Maximum time that the job at the head of a lane was ready.
    pub oldest_ms: u64,
    /// Jobs stored through servers.
    pub enqueued: u64,
    /// Jobs claimed through servers.
    pub started: u64,
    /// Jobs reported complete to servers.
    pub completed: u64,
    /// Attempts reported as failed to servers.
    pub failed: u64,
    /// Average run time of attempts reported to servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_ms: Option<u64>,
}
