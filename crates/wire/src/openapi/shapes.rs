//! Objects that the wire takes from core as they are, field by field.

use super::{AttemptEnd, Depth, Lease, Name, QueueOrder, SpanMs, Timestamp, Whole, Whole32};
use crate::{Breaker, Counts, KindRules, Lane, List, Reason, Retention};
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{IntoParams, ToSchema};

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
    /// Bytes that its dead letters may hold together; beyond them the oldest go.
    pub dead_bytes_max: Option<Whole>,
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

/// What is known of queues and of kinds, by names without parameters.
macro_rules! overviews {
    ($($doc:literal $name:ident: $settings:ty { $($more:tt)* })+) => {$(
        #[doc = $doc]
        #[derive(Debug, ToSchema)]
        pub struct $name {
            /// Its name.
            pub name: Name,
            /// How it is set; all of it, defaults included.
            pub settings: $settings,
            /// How many jobs are where.
            pub counts: Counts,
            /// Since when the first in line has been ready, of the lane where that is longest ago.
            pub head_ready_at: Option<Timestamp>,
            /// How long that is.
            pub head_age_ms: Option<u64>,
            /// Its lanes, where it is shown alone.
            #[schema(required = false)]
            pub lanes: Vec<Lane>,
            $($more)*
        }
    )+};
}

overviews! {
    "A queue: how it is set and how it is doing." QueueOverview: QueueSettings {}
    "A kind: how it is set, how it is doing, and what is registered of it." KindOverview: KindSettings {
        /// Whether it has rules.
        pub registered: bool,
        /// Its rules, where it is shown alone.
        pub rules: Option<KindRules>,
        /// Its breaker, if it has one.
        pub breaker: Option<Breaker>,
    }
}

/// The headers beside the raw bytes of a part.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
pub struct RawHeaders {
    /// The lease that the claim of the job gave.
    #[param(rename = "windlass-lease", value_type = Lease)]
    pub lease: String,
    /// How to read the bytes, where they are not plain: an `Envelope` as JSON.
    #[param(rename = "windlass-envelope", value_type = String, required = false)]
    #[param(example = "{\"codec\": \"zstd\"}")]
    pub envelope: String,
}

/// The headers beside jobs that are handed over.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
pub struct TraceHeaders {
    /// The trace of jobs that have none of their own (W3C Trace Context). What is malformed is passed over.
    #[param(value_type = String, required = false)]
    #[param(example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
    pub traceparent: String,
}

/// The query of dead letters: that of jobs, less the state, which is known.
#[derive(Debug)]
pub enum DeadList {}

impl IntoParams for DeadList {
    fn into_params(place: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let mut all = List::into_params(place);
        all.retain(|parameter| parameter.name != "state");
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::schema;
    use super::*;
    use serde::Serialize;
    use utoipa::PartialSchema;
    use windlass_core::{engine, model};

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
    fn overviews_are_told_as_they_are_written() {
        let lane = || engine::LaneStats {
            head_ready_at: Some(windlass_core::Timestamp::EPOCH),
            ..engine::LaneStats::empty("n".into(), "n".into())
        };
        let now = windlass_core::Timestamp::from_millis(1);
        let queue: crate::Overview<model::QueueSettings> =
            crate::Overview::of("n".into(), Vec::new(), vec![lane()], now);
        assert_told::<QueueOverview>(&queue);
        assert_told::<Counts>(&queue.counts);
        let kind: crate::Overview<model::KindSettings> =
            crate::Overview::of("n".into(), Vec::new(), vec![lane()], now);
        let breaker = Some(Breaker::from(&windlass_core::policy::Breaker::default()));
        let rules = Some(KindRules::default());
        let kind = crate::KindOverview { overview: kind, registered: true, rules, breaker };
        assert_told::<KindOverview>(&kind);
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
