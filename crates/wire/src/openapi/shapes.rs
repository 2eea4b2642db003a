//! Objects that the wire takes from core as they are, field by field.

use super::{AttemptEnd, Depth, Name, QueueOrder, SpanMs, Timestamp, Whole32};
use crate::{Reason, Retention};
use utoipa::ToSchema;

/// One attempt at a job.
#[derive(Debug, ToSchema)]
pub struct Attempt {
    /// Which one, counted from 1.
    pub number: u32,
    /// The label of the worker that ran it.
    pub worker: String,
    /// When it was claimed.
    #[schema(value_type = Timestamp)]
    pub started_at: i64,
    /// When it was settled or found lost.
    #[schema(value_type = Timestamp)]
    pub ended_at: i64,
    /// How it ended.
    pub end: AttemptEnd,
    /// Why, if it failed.
    pub error: Option<Reason>,
}

/// A line of a job's log.
#[derive(Debug, ToSchema)]
pub struct LogLine {
    /// When the store received it.
    #[schema(value_type = Timestamp)]
    pub at: i64,
    /// What it says.
    pub text: String,
}

/// The settings of a queue.
#[derive(Debug, ToSchema)]
pub struct QueueSettings {
    /// Nothing of it is claimed while set.
    pub paused: bool,
    /// Enqueues are refused when this many jobs wait.
    pub max_depth: Option<Depth>,
    /// How its ready jobs are ordered.
    pub order: QueueOrder,
    /// How long its ended jobs are kept, unless they say otherwise.
    pub retention: Retention,
    /// When its waiting jobs expire, unless they say otherwise.
    pub max_wait_ms: Option<SpanMs>,
}

/// The settings of a kind.
#[derive(Debug, ToSchema)]
pub struct KindSettings {
    /// Nothing of it is claimed while set.
    pub paused: bool,
    /// How many more of its jobs may start.
    pub permits: Option<Whole32>,
}

/// The settings of one queue, by its name.
#[derive(Debug, ToSchema)]
pub struct NamedQueue {
    /// Of which.
    pub name: Name,
    /// How they are.
    pub settings: QueueSettings,
}

/// The settings of one kind, by its name.
#[derive(Debug, ToSchema)]
pub struct NamedKind {
    /// Of which.
    pub name: Name,
    /// How they are.
    pub settings: KindSettings,
}

#[cfg(test)]
mod tests {
    use super::super::tests::schema;
    use super::*;
    use serde::Serialize;
    use utoipa::PartialSchema;
    use windlass_core::model;

    /// A value of core has the fields that are told of it, and no others.
    fn assert_told<S: PartialSchema>(value: &impl Serialize) {
        let value = serde_json::to_value(value).unwrap();
        let schema = schema::<S>();
        let told = schema["properties"].as_object().unwrap();
        let mut fields: Vec<_> = value.as_object().unwrap().keys().collect();
        fields.sort();
        assert_eq!(fields, told.keys().collect::<Vec<_>>());
    }

    #[test]
    fn they_are_told_as_core_writes_them() {
        let at = windlass_core::Timestamp::EPOCH;
        assert_told::<Attempt>(&model::Attempt {
            number: 1,
            worker: "w".into(),
            started_at: at,
            ended_at: at,
            end: model::AttemptEnd::Fail,
            error: Some(model::JobError::new("c", "m")),
        });
        assert_told::<Reason>(&model::JobError::new("c", "m"));
        assert_told::<LogLine>(&model::LogLine::new(at, "x".into()));
        assert_told::<crate::Progress>(&model::Progress {
            done: 1,
            total: None,
            note: String::new(),
        });
        assert_told::<QueueSettings>(&model::QueueSettings::default());
        assert_told::<KindSettings>(&model::KindSettings::default());
        assert_told::<Retention>(&windlass_core::policy::Retention::default());
    }
}
