//! A stored job, and a claimed job: the same format, with a lease.

use crate::dependency::{Dependencies, Input};
#[cfg(feature = "openapi")]
use crate::openapi;
use crate::part::{Parts, gather, spread};
use crate::policy::{Backoff, Retention, Unique};
use crate::{bounded, is_default, is_one, one, present};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::engine::{self, ClaimedJob, Cursor, Lease};
use windlass_core::limits::ENQUEUE_BATCH_MAX;
use windlass_core::model::{
    self, Attempt, Continuation, Counters, Finish, Header, HeaderFields, JobError, LogLine, Name,
    Progress, Running, State,
};
use windlass_core::{Error, JobId, Result, Timestamp};

/// A job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[expect(missing_docs, reason = "documented at core's `Header` and `Job`")]
pub struct Job {
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::JobId))]
    pub id: JobId,
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub kind: Name,
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Name))]
    pub queue: Name,
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::State))]
    pub state: State,
    /// The lease, in the reply to a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Lease>))]
    pub lease: Option<Lease>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Json))]
    pub payload: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Base64>))]
    pub payload_base64: Option<String>,
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    pub parts: Parts,
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Priority))]
    pub priority: i32,
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub run_at: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Timestamp))]
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub started_at: Option<Timestamp>,
    /// The current attempt, while the job runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Running>))]
    pub running: Option<Running>,
    /// Number of times that the job entered a state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transitions: Option<u32>,
    /// When the job entered its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub changed_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Timestamp>))]
    pub finished_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Finish>))]
    pub finish: Option<Finish>,
    pub attempt: u32,
    pub failures: u32,
    pub crashes: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Label>))]
    pub tenant: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Key>))]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Label>))]
    pub group: Option<String>,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Cost))]
    pub cost: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::JobId>))]
    pub parent: Option<JobId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Name>))]
    pub flow: Option<Name>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::Tag>))]
    pub tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Trace>))]
    pub trace: Option<String>,
    pub max_attempts: u32,
    pub max_crashes: u32,
    pub backoff: Backoff,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wait_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub cancel_requested: bool,
    /// Whether the job waits for a signal.
    #[serde(default, skip_serializing_if = "is_default")]
    pub waits: bool,
    /// The signals that it waits for or has received. Not in listings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Continuation>))]
    pub continuation: Option<Box<Continuation>>,
    /// The jobs that it runs after, counted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dependencies: Dependencies,
    /// The jobs that it runs after, in the order of its definition. Not in listings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Input>,
    /// Whether other jobs depend on it and have not learned how it ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub followed: bool,
    /// The limits that a blocked job waits for, that let an available job become ready, or that count a running job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::Name>))]
    pub limits: Vec<Name>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::Progress>))]
    pub progress: Option<Progress>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = openapi::Json))]
    pub result: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Base64>))]
    pub result_base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::Reason>))]
    pub error: Option<JobError>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::Attempt>))]
    pub history: Vec<Attempt>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<openapi::LogLine>))]
    pub log: Vec<LogLine>,
}

/// Jobs by id, `null` for those that do not exist.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Jobs {
    /// In the order of the ids.
    pub jobs: Vec<Option<Job>>,
}

/// Jobs of another store, as `GET /v1/jobs/{id}` returns them there.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Import {
    /// The jobs, with all their parts.
    #[serde(deserialize_with = "bounded::vec::<ENQUEUE_BATCH_MAX, _, _>")]
    #[cfg_attr(feature = "openapi", schema(max_items = 10000))]
    pub jobs: Vec<Job>,
}

impl Import {
    /// Converts to the core request, and returns errors of invalid jobs with their index: each fails alone.
    pub fn into_core(self) -> (engine::Import, Vec<(usize, Error)>) {
        let (mut jobs, mut bad) = (Vec::with_capacity(self.jobs.len()), Vec::new());
        for (index, job) in self.jobs.into_iter().enumerate() {
            match job.into_core() {
                Ok(job) => jobs.push(job),
                Err(error) => bad.push((index, error)),
            }
        }
        (engine::Import::new(jobs), bad)
    }
}

/// A page of jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = JobPage))]
pub struct Page {
    /// The jobs. A page has fewer than requested at the end of the list, or if it has examined as many as it may.
    pub jobs: Vec<Job>,
    /// Cursor of the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<openapi::Cursor>))]
    pub next: Option<Cursor>,
    /// Number of jobs that were examined or passed over for this page.
    pub examined: u64,
    /// Whether the page is short because it has examined as many jobs as it may. Continue with `next`.
    #[serde(default)]
    pub cut_short: bool,
}

impl From<model::Job> for Job {
    fn from(job: model::Job) -> Self {
        let (result, result_base64, sealed_result) = spread(job.result);
        let mut view = Self::described(job.header, job.state, job.parts);
        view.parts.result = sealed_result;
        (view.result, view.result_base64) = (result, result_base64);
        view.started_at = job.started_at;
        view.running = job.running;
        (view.transitions, view.changed_at) = (Some(job.transitions), Some(job.changed_at));
        view.finished_at = job.finished_at;
        view.finish = job.finish;
        view.cancel_requested = job.cancel_requested;
        (view.waits, view.continuation) = (job.waits, job.continuation);
        (view.dependencies, view.followed) = (job.dependencies.into(), job.followed);
        view.after = job.inputs.into_iter().map(Into::into).collect();
        view.limits = job.limits;
        view.progress = job.progress;
        view.error = job.error;
        view.history = job.history;
        view.log = job.log;
        view
    }
}

impl From<ClaimedJob> for Job {
    fn from(job: ClaimedJob) -> Self {
        let mut view = Self::described(job.header, State::Running, job.parts);
        view.lease = Some(job.lease);
        view.started_at = Some(job.started_at);
        view
    }
}

impl Job {
    /// A job with only its header and parts.
    fn described(header: Header, state: State, parts: model::Parts) -> Self {
        let (payload, payload_base64, parts) = Parts::spread(parts);
        let Counters { attempt, failures, crashes } = header.counters;
        Self {
            id: header.id,
            kind: header.kind,
            queue: header.queue,
            state,
            lease: None,
            payload,
            payload_base64,
            parts,
            priority: header.priority,
            run_at: header.run_at,
            created_at: header.created_at,
            started_at: None,
            running: None,
            transitions: None,
            changed_at: None,
            finished_at: None,
            finish: None,
            attempt,
            failures,
            crashes,
            tenant: header.tenant,
            key: header.key,
            group: header.group,
            cost: header.cost,
            unique: header.unique.map(Into::into),
            parent: header.parent,
            flow: header.flow,
            tags: header.tags,
            trace: header.trace,
            max_attempts: header.policy.max_attempts,
            max_crashes: header.policy.max_crashes,
            backoff: header.policy.backoff.into(),
            timeout_ms: header.policy.timeout_ms,
            max_wait_ms: header.policy.max_wait_ms,
            retention: header.policy.retention.map(Into::into),
            cancel_requested: false,
            waits: false,
            continuation: None,
            dependencies: Dependencies::default(),
            after: Vec::new(),
            followed: false,
            limits: Vec::new(),
            progress: None,
            result: None,
            result_base64: None,
            error: None,
            history: Vec::new(),
            log: Vec::new(),
        }
    }

    /// The status of the job: without its parts, result, error, history and log, and without the results of other jobs.
    #[must_use]
    pub fn status(mut self) -> Self {
        (self.payload, self.payload_base64, self.parts) = (None, None, Parts::default());
        (self.result, self.result_base64, self.error) = (None, None, None);
        (self.continuation, self.after) = (None, Vec::new());
        (self.history, self.log) = (Vec::new(), Vec::new());
        self
    }

    /// Converts to the core job.
    pub fn into_core(mut self) -> Result<model::Job> {
        let result = (self.result.take(), self.result_base64.take(), self.parts.result.take());
        let result = gather(result, "result")?;
        let (header, parts) = self.take_described()?;
        let mut job = model::Job::new(header, self.state, parts);
        job.result = result;
        job.started_at = self.started_at;
        job.running = self.running;
        job.transitions = self.transitions.unwrap_or(job.transitions);
        job.changed_at = self.changed_at.unwrap_or(job.changed_at);
        job.finished_at = self.finished_at;
        job.finish = self.finish;
        job.cancel_requested = self.cancel_requested;
        (job.waits, job.continuation) = (self.waits, self.continuation);
        (job.dependencies, job.followed) = (self.dependencies.into(), self.followed);
        job.inputs = self.after.into_iter().map(Input::into_core).collect::<Result<_>>()?;
        job.limits = self.limits;
        job.progress = self.progress;
        job.error = self.error;
        job.history = self.history;
        job.log = self.log;
        Ok(job)
    }

    /// Converts to a claimed job.
    pub fn into_claimed(mut self) -> Result<ClaimedJob> {
        let missing = |field| Error::invalid(field, "missing", "a claimed job has it");
        let lease = self.lease.take().ok_or_else(|| missing("lease"))?;
        let started_at = self.started_at.ok_or_else(|| missing("started_at"))?;
        let (header, parts) = self.take_described()?;
        Ok(ClaimedJob::new(header, lease, started_at, parts))
    }

    /// Moves the header and parts out of the job.
    fn take_described(&mut self) -> Result<(Header, model::Parts)> {
        let parts = std::mem::take(&mut self.parts);
        let parts = parts.gather(self.payload.take(), self.payload_base64.take())?;
        let mut policy = model::Policy::default();
        policy.max_attempts = self.max_attempts;
        policy.max_crashes = self.max_crashes;
        policy.backoff = self.backoff.into();
        policy.timeout_ms = self.timeout_ms;
        policy.max_wait_ms = self.max_wait_ms;
        policy.retention = self.retention.map(Into::into);
        let (attempt, failures, crashes) = (self.attempt, self.failures, self.crashes);
        let header = Header::from(HeaderFields {
            id: self.id,
            queue: self.queue.clone(),
            kind: self.kind.clone(),
            priority: self.priority,
            run_at: self.run_at,
            created_at: self.created_at,
            tenant: self.tenant.take(),
            key: self.key.take(),
            group: self.group.take(),
            cost: self.cost,
            unique: self.unique.take().map(Into::into),
            parent: self.parent,
            flow: self.flow.take(),
            tags: std::mem::take(&mut self.tags),
            trace: self.trace.take(),
            policy,
            counters: Counters { attempt, failures, crashes },
        });
        Ok((header, parts))
    }
}

impl From<Vec<Option<model::Job>>> for Jobs {
    fn from(jobs: Vec<Option<model::Job>>) -> Self {
        Self { jobs: jobs.into_iter().map(|job| job.map(Into::into)).collect() }
    }
}

impl Jobs {
    /// Converts to core jobs.
    pub fn into_core(self) -> Result<Vec<Option<model::Job>>> {
        self.jobs.into_iter().map(|job| job.map(Job::into_core).transpose()).collect()
    }
}

impl From<engine::Page<model::Job>> for Page {
    fn from(page: engine::Page<model::Job>) -> Self {
        let engine::Page { rows, next, examined, cut_short } = page;
        let jobs = rows.into_iter().map(Into::into).collect();
        Self { jobs, next, examined, cut_short }
    }
}

impl Page {
    /// Converts to the core page.
    pub fn into_core(self) -> Result<engine::Page<model::Job>> {
        let rows = self.jobs.into_iter().map(Job::into_core).collect::<Result<_>>()?;
        let mut page = engine::Page::new(rows, self.next);
        (page.examined, page.cut_short) = (self.examined, self.cut_short);
        Ok(page)
    }
}
