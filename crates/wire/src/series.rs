//! Queues over time.

#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::Timestamp;
use windlass_core::model::Name;

/// Which stretch of time, of which queue, how fine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct SeriesQuery {
    /// Of this queue; all of them together unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Name, required = false))]
    pub queue: Option<Name>,
    /// From this time on; an hour before `to` unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Bound, required = false))]
    pub from: Option<Timestamp>,
    /// Until before this time; now unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Bound, required = false))]
    pub to: Option<Timestamp>,
    /// The length of a point, whole minutes; as short as makes a few hundred points unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 60000))]
    pub step_ms: Option<u64>,
}

/// Points in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Series {
    /// The length of a point.
    pub step_ms: u64,
    /// Oldest first; where nothing is known, none.
    pub points: Vec<Point>,
}

/// A stretch of time. Numbers of jobs are averages over it, but for those that went in and out, which are
/// sums.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Point {
    /// When it begins.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub at: Timestamp,
    /// Jobs that waited for their start, whatever for.
    pub depth: f64,
    /// The most that did; of several queues, the sum of what each had at most.
    pub depth_max: u64,
    /// Those of them that were ready.
    pub available: f64,
    /// Jobs that ran.
    pub running: f64,
    /// Dead letters.
    pub dead: f64,
    /// The longest that the first in line had been ready.
    pub oldest_ms: u64,
    /// Stored through servers.
    pub enqueued: u64,
    /// Handed to workers by servers.
    pub started: u64,
    /// Reported complete to servers.
    pub completed: u64,
    /// Attempts reported as failed to servers.
    pub failed: u64,
    /// How long the attempts took that were reported to servers, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_ms: Option<u64>,
}
