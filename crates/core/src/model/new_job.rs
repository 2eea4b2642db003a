//! A job to enqueue, as described by its producer.

use super::dependency::check_dependencies;
use super::{Dependency, Header, Join, Name, Part, Parts, Policy};
use crate::error::{Error, Result, within_limit, within_range};
use crate::id::JobId;
use crate::limits;
use crate::name::{check_name, check_text};
use crate::policy::{Backoff, Unique};
use crate::time::Timestamp;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The queue of a job that names none.
pub const DEFAULT_QUEUE: &str = "default";

/// When a job should run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Due {
    /// As soon as possible.
    #[default]
    Now,
    /// At a time of the store's clock; a time in the past means now.
    At(Timestamp),
    /// This many milliseconds after the store has received it, independent of the producer's clock.
    After(u64),
}

impl Due {
    /// The run time, for a store whose clock is at `now`; never before `now`.
    pub fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Now => now,
            Self::At(at) => at.max(now),
            Self::After(ms) => now.plus(ms),
        }
    }

    /// Checks that the time is within its limits. The error names the field that the caller sent, with its value.
    pub(crate) fn check(self, now: Timestamp) -> Result<()> {
        let days_max = limits::DELAY_MAX_MS / crate::time::DAY_MS;
        match self {
            Self::At(at) if at < Timestamp::EPOCH || at.since(now) > limits::DELAY_MAX_MS => {
                let expected = format!("it must be between 1970 and {days_max} days ahead");
                Err(Error::invalid("run_at", at, expected))
            }
            Self::After(ms) if ms > limits::DELAY_MAX_MS => {
                let limit = limits::DELAY_MAX_MS;
                let expected = format!("it must be at most {limit} ({days_max} days)");
                Err(Error::invalid("delay_ms", ms, expected))
            }
            Self::Now | Self::At(_) | Self::After(_) => Ok(()),
        }
    }
}

/// A job to enqueue. Only the kind is required.
///
/// ```
/// use windlass_core::model::{Due, NewJob};
///
/// let job = NewJob::new("resize_image").queue("media").priority(-5).due(Due::After(10_000));
/// assert_eq!(&*job.queue, "media");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewJob {
    /// An id chosen by the producer; otherwise the store generates one. Enqueueing the same id again stores
    /// nothing new.
    pub id: Option<JobId>,
    /// Whether Windlass derived the id, which producers may not do: see [`NewJob::derived_id`].
    pub derived: bool,
    /// The queue, the unit of settings and of atomicity.
    pub queue: Name,
    /// The kind, which selects the handler.
    pub kind: Name,
    /// Lower runs first.
    pub priority: i32,
    /// When it should run.
    pub due: Due,
    /// The tenant that the job belongs to, for fair sharing and for display.
    pub tenant: Option<String>,
    /// Ordering key: one job per key at a time, in the order of enqueueing.
    pub key: Option<String>,
    /// The group in which limits count the job; by default its tenant.
    pub group: Option<String>,
    /// The tokens that its start takes from the rates of its limits.
    pub cost: u32,
    /// The uniqueness rule; see [`Unique`].
    pub unique: Option<Unique>,
    /// The job that created it. Set by the engine for follow-ups.
    pub parent: Option<JobId>,
    /// The jobs that it runs after: it is blocked until all of them have ended.
    pub after: Vec<Dependency>,
    /// The job that waits for it from now on. Only for follow-ups.
    pub joins: Option<Join>,
    /// The flow that it belongs to: a name that all jobs of a graph share. Follow-ups inherit it.
    pub flow: Option<Name>,
    /// Free-form labels.
    pub tags: Vec<String>,
    /// Trace context (W3C `traceparent`), passed to the handler.
    pub trace: Option<String>,
    /// Its payload, checkpoint, blob and metadata.
    pub parts: Parts,
    /// Its policy.
    pub policy: Policy,
}

impl NewJob {
    /// A job of `kind` with default values.
    pub fn new(kind: impl Into<Name>) -> Self {
        Self {
            id: None,
            derived: false,
            queue: DEFAULT_QUEUE.into(),
            kind: kind.into(),
            priority: 0,
            due: Due::Now,
            tenant: None,
            key: None,
            group: None,
            cost: 1,
            unique: None,
            parent: None,
            after: Vec::new(),
            joins: None,
            flow: None,
            tags: Vec::new(),
            trace: None,
            parts: Parts::default(),
            policy: Policy::default(),
        }
    }

    /// Sets the id (version 7).
    #[must_use]
    pub const fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets a derived id (version 8), as used for fires of schedules. For code that acts on behalf of the
    /// store, not for producers: over HTTP it requires the permission `admin`.
    ///
    /// If a job of another queue, kind or parent already has this id, the enqueue is refused, because it is
    /// not the same job.
    #[must_use]
    pub const fn derived_id(mut self, id: JobId) -> Self {
        (self.id, self.derived) = (Some(id), true);
        self
    }

    /// Sets the queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<Name>) -> Self {
        self.queue = queue.into();
        self
    }

    /// Sets the priority; lower runs first.
    #[must_use]
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets when it should run.
    #[must_use]
    pub const fn due(mut self, due: Due) -> Self {
        self.due = due;
        self
    }

    /// Sets the tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Sets the ordering key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the group in which limits count the job.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Sets the tokens that its start takes from the rates of its limits.
    #[must_use]
    pub const fn cost(mut self, cost: u32) -> Self {
        self.cost = cost;
        self
    }

    /// Whether the job has a group or a cost, which only limits use.
    pub const fn names_limits(&self) -> bool {
        self.group.is_some() || self.cost != 1
    }

    /// Sets the uniqueness rule.
    #[must_use]
    pub fn unique(mut self, unique: Unique) -> Self {
        self.unique = Some(unique);
        self
    }

    /// Adds a job that this one runs after.
    ///
    /// ```
    /// use windlass_core::model::{Dependency, NewJob, OnFailure};
    /// # use windlass_core::JobId;
    /// # let (resize, upload) = (JobId::from_bytes([1; 16]), JobId::from_bytes([2; 16]));
    /// let upload = Dependency::on(upload).named("upload").on_failure(OnFailure::Run);
    /// let notify = NewJob::new("notify").after(resize).after(upload);
    /// assert_eq!(notify.after.len(), 2);
    /// ```
    #[must_use]
    pub fn after(mut self, dependency: impl Into<Dependency>) -> Self {
        self.after.push(dependency.into());
        self
    }

    /// Sets the flow that it belongs to.
    #[must_use]
    pub fn flow(mut self, flow: impl Into<Name>) -> Self {
        self.flow = Some(flow.into());
        self
    }

    /// Makes it a dependency of a job that waits already, for a follow-up.
    ///
    /// ```
    /// use windlass_core::model::{Join, NewJob};
    ///
    /// let child = NewJob::new("resize").joins(Join::SELF.named("small"));
    /// assert!(child.joins.is_some_and(|join| join.to.is_none()));
    /// ```
    #[must_use]
    pub fn joins(mut self, join: Join) -> Self {
        self.joins = Some(join);
        self
    }

    /// Whether the job has dependencies, joins a job, or belongs to a flow.
    pub const fn names_flows(&self) -> bool {
        !self.after.is_empty() || self.joins.is_some() || self.flow.is_some()
    }

    /// Adds a tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Sets the payload to these bytes.
    #[must_use]
    pub fn payload(mut self, bytes: impl Into<Bytes>) -> Self {
        self.parts.payload = Some(Part::new(bytes));
        self
    }

    /// Sets the payload to this JSON text.
    #[must_use]
    pub fn json(self, text: impl Into<String>) -> Self {
        self.payload(text.into())
    }

    /// Sets the number of failed attempts after which the job is dead.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.policy.max_attempts = attempts;
        self
    }

    /// Sets the number of lost leases above which the job is dead.
    #[must_use]
    pub const fn max_crashes(mut self, crashes: u32) -> Self {
        self.policy.max_crashes = crashes;
        self
    }

    /// Sets the delay after a failure.
    #[must_use]
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.policy.backoff = backoff;
        self
    }

    /// Expires the job if it has been due this long without being started.
    #[must_use]
    pub const fn max_wait_ms(mut self, ms: u64) -> Self {
        self.policy.max_wait_ms = Some(ms);
        self
    }

    /// Turns this job into the `index`-th follow-up of `parent`'s attempt that started at `started_at`: sets
    /// a derived id, the parent, and the parent's trace and flow unless the job has its own.
    ///
    /// The time in the id of a follow-up is the start of the attempt, or the earliest time allowed at `now`,
    /// because some attempts take days.
    #[must_use]
    pub fn follow_up_of(
        mut self,
        parent: &Header,
        index: usize,
        started_at: Timestamp,
        now: Timestamp,
    ) -> Self {
        let attempt = parent.counters.attempt;
        let made_at = started_at.max(now.minus(limits::ID_SKEW_MAX_MS));
        if self.id.is_none() {
            self = self.derived_id(JobId::follow_up(parent.id, attempt, index, made_at));
        }
        self.parent.get_or_insert(parent.id);
        self.trace = self.trace.or_else(|| parent.trace.clone());
        self.flow = self.flow.or_else(|| parent.flow.clone());
        self
    }

    /// Validates the job at `now`, for an engine with this payload limit.
    pub fn check(&self, now: Timestamp, payload_bytes_max: usize) -> Result<()> {
        match self.id {
            Some(id) if self.derived => id.check_derived(now)?,
            Some(id) => id.check(now)?,
            None if self.derived => {
                return Err(Error::invalid("derived", true, "give the derived `id`, too"));
            }
            None => {}
        }
        check_name("queue", &self.queue)?;
        check_name("kind", &self.kind)?;
        self.due.check(now)?;
        if let Some(tenant) = &self.tenant {
            check_text("tenant", tenant, limits::NAME_BYTES_MAX)?;
        }
        if let Some(key) = &self.key {
            check_text("key", key, limits::KEY_BYTES_MAX)?;
        }
        if let Some(group) = &self.group {
            check_text("group", group, limits::GROUP_BYTES_MAX)?;
        }
        within_range("cost", self.cost.into(), 1..=limits::LIMIT_AMOUNT_MAX.into())?;
        if let Some(unique) = &self.unique {
            unique.check()?;
        }
        check_dependencies(&self.after, self.id)?;
        if let Some(name) = self.joins.as_ref().and_then(|join| join.name.as_ref()) {
            check_text("joins.name", name, limits::NAME_BYTES_MAX)?;
        }
        if let Some(flow) = &self.flow {
            check_name("flow", flow)?;
        }
        within_limit("tags", self.tags.len(), limits::TAGS_MAX, "use fewer tags")?;
        for tag in &self.tags {
            check_text("tags", tag, limits::TAG_BYTES_MAX)?;
        }
        if let Some(trace) = &self.trace {
            check_text("trace", trace, limits::TRACE_BYTES_MAX)?;
        }
        self.parts.check(payload_bytes_max)?;
        self.policy.check()
    }
}
