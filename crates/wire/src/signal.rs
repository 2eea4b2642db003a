//! Signals to jobs.

#[cfg(feature = "openapi")]
use crate::openapi;
use crate::present;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::model::{self, Name};

/// A signal to a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(
    feature = "openapi",
    derive(utoipa::ToSchema),
    schema(examples(json!({"name": "approved", "payload": {"by": "eve"}})))
)]
#[serde(deny_unknown_fields)]
pub struct Signal {
    /// The name that the job waits for.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub name: Name,
    /// What the signal says.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Json))]
    pub payload: Option<Box<RawValue>>,
    /// Identifies the signal: the job accepts an id once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Label>))]
    pub id: Option<String>,
}

impl From<Signal> for model::Signal {
    fn from(signal: Signal) -> Self {
        let mut core = Self::new(signal.name);
        core.payload = signal.payload.map(|payload| payload.get().to_owned());
        core.id = signal.id;
        core
    }
}

impl From<model::Signal> for Signal {
    /// The signal must be valid: a payload that is not JSON is left out.
    fn from(signal: model::Signal) -> Self {
        let payload = signal.payload.and_then(|text| RawValue::from_string(text).ok());
        Self { name: signal.name, payload, id: signal.id }
    }
}
