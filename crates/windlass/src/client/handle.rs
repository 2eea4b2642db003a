//! A handle to one job: read it, wait for its result, cancel it.

use super::{Client, read_payload};
use crate::client::wait::Finished;
use crate::error::Result;
use serde::de::DeserializeOwned;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;
use windlass_core::engine::{Changed, Enqueued, TopicCopy};
use windlass_core::model::{Job as StoredJob, PartSet, State};
use windlass_core::{JobId, TypedJob};

/// Marks handles of jobs without a Rust type. Their results are read as [`serde_json::Value`].
#[derive(Debug)]
pub enum Untyped {}

/// Types of jobs whose result has a type: every [`Job`](crate::Job), and [`Untyped`].
pub trait HasOutput {
    /// The type of the result.
    type Output: DeserializeOwned;
}

impl<J: TypedJob> HasOutput for J {
    type Output = J::Output;
}

impl HasOutput for Untyped {
    type Output = serde_json::Value;
}

/// A handle to one job of type `J`. Cheap to clone; the job exists without it.
///
/// Enqueueing returns one, and [`Client::job`] makes one from an id. Every call reads the store: a handle
/// keeps nothing but the id.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use windlass::{Job, Stop};
///
/// #[derive(Serialize, Deserialize)]
/// struct Receipt {
///     number: u32,
/// }
///
/// #[derive(Job, Serialize, Deserialize)]
/// #[job(output = Receipt)]
/// struct Pay {
///     cents: u32,
/// }
///
/// async fn pay(job: Pay) -> Result<Receipt, Stop> {
///     Ok(Receipt { number: job.cents })
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass::Result<()> {
/// let client = windlass::connect("memory:").await?;
/// # let worker = client.worker().handle(pay).build()?.start();
/// let job = client.enqueue(Pay { cents: 995 }).await?;
/// let receipt = job.wait().await?; // a `Receipt`
/// assert_eq!(receipt.number, 995);
///
/// // Later, or in another process: a handle from the id.
/// let same = client.job::<Pay>(job.id());
/// assert_eq!(same.payload().await?.cents, 995);
/// # worker.drain().await;
/// # Ok(())
/// # }
/// ```
pub struct JobHandle<J = Untyped> {
    client: Client,
    id: JobId,
    enqueued: Option<Enqueued>,
    job: PhantomData<fn() -> J>,
}

impl Client {
    /// A handle to the job with this id, which should be of type `J`; [`Untyped`] for any kind. Makes no call
    /// to the store.
    pub fn job<J>(&self, id: JobId) -> JobHandle<J> {
        JobHandle { client: self.clone(), id, enqueued: None, job: PhantomData }
    }
}

impl<J> JobHandle<J> {
    pub(super) const fn of(client: Client, enqueued: Enqueued) -> Self {
        Self { client, id: enqueued.id, enqueued: Some(enqueued), job: PhantomData }
    }

    /// The id of the job.
    pub const fn id(&self) -> JobId {
        self.id
    }

    /// The store's reply to the enqueue: what happened to the job, and its state at that time. `None` for a
    /// handle from an id.
    pub const fn enqueued(&self) -> Option<&Enqueued> {
        self.enqueued.as_ref()
    }

    /// The copies that the subscriptions of a topic got, if the job was enqueued to one. Such a job does not exist itself:
    /// wait for its copies, by their ids.
    pub fn copies(&self) -> &[TopicCopy] {
        self.enqueued.as_ref().map_or(&[], |enqueued| &enqueued.copies)
    }

    /// Whether the enqueue stored a new job. `false` if a job with the same id or unique key existed, which
    /// this handle then refers to, and for a handle from an id.
    pub fn is_new(&self) -> bool {
        self.enqueued.as_ref().is_some_and(Enqueued::is_new)
    }

    /// The job without its parts. Fails with `not_found` if it does not exist or has been removed.
    pub async fn get(&self) -> Result<StoredJob> {
        self.get_with(PartSet::NONE).await
    }

    /// The job with the given parts. Fails with `not_found` if it does not exist or has been removed.
    pub async fn get_with(&self, parts: PartSet) -> Result<StoredJob> {
        let found = self.client.get_with(self.id, parts).await?;
        Ok(found.ok_or(windlass_core::Error::NotFound { id: self.id })?)
    }

    /// The current state of the job.
    pub async fn state(&self) -> Result<State> {
        Ok(self.get().await?.state)
    }

    /// Waits until the job has ended, in whichever state; see [`Client::wait`].
    pub async fn ended(&self) -> Result<Finished> {
        self.client.wait(self.id).await
    }

    /// Waits until the job has ended, in whichever state, at most this long.
    pub async fn ended_within(&self, timeout: Duration) -> Result<Finished> {
        self.client.wait_for(self.id, timeout).await
    }

    /// Cancels the job; see [`Client::cancel`].
    pub async fn cancel(&self) -> Result<Changed> {
        self.client.cancel(self.id).await
    }
}

impl<J: HasOutput> JobHandle<J> {
    /// Waits until the job has ended and returns its result, without a time limit; see [`Client::wait`]. A
    /// job that ends without completing is [`Error::NotCompleted`](crate::Error::NotCompleted).
    pub async fn wait(&self) -> Result<J::Output> {
        self.ended().await?.result()
    }

    /// Waits for the result, at most this long. A job that takes longer is
    /// [`Error::NotFinished`](crate::Error::NotFinished) and keeps running.
    pub async fn wait_for(&self, timeout: Duration) -> Result<J::Output> {
        self.ended_within(timeout).await?.result()
    }
}

impl<J: TypedJob> JobHandle<J> {
    /// The payload.
    pub async fn payload(&self) -> Result<J> {
        read_payload(&self.get_with(PartSet::PAYLOAD).await?)
    }
}

impl<J> Clone for JobHandle<J> {
    fn clone(&self) -> Self {
        let Self { client, id, enqueued, job } = self;
        Self { client: client.clone(), id: *id, enqueued: enqueued.clone(), job: *job }
    }
}

impl<J> fmt::Debug for JobHandle<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobHandle({})", self.id)
    }
}
