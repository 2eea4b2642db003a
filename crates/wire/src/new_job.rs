//! A job as described by its producer. Only the kind is required.

use crate::dependency::{Dependency, Join};
#[cfg(feature = "openapi")]
use crate::openapi;
use crate::part::Parts;
use crate::policy::{Backoff, Policy, Retention, Unique};
use crate::{bounded, is_default, is_one, one, present};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::limits::{DEPENDENCIES_MAX, TAGS_MAX};
use windlass_core::model::{self, DEFAULT_QUEUE, Due, Name};
use windlass_core::{Error, JobId, Result, Timestamp};

/// A job to enqueue.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(
    feature = "openapi",
    derive(utoipa::ToSchema),
    schema(examples(json!({
        "kind": "send_email",
        "queue": "mail",
        "payload": {"to": "ada@example.org"},
        "unique": {"key": "signup:789"},
        "max_attempts": 3
    })))
)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// Id chosen by the producer; an enqueue with the same id is idempotent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::JobId>))]
    pub id: Option<JobId>,
    /// Whether the id is derived (a version 8 UUID), as for runs of schedules. Requires the `admin`
    /// permission.
    #[serde(default, skip_serializing_if = "is_default")]
    pub derived: bool,
    /// The kind of work, which selects the handler.
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub kind: Name,
    /// The queue; `default` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub queue: Option<Name>,
    /// Lower runs first.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Priority))]
    pub priority: i32,
    /// Delay until the job is due, from its arrival at the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::DelayMs>))]
    pub delay_ms: Option<u64>,
    /// Time at which the job is due, on the store's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub run_at: Option<Timestamp>,
    /// The tenant that the job belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Label>))]
    pub tenant: Option<String>,
    /// Ordering key: jobs with the same key run one at a time, in order of their enqueue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Key>))]
    pub key: Option<String>,
    /// The group in which limits count the job; by default its tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Label>))]
    pub group: Option<String>,
    /// The tokens that its start takes from the rates of its limits.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Cost))]
    pub cost: u32,
    /// Uniqueness constraint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    /// The job that created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::JobId>))]
    pub parent: Option<JobId>,
    /// The jobs that it runs after: it is blocked until all of them have ended.
    #[serde(
        default,
        deserialize_with = "bounded::vec::<DEPENDENCIES_MAX, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::DependencyOrId>, max_items = 50000))]
    pub after: Vec<Dependency>,
    /// The job that waits for it from now on, with its other dependencies. Only for follow-ups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joins: Option<Join>,
    /// The flow that it belongs to: a name that all jobs of a graph share. Follow-ups inherit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub flow: Option<Name>,
    /// Labels for search and display.
    #[serde(
        default,
        deserialize_with = "bounded::vec::<TAGS_MAX, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::Tag>, max_items = 16))]
    pub tags: Vec<String>,
    /// Trace context (W3C `traceparent`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Trace>))]
    pub trace: Option<String>,
    /// The input as JSON.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Json))]
    pub payload: Option<Box<RawValue>>,
    /// The input in base64, if it is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Base64>))]
    pub payload_base64: Option<String>,
    /// Other parts.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    pub parts: Parts,
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

/// The due time from the two fields that can specify it.
pub(crate) fn due_in(delay_ms: Option<u64>, run_at: Option<Timestamp>) -> Result<Due> {
    match (delay_ms, run_at) {
        (None, None) => Ok(Due::Now),
        (Some(ms), None) => Ok(Due::After(ms)),
        (None, Some(at)) => Ok(Due::At(at)),
        (Some(_), Some(at)) => {
            Err(Error::invalid("run_at", at, "give `run_at` or `delay_ms`, not both"))
        }
    }
}

/// The two fields for a due time.
pub(crate) const fn due_out(due: Due) -> (Option<u64>, Option<Timestamp>) {
    match due {
        Due::Now => (None, None),
        Due::After(ms) => (Some(ms), None),
        Due::At(at) => (None, Some(at)),
    }
}

impl NewJob {
    /// Converts to the core job.
    pub fn into_core(self) -> Result<model::NewJob> {
        let policy = Policy {
            max_attempts: self.max_attempts,
            backoff: self.backoff,
            timeout_ms: self.timeout_ms,
            max_crashes: self.max_crashes,
            max_wait_ms: self.max_wait_ms,
            retention: self.retention,
        };
        let mut job = model::NewJob::new(self.kind);
        (job.id, job.derived) = (self.id, self.derived);
        job.queue = self.queue.unwrap_or_else(|| DEFAULT_QUEUE.into());
        job.priority = self.priority;
        job.due = due_in(self.delay_ms, self.run_at)?;
        job.tenant = self.tenant;
        job.key = self.key;
        (job.group, job.cost) = (self.group, self.cost);
        job.unique = self.unique.map(Into::into);
        job.parent = self.parent;
        job.after = self.after.into_iter().map(Dependency::into_core).collect::<Result<_>>()?;
        job.joins = self.joins.map(Into::into);
        job.flow = self.flow;
        job.tags = self.tags;
        job.trace = self.trace;
        job.parts = self.parts.gather(self.payload, self.payload_base64)?;
        job.policy = policy.into();
        Ok(job)
    }
}

impl From<model::NewJob> for NewJob {
    fn from(job: model::NewJob) -> Self {
        let (payload, payload_base64, parts) = Parts::spread(job.parts);
        let (delay_ms, run_at) = due_out(job.due);
        let policy = Policy::unusual(job.policy);
        Self {
            id: job.id,
            derived: job.derived,
            kind: job.kind,
            queue: (*job.queue != *DEFAULT_QUEUE).then_some(job.queue),
            priority: job.priority,
            delay_ms,
            run_at,
            tenant: job.tenant,
            key: job.key,
            group: job.group,
            cost: job.cost,
            unique: job.unique.map(Into::into),
            parent: job.parent,
            after: job.after.into_iter().map(Into::into).collect(),
            joins: job.joins.map(Into::into),
            flow: job.flow,
            tags: job.tags,
            trace: job.trace,
            payload,
            payload_base64,
            parts,
            max_attempts: policy.max_attempts,
            backoff: policy.backoff,
            timeout_ms: policy.timeout_ms,
            max_crashes: policy.max_crashes,
            max_wait_ms: policy.max_wait_ms,
            retention: policy.retention,
        }
    }
}
