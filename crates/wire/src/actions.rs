//! Bodies of the routes that change one job.

use crate::new_job::due_in;
#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::model::{Due, Name, State};
use windlass_core::{Result, Timestamp};

/// A change without members of its own: `{}`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({}))))]
#[serde(deny_unknown_fields)]
pub struct IfState {
    /// Required state of the job; in another state the change fails with `state_conflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::State>))]
    pub if_state: Option<State>,
}

/// A new due time: `run_at`, or `delay_ms` from now; now if neither is given.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"delay_ms": 60_000}))))]
#[serde(deny_unknown_fields)]
pub struct Reschedule {
    /// Delay until the job is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::DelayMs>))]
    pub delay_ms: Option<u64>,
    /// Time at which the job is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub run_at: Option<Timestamp>,
    /// Required state of the job; in another state the change fails with `state_conflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::State>))]
    pub if_state: Option<State>,
}

impl Reschedule {
    /// The due time.
    pub fn due(&self) -> Result<Due> {
        due_in(self.delay_ms, self.run_at)
    }
}

/// A new priority.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"priority": -5}))))]
#[serde(deny_unknown_fields)]
pub struct Reprioritise {
    /// Lower runs first.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Priority))]
    pub priority: i32,
    /// Required state of the job; in another state the change fails with `state_conflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::State>))]
    pub if_state: Option<State>,
}

/// A new queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"queue": "slow"}))))]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// The queue to move to.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub queue: Name,
    /// Required state of the job; in another state the change fails with `state_conflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::State>))]
    pub if_state: Option<State>,
}
