//! A builder for one job.

use super::{Client, JobHandle, Untyped, typed};
use crate::error::Result;
use crate::json;
use bytes::Bytes;
use serde::Serialize;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;
use windlass_core::model::{Due, Name, NewJob, Part, PartName};
use windlass_core::policy::{Backoff, Retention, Unique};
use windlass_core::time::millis;
use windlass_core::{JobId, Timestamp, TypedJob};

/// Anything that can be enqueued: a typed job or a [`JobBuilder`].
pub trait IntoJob {
    /// The type of the job, for its handle.
    type Job: 'static;

    /// Converts into the job type of the engine contract.
    fn into_new_job(self) -> Result<NewJob>;
}

impl<J: TypedJob> IntoJob for J {
    type Job = J;

    fn into_new_job(self) -> Result<NewJob> {
        typed(&self)
    }
}

impl<J: 'static, To> IntoJob for JobBuilder<J, To> {
    type Job = J;

    fn into_new_job(self) -> Result<NewJob> {
        self.job
    }
}

/// A job with options that differ from those of its type. It can be enqueued, scheduled, or part of a bulk
/// enqueue.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use std::time::Duration;
/// # #[derive(windlass::Job, Serialize, Deserialize)]
/// # struct Remind { who: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let client = windlass::connect("memory:").await?;
/// let reminders = ["ada", "alan"]
///     .map(|who| windlass::job(Remind { who: who.into() }).delay(Duration::from_secs(60)).unique(who));
/// let stored = client.enqueue_all(reminders).await;
/// assert!(stored.iter().all(Result::is_ok));
/// # Ok(())
/// # }
/// ```
pub fn job<J: TypedJob>(job: J) -> JobBuilder<J> {
    JobBuilder::new((), typed(&job))
}

/// A job of the kind with this name, without a Rust type.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// # let client = windlass::connect("memory:").await?;
/// let payload = serde_json::json!({ "to": "ada@example.org" });
/// client.enqueue(windlass::job_of("send_email").queue("mail").payload(&payload)).await?;
/// # Ok(())
/// # }
/// ```
pub fn job_of(kind: impl Into<Name>) -> JobBuilder<Untyped> {
    JobBuilder::new((), Ok(NewJob::new(kind)))
}

/// A builder for one job of type `J`; created by [`Client::enqueue`], [`job`] and [`job_of`]. The builder of
/// [`Client::enqueue`] has a client as `To`; await it to enqueue the job.
#[must_use = "a job is enqueued when this is awaited or given to a client"]
pub struct JobBuilder<J = Untyped, To = ()> {
    to: To,
    /// The job, or the first error of a builder step, which is returned when the job is enqueued.
    job: Result<NewJob>,
    kind: PhantomData<fn() -> J>,
}

impl<J, To> JobBuilder<J, To> {
    pub(super) const fn new(to: To, job: Result<NewJob>) -> Self {
        Self { to, job, kind: PhantomData }
    }

    /// Sets the job id. Enqueueing the same id again stores nothing new. See [`Client::new_id`].
    pub fn id(self, id: JobId) -> Self {
        self.set(|job| job.id = Some(id))
    }

    /// Sets the queue.
    pub fn queue(self, queue: impl Into<Name>) -> Self {
        self.set(|job| job.queue = queue.into())
    }

    /// Runs the job this long after the store has received it.
    pub fn delay(self, delay: Duration) -> Self {
        self.set(|job| job.due = Due::After(millis(delay)))
    }

    /// Runs the job at this time of the store's clock; a time in the past means now.
    pub fn run_at(self, at: impl Into<Timestamp>) -> Self {
        self.set(|job| job.due = Due::At(at.into()))
    }

    /// Sets the priority; lower runs first.
    pub fn priority(self, priority: i32) -> Self {
        self.set(|job| job.priority = priority)
    }

    /// Allows at most one unfinished job with this key per lane; a duplicate returns the existing job.
    pub fn unique(self, key: impl Into<String>) -> Self {
        self.unique_with(Unique::by(key))
    }

    /// Allows at most one job with this key per lane within this window, whatever state the job is in.
    pub fn unique_for(self, key: impl Into<String>, window: Duration) -> Self {
        self.unique_with(Unique::by(key).within(window))
    }

    /// Sets the full uniqueness rule.
    pub fn unique_with(self, unique: Unique) -> Self {
        self.set(|job| job.unique = Some(unique))
    }

    /// Runs jobs with this key one at a time, in the order in which they were enqueued.
    pub fn key(self, key: impl Into<String>) -> Self {
        self.set(|job| job.key = Some(key.into()))
    }

    /// Sets the tenant that the job belongs to.
    pub fn tenant(self, tenant: impl Into<String>) -> Self {
        self.set(|job| job.tenant = Some(tenant.into()))
    }

    /// Adds a tag: a free-form label.
    pub fn tag(self, tag: impl Into<String>) -> Self {
        self.set(|job| job.tags.push(tag.into()))
    }

    /// Sets the trace context (W3C `traceparent`) that the handler receives. With the feature `otel` it
    /// defaults to the context of the current span.
    pub fn trace(self, trace: impl Into<String>) -> Self {
        self.set(|job| job.trace = Some(trace.into()))
    }

    /// Sets the number of failed attempts after which the job is dead.
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.set(|job| job.policy.max_attempts = attempts)
    }

    /// Sets the number of lost leases above which the job is dead.
    pub fn max_crashes(self, crashes: u32) -> Self {
        self.set(|job| job.policy.max_crashes = crashes)
    }

    /// Sets the delay between attempts; see [`backoff`](crate::backoff).
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.set(|job| job.policy.backoff = backoff)
    }

    /// Sets the maximum run time of the handler; an attempt that exceeds it is stopped and fails.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.set(|job| job.policy.timeout_ms = Some(millis(timeout)))
    }

    /// Expires the job if it has been due for this long without being started.
    pub fn max_wait(self, wait: Duration) -> Self {
        self.set(|job| job.policy.max_wait_ms = Some(millis(wait)))
    }

    /// Keeps the job this long after it ends, in whichever state it ends.
    pub fn retention(self, keep: Duration) -> Self {
        self.set(|job| job.policy.retention = Some(Retention::uniform(keep)))
    }

    /// Sets the payload, serialized as JSON. Typed jobs already have one.
    pub fn payload<T: Serialize + ?Sized>(self, payload: &T) -> Self {
        self.write(PartName::Payload, payload)
    }

    /// Sets the payload to these bytes.
    pub fn payload_bytes(self, bytes: impl Into<Bytes>) -> Self {
        self.set(|job| job.parts.payload = Some(Part::new(bytes)))
    }

    /// Sets the metadata, serialized as JSON.
    pub fn metadata<T: Serialize + ?Sized>(self, metadata: &T) -> Self {
        self.write(PartName::Metadata, metadata)
    }

    /// Sets the checkpoint that the first attempt starts from, serialized as JSON.
    pub fn checkpoint<T: Serialize + ?Sized>(self, checkpoint: &T) -> Self {
        self.write(PartName::Checkpoint, checkpoint)
    }

    /// Sets the checkpoint that the first attempt starts from to these bytes.
    pub fn checkpoint_bytes(self, bytes: impl Into<Bytes>) -> Self {
        self.set(|job| job.parts.checkpoint = Some(Part::new(bytes)))
    }

    /// Sets the blob: a large binary part.
    pub fn blob(self, bytes: impl Into<Bytes>) -> Self {
        self.set(|job| job.parts.blob = Some(Part::new(bytes)))
    }

    fn set(mut self, set: impl FnOnce(&mut NewJob)) -> Self {
        if let Ok(job) = &mut self.job {
            set(job);
        }
        self
    }

    fn write<T: Serialize + ?Sized>(mut self, name: PartName, value: &T) -> Self {
        self.job = self.job.and_then(|mut job| {
            let whose = format!("a {:?} job", job.kind);
            *job.parts.slot(name) = Some(json::write(whose, name.as_str(), value)?);
            Ok(job)
        });
        self
    }
}

impl<J: 'static> IntoFuture for JobBuilder<J, Client> {
    type Output = Result<JobHandle<J>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { to: client, job, .. } = self;
        Box::pin(async move {
            let enqueued = client.store(job?).await?;
            Ok(JobHandle::of(client, enqueued))
        })
    }
}

impl<J, To> fmt::Debug for JobBuilder<J, To> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The job itself is left out: payloads do not belong in logs.
        match &self.job {
            Ok(job) => write!(f, "JobBuilder({} on {})", job.kind, job.queue),
            Err(error) => write!(f, "JobBuilder({error})"),
        }
    }
}
