//! Policies of a job. All fields are optional and have defaults.

#[cfg(feature = "openapi")]
use crate::openapi;
use serde::{Deserialize, Serialize};
use windlass_core::limits;
use windlass_core::model;
use windlass_core::policy::{self, KeepMaxFields, OnConflict, UniqueScope, Until};

/// A uniqueness constraint.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Unique {
    /// The key.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Key))]
    pub key: String,
    /// Scope of the key: `lane`, `queue`, `kind` or `global`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::UniqueScope))]
    pub scope: UniqueScope,
    /// How long the key is held: until the job ends (`finished`), until it is removed (`removed`), or for a time
    /// from the enqueue (`window_ms`).
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::UniqueUntil))]
    pub until: Until,
    /// How to handle a job whose key is held: `existing`, `replace`, `debounce`, `throttle` or
    /// `reject`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::OnConflict))]
    pub on_conflict: OnConflict,
}

impl From<policy::Unique> for Unique {
    fn from(unique: policy::Unique) -> Self {
        let policy::UniqueFields { key, scope, until, on_conflict } = unique.into();
        Self { key, scope, until, on_conflict }
    }
}

impl From<Unique> for policy::Unique {
    fn from(unique: Unique) -> Self {
        let Unique { key, scope, until, on_conflict } = unique;
        policy::UniqueFields { key, scope, until, on_conflict }.into()
    }
}

/// Delay after a failed attempt.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Backoff {
    /// A delay that doubles with each failure.
    Exponential {
        /// The delay after the first failure.
        #[serde(default = "base_ms")]
        #[cfg_attr(feature = "openapi", schema(value_type = openapi::BackoffMs))]
        base_ms: u64,
        /// The maximum delay before jitter.
        #[serde(default = "cap_ms")]
        #[cfg_attr(feature = "openapi", schema(value_type = openapi::BackoffMs))]
        cap_ms: u64,
        /// Maximum of the random jitter.
        #[serde(default = "jitter_ms")]
        #[cfg_attr(feature = "openapi", schema(value_type = openapi::BackoffMs))]
        jitter_ms: u64,
    },
    /// A constant delay.
    Fixed {
        /// The delay.
        #[cfg_attr(feature = "openapi", schema(value_type = openapi::BackoffMs))]
        delay_ms: u64,
        /// Maximum of the random jitter.
        #[serde(default)]
        #[cfg_attr(feature = "openapi", schema(value_type = openapi::BackoffMs))]
        jitter_ms: u64,
    },
}

const fn base_ms() -> u64 {
    limits::BACKOFF_BASE_DEFAULT_MS
}

const fn cap_ms() -> u64 {
    limits::BACKOFF_CAP_DEFAULT_MS
}

const fn jitter_ms() -> u64 {
    limits::BACKOFF_JITTER_DEFAULT_MS
}

impl From<Backoff> for policy::Backoff {
    fn from(backoff: Backoff) -> Self {
        match backoff {
            Backoff::Exponential { base_ms, cap_ms, jitter_ms } => {
                Self::Exponential { base_ms, cap_ms, jitter_ms }
            }
            Backoff::Fixed { delay_ms, jitter_ms } => Self::Fixed { delay_ms, jitter_ms },
        }
    }
}

impl From<policy::Backoff> for Backoff {
    fn from(backoff: policy::Backoff) -> Self {
        match backoff {
            policy::Backoff::Exponential { base_ms, cap_ms, jitter_ms } => {
                Self::Exponential { base_ms, cap_ms, jitter_ms }
            }
            policy::Backoff::Fixed { delay_ms, jitter_ms } => Self::Fixed { delay_ms, jitter_ms },
            // Core may add variants; approximate them with the delay after the first failure.
            other => Self::Fixed { delay_ms: other.delay_max_ms(1), jitter_ms: 0 },
        }
    }
}

/// Number of ended jobs that a queue keeps, by state; absent members are unlimited.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct KeepMax {
    /// Completed jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::KeepCount>))]
    pub completed: Option<u64>,
    /// Cancelled jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::KeepCount>))]
    pub cancelled: Option<u64>,
    /// Dead jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::KeepCount>))]
    pub dead: Option<u64>,
    /// Expired jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::KeepCount>))]
    pub expired: Option<u64>,
}

impl From<KeepMax> for policy::KeepMax {
    fn from(KeepMax { completed, cancelled, dead, expired }: KeepMax) -> Self {
        KeepMaxFields { completed, cancelled, dead, expired }.into()
    }
}

impl From<policy::KeepMax> for KeepMax {
    fn from(keep_max: policy::KeepMax) -> Self {
        let KeepMaxFields { completed, cancelled, dead, expired } = keep_max.into();
        Self { completed, cancelled, dead, expired }
    }
}

/// Retention of a finished job.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Retention of completed and cancelled jobs.
    #[serde(default = "finished_ms")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::AgeMs))]
    pub finished_ms: u64,
    /// Retention of dead jobs.
    #[serde(default = "dead_ms")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::AgeMs))]
    pub dead_ms: u64,
    /// Retention of expired jobs.
    #[serde(default = "expired_ms")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::AgeMs))]
    pub expired_ms: u64,
}

const fn finished_ms() -> u64 {
    limits::RETENTION_FINISHED_DEFAULT_MS
}

const fn dead_ms() -> u64 {
    limits::RETENTION_DEAD_DEFAULT_MS
}

const fn expired_ms() -> u64 {
    limits::RETENTION_EXPIRED_DEFAULT_MS
}

impl From<Retention> for policy::Retention {
    fn from(retention: Retention) -> Self {
        let Retention { finished_ms, dead_ms, expired_ms } = retention;
        policy::RetentionFields { finished_ms, dead_ms, expired_ms }.into()
    }
}

impl From<policy::Retention> for Retention {
    fn from(retention: policy::Retention) -> Self {
        let policy::RetentionFields { finished_ms, dead_ms, expired_ms } = retention.into();
        Self { finished_ms, dead_ms, expired_ms }
    }
}

/// A policy. In jobs, these fields are at the top level.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Number of failed attempts after which the job is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::MaxAttempts>))]
    pub max_attempts: Option<u32>,
    /// Delay after a failed attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// Maximum run time of a handler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::TimeoutMs>))]
    pub timeout_ms: Option<u64>,
    /// Number of lost leases that the job survives; one more and it is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::MaxCrashes>))]
    pub max_crashes: Option<u32>,
    /// Maximum time that the job may be due without starting; then it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::SpanMs>))]
    pub max_wait_ms: Option<u64>,
    /// Retention once finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
}

impl From<Policy> for model::Policy {
    fn from(policy: Policy) -> Self {
        let mut full = Self::default();
        if let Some(attempts) = policy.max_attempts {
            full.max_attempts = attempts;
        }
        if let Some(backoff) = policy.backoff {
            full.backoff = backoff.into();
        }
        if let Some(crashes) = policy.max_crashes {
            full.max_crashes = crashes;
        }
        full.timeout_ms = policy.timeout_ms;
        full.max_wait_ms = policy.max_wait_ms;
        full.retention = policy.retention.map(Into::into);
        full
    }
}

impl From<model::Policy> for Policy {
    fn from(policy: model::Policy) -> Self {
        Self {
            max_attempts: Some(policy.max_attempts),
            backoff: Some(policy.backoff.into()),
            timeout_ms: policy.timeout_ms,
            max_crashes: Some(policy.max_crashes),
            max_wait_ms: policy.max_wait_ms,
            retention: policy.retention.map(Into::into),
        }
    }
}

impl Policy {
    /// Keeps only fields that differ from the defaults, to keep requests small.
    pub(crate) fn unusual(policy: model::Policy) -> Self {
        let usual = model::Policy::default();
        let (attempts, crashes) = (policy.max_attempts, policy.max_crashes);
        Self {
            max_attempts: (attempts != usual.max_attempts).then_some(attempts),
            backoff: (policy.backoff != usual.backoff).then(|| policy.backoff.into()),
            max_crashes: (crashes != usual.max_crashes).then_some(crashes),
            ..Self::from(policy)
        }
    }
}
