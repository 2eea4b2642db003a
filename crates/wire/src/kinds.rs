//! Registered kinds: their rules, and the state of their circuit breakers.

#[cfg(feature = "openapi")]
use crate::openapi;
use crate::policy::Backoff;
use crate::queues::Overview;
use crate::{is_default, present};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::Timestamp;
use windlass_core::engine::{self, Cursor};
use windlass_core::model::{self, KindSettings};
use windlass_core::policy;

/// The rules of a kind; absent rules do not apply.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "openapi",
    derive(utoipa::ToSchema),
    schema(examples(json!({
        "schema": {"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}}},
        "payload_bytes_max": 4096,
        "breaker": {}
    })))
)]
#[serde(deny_unknown_fields)]
pub struct KindRules {
    /// JSON Schema for payloads. References must stay within it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Json, required = false))]
    pub schema: Option<Box<RawValue>>,
    /// Maximum bytes of a payload, if lower than the store's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::PayloadBytes>))]
    pub payload_bytes_max: Option<u64>,
    /// Maximum number of attempts, for jobs with the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::MaxAttempts>))]
    pub max_attempts: Option<u32>,
    /// Maximum run time of a handler, for jobs without their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::TimeoutMs>))]
    pub timeout_ms: Option<u64>,
    /// Maximum waiting time, for jobs without their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::SpanMs>))]
    pub max_wait_ms: Option<u64>,
    /// Delay after a failure, for jobs with the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// Allowed priorities; any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<PriorityRule>,
    /// Whether a replay must repeat the kind as confirmation.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sensitive: bool,
    /// The circuit breaker; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerPolicy>,
    /// How its completed jobs are checked; not at all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckRule>,
}

/// A check of a sample of the completed jobs of a kind. It gets the payload of the job, and its result as an input.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CheckRule {
    /// Kind of the checks.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub kind: String,
    /// Queue of the checks; that of the checked job by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub queue: Option<String>,
    /// Checked jobs out of 1,000 completed ones; selected by their ids.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::PerMille))]
    pub sample_per_mille: u32,
    /// Time between the completion and the check; none by default.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::DelayMs, required = false))]
    pub after_ms: u64,
}

impl CheckRule {
    fn into_core(self) -> model::CheckRule {
        let mut rule = model::CheckRule::new(self.kind);
        rule.queue = self.queue.map(Into::into);
        rule.per_mille(self.sample_per_mille).after_ms(self.after_ms)
    }
}

impl From<model::CheckRule> for CheckRule {
    fn from(rule: model::CheckRule) -> Self {
        Self {
            kind: rule.kind.to_string(),
            queue: rule.queue.map(|queue| queue.to_string()),
            sample_per_mille: rule.sample_per_mille,
            after_ms: rule.after_ms,
        }
    }
}

/// The checks of the completed jobs of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Checks {
    /// Kind of the checks.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub kind: String,
    /// Checked jobs out of 1,000 completed ones.
    pub sample_per_mille: u32,
    /// Jobs of that kind that wait or run.
    pub pending: u64,
    /// Dead jobs of that kind: checks that failed, until they are replayed or removed.
    pub failed: u64,
}

impl Checks {
    /// The checks under this rule, counted in the lanes of their kind.
    pub fn of(rule: &model::CheckRule, lanes: &[engine::LaneStats]) -> Self {
        let own = lanes.iter().filter(|lane| lane.kind == rule.kind);
        let sums = engine::LaneSums::of(own);
        Self {
            kind: rule.kind.to_string(),
            sample_per_mille: rule.sample_per_mille,
            pending: sums.depth + sums.running,
            failed: sums.dead,
        }
    }
}

/// The priorities of a kind. A job outside the range is refused.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PriorityRule {
    /// The lowest number, the most urgent priority.
    #[serde(default = "priority_min")]
    pub min: i32,
    /// The highest number.
    #[serde(default = "priority_max")]
    pub max: i32,
    /// The priority of jobs that leave it at 0.
    #[serde(default)]
    pub default: i32,
}

const fn priority_min() -> i32 {
    i32::MIN
}

const fn priority_max() -> i32 {
    i32::MAX
}

impl From<PriorityRule> for model::PriorityRule {
    fn from(PriorityRule { min, max, default }: PriorityRule) -> Self {
        Self { min, max, default }
    }
}

impl From<model::PriorityRule> for PriorityRule {
    fn from(model::PriorityRule { min, max, default }: model::PriorityRule) -> Self {
        Self { min, max, default }
    }
}

/// When a circuit breaker opens, and how often it probes; `{}` uses the defaults.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BreakerPolicy {
    /// Time window of outcomes; 5 minutes by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::BreakerMs>))]
    pub window_ms: Option<u64>,
    /// Error rate above which it opens, in percent; 80 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Percent>))]
    pub error_rate_percent: Option<u8>,
    /// Minimum number of outcomes to open; 20 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::BreakerSamples>))]
    pub min_samples: Option<u64>,
    /// Interval at which an open breaker admits one job; one minute by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::BreakerMs>))]
    pub probe_every_ms: Option<u64>,
}

impl BreakerPolicy {
    fn into_core(self) -> policy::BreakerPolicy {
        let mut full = policy::BreakerPolicy::new();
        full.window_ms = self.window_ms.unwrap_or(full.window_ms);
        full.error_rate_percent = self.error_rate_percent.unwrap_or(full.error_rate_percent);
        full.min_samples = self.min_samples.unwrap_or(full.min_samples);
        full.probe_every_ms = self.probe_every_ms.unwrap_or(full.probe_every_ms);
        full
    }
}

impl From<policy::BreakerPolicy> for BreakerPolicy {
    fn from(policy: policy::BreakerPolicy) -> Self {
        Self {
            window_ms: Some(policy.window_ms),
            error_rate_percent: Some(policy.error_rate_percent),
            min_samples: Some(policy.min_samples),
            probe_every_ms: Some(policy.probe_every_ms),
        }
    }
}

impl KindRules {
    /// Converts to the core rules.
    pub fn into_core(self) -> model::KindRules {
        let mut rules = model::KindRules::default();
        rules.schema = self.schema.map(|schema| schema.get().to_owned());
        rules.payload_bytes_max = self.payload_bytes_max;
        rules.max_attempts = self.max_attempts;
        (rules.timeout_ms, rules.max_wait_ms) = (self.timeout_ms, self.max_wait_ms);
        rules.backoff = self.backoff.map(Into::into);
        rules.priority = self.priority.map(Into::into);
        rules.sensitive = self.sensitive;
        rules.breaker = self.breaker.map(BreakerPolicy::into_core);
        rules.check = self.check.map(CheckRule::into_core);
        rules
    }
}

impl From<model::KindRules> for KindRules {
    fn from(rules: model::KindRules) -> Self {
        Self {
            // Servers store valid JSON only; omit a schema that was stored otherwise and is
            // invalid.
            schema: rules.schema.and_then(|text| RawValue::from_string(text).ok()),
            payload_bytes_max: rules.payload_bytes_max,
            max_attempts: rules.max_attempts,
            timeout_ms: rules.timeout_ms,
            max_wait_ms: rules.max_wait_ms,
            backoff: rules.backoff.map(Into::into),
            priority: rules.priority.map(Into::into),
            sensitive: rules.sensitive,
            breaker: rules.breaker.map(Into::into),
            check: rules.check.map(Into::into),
        }
    }
}

/// The state of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BreakerWord {
    /// Jobs run normally.
    Closed,
    /// Jobs wait.
    Open,
    /// Jobs wait while one job runs as a probe.
    Probing,
}

/// The circuit breaker of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Breaker {
    /// The state.
    pub state: BreakerWord,
    /// When it opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub since: Option<Timestamp>,
    /// Earliest time of the next probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub next_probe_at: Option<Timestamp>,
}

impl From<&policy::Breaker> for Breaker {
    fn from(breaker: &policy::Breaker) -> Self {
        let since = breaker.open_since();
        let (state, next_probe_at) = match breaker {
            policy::Breaker::Open { next_probe_at, .. } => {
                (BreakerWord::Open, Some(*next_probe_at))
            }
            policy::Breaker::Probing { until, .. } => (BreakerWord::Probing, Some(*until)),
            policy::Breaker::Closed { .. } => (BreakerWord::Closed, None),
            // A state of a newer core: it holds no jobs back as far as clients can tell.
            _ => (BreakerWord::Closed, None),
        };
        Self { state, since, next_probe_at }
    }
}

/// A page of the kinds with jobs, settings or rules.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Kinds {
    /// The kinds, sorted by name.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::KindOverview>))]
    pub kinds: Vec<KindOverview>,
    /// Cursor of the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Cursor>))]
    pub next: Option<Cursor>,
}

/// A kind: its settings, statistics, rules and circuit breaker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KindOverview {
    /// Settings and statistics.
    #[serde(flatten)]
    pub overview: Overview<KindSettings>,
    /// Whether it has rules.
    #[serde(default)]
    pub registered: bool,
    /// Its rules; only in the reply for a single kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<KindRules>,
    /// Its circuit breaker, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker: Option<Breaker>,
    /// The checks of its completed jobs, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Checks>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_arrive_as_they_were_sent_and_an_unknown_one_is_refused() {
        let mut rules = model::KindRules::default();
        rules.schema = Some(r#"{"type":  "object"}"#.to_owned());
        (rules.payload_bytes_max, rules.max_attempts) = (Some(5), Some(6));
        (rules.timeout_ms, rules.max_wait_ms, rules.sensitive) = (Some(7), Some(8), true);
        rules.backoff = Some(policy::Backoff::exactly(9));
        rules.priority = Some(model::PriorityRule { min: -4, max: 4, default: 1 });
        rules.breaker = Some(policy::BreakerPolicy::new().min_samples(3));
        rules.check = Some(model::CheckRule::new("c").queue("q").per_mille(7).after_ms(9));
        let text = crate::write(&KindRules::from(rules.clone()));
        assert_eq!(crate::read::<KindRules>(&text).unwrap().into_core(), rules);
        let usual: KindRules = crate::read(br#"{"breaker": {}}"#).unwrap();
        assert_eq!(usual.into_core().breaker, Some(policy::BreakerPolicy::new()));
        let error = crate::read::<KindRules>(br#"{"breaker": {"windw_ms": 1}}"#).unwrap_err();
        assert_eq!(error.field(), Some("breaker.windw_ms"));
    }
}
