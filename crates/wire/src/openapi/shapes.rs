//! Schemas of core objects that are used in the wire format unchanged.

use super::{
    AttemptEnd, Depth, Lease, Name, QueueOrder, SessionId, SpanMs, Timestamp, Whole, Whole32,
};
use crate::{
    Breaker, Checks, Counts, EventBounds, KeepMax, KindRules, Lane, Limit, List, Reason, Retention,
    Subscription,
};
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{IntoParams, ToSchema};

/// One attempt of a job.
#[derive(Debug, ToSchema)]
pub struct Attempt {
    /// Number of the attempt, from 1.
    pub number: u32,
    /// Name of the worker that ran it.
    pub worker: String,
    /// When it was claimed.
    #[schema(value_type = Timestamp)]
    pub started_at: i64,
    /// When it was settled or its lease was found lost.
    #[schema(value_type = Timestamp)]
    pub ended_at: i64,
    /// How it ended.
    pub end: AttemptEnd,
    /// The error, if it failed.
    pub error: Option<Reason>,
}

/// The current attempt of a running job.
#[derive(Debug, ToSchema)]
pub struct Running {
    /// The session that holds its lease.
    pub session: SessionId,
    /// Name of the worker.
    pub worker: String,
    /// Host of the worker, if the worker sent it.
    pub host: Option<String>,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// When the lease expires unless the worker extends it.
    #[schema(value_type = Timestamp)]
    pub expires_at: i64,
}

/// A line of a job's log.
#[derive(Debug, ToSchema)]
pub struct LogLine {
    /// When the store received it.
    #[schema(value_type = Timestamp)]
    pub at: i64,
    /// The text.
    pub text: String,
}

/// What a job needs to continue after it has waited.
#[derive(Debug, ToSchema)]
pub struct Continuation {
    /// The signals that it waits for.
    pub wait: Option<SignalWait>,
    /// Signals that no wait has taken yet, oldest first.
    #[schema(required = false)]
    pub inbox: Vec<crate::Signal>,
    /// The ids of the latest signals.
    #[schema(required = false)]
    pub seen: Vec<String>,
    /// What ended its last wait.
    pub wake: Option<Wake>,
    /// The steps that its handler has recorded, in order.
    #[schema(required = false)]
    pub steps: Vec<Step>,
}

/// A recorded step of a handler.
#[derive(Debug, ToSchema)]
pub struct Step {
    /// The name, unique in the job.
    pub name: Name,
    /// What it does.
    pub kind: StepKind,
    /// Its result.
    #[schema(required = false, value_type = super::Json)]
    pub result: Option<String>,
}

/// What a step does.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum StepKind {
    /// Runs code, whose result is stored.
    Run,
    /// Waits for a time.
    Sleep,
    /// Waits for a signal.
    Signal,
    /// Creates jobs and waits for them.
    Children,
}

/// A wait for signals.
#[derive(Debug, ToSchema)]
pub struct SignalWait {
    /// The names, of which one is enough; any signal if there are none.
    #[schema(required = false)]
    pub signals: Vec<Name>,
    /// How long it waits at most.
    pub timeout_ms: Option<super::BackoffMs>,
}

/// What ended a wait.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum Wake {
    /// This signal.
    Signal(crate::Signal),
    /// The time ran out before one of these signals arrived.
    TimedOut(Vec<Name>),
}

/// The settings of a queue.
#[derive(Debug, ToSchema)]
pub struct QueueSettings {
    /// Whether claims skip it.
    pub paused: bool,
    /// Depth limit: enqueues are refused when this number of jobs wait.
    pub max_depth: Option<Depth>,
    /// Order of its ready jobs.
    pub order: QueueOrder,
    /// Retention of finished jobs without their own.
    pub retention: Retention,
    /// Maximum waiting time of jobs without their own.
    pub max_wait_ms: Option<SpanMs>,
    /// Maximum total bytes of dead letters; beyond it, the oldest are removed.
    pub dead_bytes_max: Option<Whole>,
    /// Number of ended jobs to keep, by state.
    pub keep_max: KeepMax,
    /// Names of the limits that its jobs run under.
    #[schema(required = false)]
    pub limits: Vec<Name>,
    /// How many events it keeps, if events are on.
    #[schema(required = false)]
    pub events: Option<EventBounds>,
    /// Its subscriptions; with any, the queue is a topic.
    #[schema(required = false)]
    pub subscriptions: Vec<Subscription>,
    /// No job is claimed before this time, because a report holds the queue.
    pub held_until: Option<Timestamp>,
}

/// The settings of a kind.
#[derive(Debug, ToSchema)]
pub struct KindSettings {
    /// Whether claims skip it.
    pub paused: bool,
    /// Number of its jobs that may still start.
    pub permits: Option<Whole32>,
    /// Names of the limits that its jobs run under, beside those of their queues.
    #[schema(required = false)]
    pub limits: Vec<Name>,
}

/// The settings of one queue, by its name.
#[derive(Debug, ToSchema)]
pub struct NamedQueue {
    /// Name of the queue.
    pub name: Name,
    /// Its settings.
    pub settings: QueueSettings,
}

/// The settings of one kind, by its name.
#[derive(Debug, ToSchema)]
pub struct NamedKind {
    /// Name of the kind.
    pub name: Name,
    /// Its settings.
    pub settings: KindSettings,
}

/// One limit, by its name.
#[derive(Debug, ToSchema)]
pub struct NamedLimit {
    /// Name of the limit.
    pub name: Name,
    /// The limit.
    pub settings: Limit,
}

/// Declares the overviews of queues and kinds, as types without parameters.
macro_rules! overviews {
    ($($doc:literal $name:ident: $settings:ty { $($more:tt)* })+) => {$(
        #[doc = $doc]
        #[derive(Debug, ToSchema)]
        pub struct $name {
            /// Its name.
            pub name: Name,
            /// Its settings, including defaults.
            pub settings: $settings,
            /// Number of jobs by state.
            pub counts: Counts,
            /// Since when the job at the head of a lane is ready; the earliest over all lanes.
            pub head_ready_at: Option<Timestamp>,
            /// Time since then.
            pub head_age_ms: Option<u64>,
            /// When the first of its scheduled jobs is due.
            pub next_due_at: Option<Timestamp>,
            /// Its lanes; only in the reply for a single queue or kind.
            #[schema(required = false)]
            pub lanes: Vec<Lane>,
            $($more)*
        }
    )+};
}

overviews! {
    "A queue: its settings and statistics." QueueOverview: QueueSettings {}
    "A kind: its settings, statistics, rules and circuit breaker." KindOverview: KindSettings {
        /// Whether it has rules.
        pub registered: bool,
        /// Its rules; only in the reply for a single kind.
        pub rules: Option<KindRules>,
        /// Its circuit breaker, if any.
        pub breaker: Option<Breaker>,
        /// The checks of its completed jobs, if any.
        pub checks: Option<Checks>,
    }
}

/// Request headers for the raw bytes of a part.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
pub struct RawHeaders {
    /// The lease from the claim of the job.
    #[param(rename = "windlass-lease", value_type = Lease)]
    pub lease: String,
    /// Encoding of the bytes if they are not plain: an `Envelope` as JSON.
    #[param(rename = "windlass-envelope", value_type = String, required = false)]
    #[param(example = "{\"codec\": \"zstd\"}")]
    pub envelope: String,
}

/// Request headers of an enqueue.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
pub struct TraceHeaders {
    /// Trace context for jobs without their own (W3C Trace Context). Malformed values are ignored.
    #[param(value_type = String, required = false)]
    #[param(example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
    pub traceparent: String,
}

/// Request headers of an enqueue that can be repeated.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
pub struct IdempotencyHeaders {
    /// A repeated request with the same key (up to 200 bytes) returns the jobs that the first one stored, as long as they
    /// exist. Jobs of the request cannot have `unique`.
    #[param(rename = "idempotency-key", value_type = String, required = false)]
    #[param(example = "0190f5f6-6f3c-4d9b-9d0c-7b1f6a3f0c11")]
    pub idempotency_key: String,
}

/// Query for dead letters: the query for jobs without `state`.
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

    /// Asserts that a core value has exactly the fields of its schema.
    fn assert_described<S: PartialSchema>(value: &impl Serialize) {
        let value = serde_json::to_value(value).unwrap();
        let schema = schema::<S>();
        let reported = schema["properties"].as_object().unwrap();
        let mut fields: Vec<_> = value.as_object().unwrap().keys().collect();
        fields.sort();
        assert_eq!(fields, reported.keys().collect::<Vec<_>>());
    }

    #[test]
    fn overviews_are_described_as_they_are_written() {
        let lane = || {
            let mut lane = engine::LaneStats::empty("n".into(), "n".into());
            lane.head_ready_at = Some(windlass_core::Timestamp::EPOCH);
            lane.next_due_at = Some(windlass_core::Timestamp::EPOCH);
            lane
        };
        let now = windlass_core::Timestamp::from_millis(1);
        let queue: crate::Overview<model::QueueSettings> =
            crate::Overview::of("n".into(), Vec::new(), vec![lane()], now);
        assert_described::<QueueOverview>(&queue);
        assert_described::<Counts>(&queue.counts);
        let kind: crate::Overview<model::KindSettings> =
            crate::Overview::of("n".into(), Vec::new(), vec![lane()], now);
        let breaker = Some(Breaker::from(&windlass_core::policy::Breaker::default()));
        let rules = Some(KindRules::default());
        let checks = Some(Checks::of(&model::CheckRule::new("c"), &[]));
        let kind = crate::KindOverview { overview: kind, registered: true, rules, breaker, checks };
        assert_described::<KindOverview>(&kind);
    }

    #[test]
    fn shapes_are_described_as_core_writes_them() {
        let at = windlass_core::Timestamp::EPOCH;
        let mut attempt = model::Attempt::new(1, "w".into(), at, at, model::AttemptEnd::Fail);
        attempt.error = Some(model::JobError::new("c", "m"));
        assert_described::<Attempt>(&attempt);
        let session = windlass_core::engine::SessionId::new("s");
        let mut running = model::Running::new(session, "w".into(), 1, at);
        running.host = Some("h".into());
        assert_described::<Running>(&running);
        assert_described::<Reason>(&model::JobError::new("c", "m"));
        assert_described::<LogLine>(&model::LogLine::new(at, "x".into()));
        assert_described::<crate::Progress>(&model::Progress {
            done: 1,
            total: None,
            note: String::new(),
        });
        let mut queue = model::QueueSettings::default();
        (queue.limits, queue.held_until) = (vec!["l".into()], Some(at));
        queue.events = Some(model::EventBounds::default());
        queue.subscriptions.push(model::Subscription::new("s", "q").kinds(["k"]).tags(["t"]));
        assert_described::<QueueSettings>(&queue);
        let mut kind = model::KindSettings::default();
        kind.limits.push("l".into());
        assert_described::<KindSettings>(&kind);
        assert_described::<Retention>(&windlass_core::policy::Retention::default());
    }
}
