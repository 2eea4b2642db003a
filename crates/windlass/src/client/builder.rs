//! One job, set up step by step and enqueued when it is awaited.

use super::{Client, typed};
use crate::error::Result;
use crate::json;
use crate::millis::millis;
use bytes::Bytes;
use serde::Serialize;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;
use windlass_core::engine::Enqueued;
use windlass_core::model::{Due, Name, NewJob, Part, PartName};
use windlass_core::policy::{Backoff, Retention, Unique, Until};
use windlass_core::{JobId, Timestamp, TypedJob};

/// What can be enqueued: a typed job, or a [`JobBuilder`].
pub trait IntoJob {
    /// The job as the contract knows it.
    fn into_new_job(self) -> Result<NewJob>;
}

impl<J: TypedJob> IntoJob for J {
    fn into_new_job(self) -> Result<NewJob> {
        typed(&self)
    }
}

impl IntoJob for JobBuilder {
    fn into_new_job(self) -> Result<NewJob> {
        self.job
    }
}

/// A job being set up. Await it to enqueue it; made by [`Client::job`] and [`Client::job_of`].
#[must_use = "a job is enqueued when its builder is awaited"]
pub struct JobBuilder {
    client: Client,
    /// An error of any step waits here until somebody awaits.
    job: Result<NewJob>,
}

impl JobBuilder {
    pub(super) fn new(client: Client, job: Result<NewJob>) -> Self {
        Self { client, job }
    }

    /// With this id: the same id again is the same job. See [`Client::new_id`].
    pub fn id(self, id: JobId) -> Self {
        self.set(|job| job.id = Some(id))
    }

    /// On this queue.
    pub fn queue(self, queue: impl Into<Name>) -> Self {
        self.set(|job| job.queue = queue.into())
    }

    /// To run this long after the store received it.
    pub fn delay(self, delay: Duration) -> Self {
        self.set(|job| job.due = Due::After(millis(delay)))
    }

    /// To run at this instant of the store's clock; one in the past is now.
    pub fn run_at(self, at: Timestamp) -> Self {
        self.set(|job| job.due = Due::At(at))
    }

    /// With this priority; lower runs first.
    pub fn priority(self, priority: i32) -> Self {
        self.set(|job| job.priority = priority)
    }

    /// At most one job with this key in its lane until it ends; the next one is answered with it.
    pub fn unique(self, key: impl Into<String>) -> Self {
        self.unique_with(Unique::by(key))
    }

    /// At most one job with this key in its lane within this time, whatever becomes of it.
    pub fn unique_for(self, key: impl Into<String>, window: Duration) -> Self {
        self.unique_with(Unique::by(key).until(Until::Window(millis(window))))
    }

    /// Unique like this.
    pub fn unique_with(self, unique: Unique) -> Self {
        self.set(|job| job.unique = Some(unique))
    }

    /// In order with the others of this key: one at a time, first come, first served.
    pub fn key(self, key: impl Into<String>) -> Self {
        self.set(|job| job.key = Some(key.into()))
    }

    /// For this tenant.
    pub fn tenant(self, tenant: impl Into<String>) -> Self {
        self.set(|job| job.tenant = Some(tenant.into()))
    }

    /// With one more label for people.
    pub fn tag(self, tag: impl Into<String>) -> Self {
        self.set(|job| job.tags.push(tag.into()))
    }

    /// With this trace context (W3C `traceparent`), which the handler gets; with the feature `otel` it is that of
    /// the current span if it is not set.
    pub fn trace(self, trace: impl Into<String>) -> Self {
        self.set(|job| job.trace = Some(trace.into()))
    }

    /// Dead after this many failed attempts.
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.set(|job| job.policy.max_attempts = attempts)
    }

    /// Dead when more leases than this were lost.
    pub fn max_crashes(self, crashes: u32) -> Self {
        self.set(|job| job.policy.max_crashes = crashes)
    }

    /// Waiting like this after a failure; see [`backoff`](crate::backoff).
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.set(|job| job.policy.backoff = backoff)
    }

    /// Stopped, and failed, when a handler runs longer than this.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.set(|job| job.policy.timeout_ms = Some(millis(timeout)))
    }

    /// Expired when it has been due for this long without starting.
    pub fn max_wait(self, wait: Duration) -> Self {
        self.set(|job| job.policy.max_wait_ms = Some(millis(wait)))
    }

    /// Kept this long after its end, however it ends.
    pub fn retention(self, keep: Duration) -> Self {
        self.set(|job| job.policy.retention = Some(Retention::uniform(millis(keep))))
    }

    /// With this as payload, written as JSON. Typed jobs have theirs already.
    pub fn payload<T: Serialize + ?Sized>(self, payload: &T) -> Self {
        self.write(PartName::Payload, payload)
    }

    /// With these bytes as payload.
    pub fn payload_bytes(self, bytes: impl Into<Bytes>) -> Self {
        self.set(|job| job.parts.payload = Some(Part::new(bytes)))
    }

    /// With these notes beside it, written as JSON.
    pub fn metadata<T: Serialize + ?Sized>(self, metadata: &T) -> Self {
        self.write(PartName::Metadata, metadata)
    }

    /// With this as its first checkpoint, written as JSON.
    pub fn state<T: Serialize + ?Sized>(self, state: &T) -> Self {
        self.write(PartName::State, state)
    }

    /// With these bytes as its first checkpoint.
    pub fn state_bytes(self, bytes: impl Into<Bytes>) -> Self {
        self.set(|job| job.parts.state = Some(Part::new(bytes)))
    }

    /// With this large binary.
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

impl IntoFuture for JobBuilder {
    type Output = Result<Enqueued>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.client.store(self.job?).await })
    }
}

impl fmt::Debug for JobBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the job itself: payloads do not belong in logs.
        match &self.job {
            Ok(job) => write!(f, "JobBuilder({} on {})", job.kind, job.queue),
            Err(error) => write!(f, "JobBuilder({error})"),
        }
    }
}
