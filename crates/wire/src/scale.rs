//! The number of workers that a queue needs.

#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::model::Name;

/// Query for the number of workers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ScaleQuery {
    /// The queue.
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Name))]
    pub queue: Name,
    /// Target time until a ready job starts; 30,000 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 86400000))]
    pub target_latency_ms: Option<u64>,
    /// Number of jobs that one worker runs at a time; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 10000))]
    pub per_worker: Option<u64>,
    /// Minimum number of workers; 0 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(maximum = 100000))]
    pub min: Option<u64>,
    /// Maximum number of workers; 100 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(maximum = 100000))]
    pub max: Option<u64>,
}

/// The number of workers, and the values it was computed from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Scale {
    /// Number of workers.
    pub desired: u64,
    /// Ready jobs in lanes that are open to claims.
    pub available: u64,
    /// Running jobs.
    pub running: u64,
    /// Arrivals per second over the last five minutes, through servers.
    pub arrivals_per_second: f64,
    /// Average run time of attempts in that time, if any was reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_ms: Option<u64>,
}
