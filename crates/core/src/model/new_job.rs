//! A job as its producer describes it.

use super::{Header, Name, Part, Parts, Policy};
use crate::error::{Error, Result, within_limit};
use crate::id::JobId;
use crate::limits;
use crate::name::{check_name, check_text};
use crate::policy::{Backoff, Unique};
use crate::time::Timestamp;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The queue of a job that names none.
pub const DEFAULT_QUEUE: &str = "default";

/// When a job is to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Due {
    /// As soon as possible.
    #[default]
    Now,
    /// At an instant of the store's clock; one in the past is now.
    At(Timestamp),
    /// This many milliseconds after the store received it, whatever the producer's clock says.
    After(u64),
}

impl Due {
    /// The instant, for a store whose clock says `now`; never before that.
    pub fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Now => now,
            Self::At(at) => at.max(now),
            Self::After(ms) => now.plus(ms),
        }
    }

    pub(crate) fn check(self, field: &'static str, now: Timestamp) -> Result<()> {
        let before_time = matches!(self, Self::At(at) if at < Timestamp::EPOCH);
        if before_time || self.at(now).since(now) > limits::DELAY_MAX_MS {
            return Err(Error::invalid(
                field,
                self.at(now),
                format!(
                    "it must lie between 1970 and {} days ahead",
                    limits::DELAY_MAX_MS / crate::time::DAY_MS
                ),
            ));
        }
        Ok(())
    }
}

/// A job to enqueue. Only the kind is needed.
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
    /// The producer's own id; without one the store makes it. The same id again is the same job.
    pub id: Option<JobId>,
    /// Whether the id is one that Windlass derived, which producers may not choose: see [`NewJob::derived_id`].
    pub derived: bool,
    /// The queue, unit of settings and of atomicity.
    pub queue: Name,
    /// What sort of work it is: chooses the handler.
    pub kind: Name,
    /// Lower runs first.
    pub priority: i32,
    /// When it is to run.
    pub due: Due,
    /// Whose work it is, for fair sharing and for people.
    pub tenant: Option<String>,
    /// Ordering key: one job per key at a time, in order of entry.
    pub key: Option<String>,
    /// At most one such job; see [`Unique`].
    pub unique: Option<Unique>,
    /// The job it came from. Set by the engine for follow-ups.
    pub parent: Option<JobId>,
    /// Labels for people.
    pub tags: Vec<String>,
    /// Trace context (W3C `traceparent`), carried to the handler.
    pub trace: Option<String>,
    /// Its bytes.
    pub parts: Parts,
    /// How it wants to be treated.
    pub policy: Policy,
}

impl NewJob {
    /// A job of `kind` with every default.
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
            unique: None,
            parent: None,
            tags: Vec::new(),
            trace: None,
            parts: Parts::default(),
            policy: Policy::default(),
        }
    }

    /// With this id, a version 7.
    #[must_use]
    pub const fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    /// With an id that was derived (version 8), as those of schedules' fires are. For code that acts for the store, not
    /// for producers: over HTTP it takes the permission `admin`.
    ///
    /// If a job of another queue, kind or parent has this id already, the enqueue is refused: it is not the same job.
    #[must_use]
    pub const fn derived_id(mut self, id: JobId) -> Self {
        (self.id, self.derived) = (Some(id), true);
        self
    }

    /// On this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<Name>) -> Self {
        self.queue = queue.into();
        self
    }

    /// With this priority; lower runs first.
    #[must_use]
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// To run then.
    #[must_use]
    pub const fn due(mut self, due: Due) -> Self {
        self.due = due;
        self
    }

    /// For this tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// In order with the others of this key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Unique like this.
    #[must_use]
    pub fn unique(mut self, unique: Unique) -> Self {
        self.unique = Some(unique);
        self
    }

    /// With one more tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// With these bytes as payload.
    #[must_use]
    pub fn payload(mut self, bytes: impl Into<Bytes>) -> Self {
        self.parts.payload = Some(Part::new(bytes));
        self
    }

    /// With this JSON text as payload.
    #[must_use]
    pub fn json(self, text: impl Into<String>) -> Self {
        self.payload(text.into())
    }

    /// Dead after this many failed attempts.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.policy.max_attempts = attempts;
        self
    }

    /// Dead after more than this many lost leases.
    #[must_use]
    pub const fn max_crashes(mut self, crashes: u32) -> Self {
        self.policy.max_crashes = crashes;
        self
    }

    /// Waiting like this after a failure.
    #[must_use]
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.policy.backoff = backoff;
        self
    }

    /// Expired when it has been due this long without starting.
    #[must_use]
    pub const fn max_wait_ms(mut self, ms: u64) -> Self {
        self.policy.max_wait_ms = Some(ms);
        self
    }

    /// This job as the `index`-th follow-up of `parent`'s attempt that started at `started_at`:
    /// with a derived id, its parent's name and its parent's trace, where it has none of its own.
    ///
    /// The id of a follow-up says when the attempt started, or as early as an id may say at `now`: some
    /// attempts take days.
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
        self
    }

    /// Whether it may be stored at `now` by an engine that takes payloads up to `payload_bytes_max`.
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
        self.due.check("run_at", now)?;
        if let Some(tenant) = &self.tenant {
            check_text("tenant", tenant, limits::NAME_BYTES_MAX)?;
        }
        if let Some(key) = &self.key {
            check_text("key", key, limits::KEY_BYTES_MAX)?;
        }
        if let Some(unique) = &self.unique {
            unique.check()?;
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
