//! How many workers a queue needs.

#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::model::Name;

/// The question.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ScaleQuery {
    /// The queue.
    #[cfg_attr(feature = "openapi", param(value_type = openapi::Name))]
    pub queue: Name,
    /// Within which time what is ready should be started; 30,000 unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 86400000))]
    pub target_latency_ms: Option<u64>,
    /// Jobs that one worker runs at a time; 1 unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 10000))]
    pub per_worker: Option<u64>,
    /// Workers, at least; 0 unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(maximum = 100000))]
    pub min: Option<u64>,
    /// Workers, at most; 100 unless told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(maximum = 100000))]
    pub max: Option<u64>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Scale {
    /// Workers.
    pub desired: u64,
    /// Jobs that are ready, in lanes that are open.
    pub available: u64,
    /// Jobs that run.
    pub running: u64,
    /// Jobs that came in a second over the last five minutes, as far as servers handed them on.
    pub arrivals_per_second: f64,
    /// How long an attempt took on average meanwhile, if one was reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_ms: Option<u64>,
}
