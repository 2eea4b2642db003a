//! The typed client of an application. Depends on the engine traits, not on any concrete engine.

mod builder;
mod bulk;
mod change;
mod events;
pub(crate) mod flow;
mod handle;
mod query;
mod queue;
#[cfg(feature = "services")]
mod services;
mod trace;
mod wait;
#[cfg(feature = "worker")]
mod work;

pub use builder::{IntoJob, JobBuilder, job, job_of};
pub use change::Replay;
pub use events::{EventItem, EventQuery, EventStream};
pub use handle::{HasOutput, JobHandle, Untyped};
pub use query::{JobQuery, JobStream};
pub use queue::{Kind, Queue};
pub use wait::Finished;

use crate::error::{Error, Result};
use crate::json;
use std::fmt;
use std::sync::Arc;
use windlass_core::engine::{
    Engine, Enqueue, Enqueued, Get, Item, LaneStats, SessionInfo, Settings, StatsRequest,
};
use windlass_core::model::{Job as StoredJob, NewJob, PartSet};
use windlass_core::random::SystemRandom;
use windlass_core::time::{Clock, SystemClock};
use windlass_core::{JobId, TypedJob};
use windlass_layers::Coalesce;

/// A handle to a job store. Cheap to clone; clones share the connection.
///
/// Created by [`connect`](crate::connect), or around any engine. Concurrent calls are merged into batches: a
/// hundred requests that enqueue one job each cost about as much as one.
///
/// If a call is dropped before it returns, it is unknown whether it took effect, as with any store. To
/// enqueue safely in that case, give the job an id of your own ([`Client::new_id`]) and enqueue it again: the
/// same id is the same job and is stored once.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Arc<dyn Engine>,
    /// The clock for ids generated here. Due times are decided by the store's clock.
    clock: Arc<dyn Clock>,
    /// The services of this connection. They use the engine without call merging: they make one call at a
    /// time.
    #[cfg(feature = "services")]
    services: windlass_services::Host,
    /// The engine without call merging, for workers, which build their own batches.
    #[cfg(feature = "worker")]
    store: Arc<dyn Engine>,
}

impl Client {
    /// A client of this engine that merges concurrent calls.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self::on_clock(engine, Arc::new(SystemClock))
    }

    /// A client of this engine without any layer in between.
    pub fn direct(engine: Arc<dyn Engine>) -> Self {
        Self::assemble(engine.clone(), engine, Arc::new(SystemClock))
    }

    /// A client that takes the time of new ids from `clock`, for stores with a clock of their own.
    pub(crate) fn on_clock(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>) -> Self {
        Self::assemble(Arc::new(Coalesce::new(engine.clone())), engine, clock)
    }

    #[cfg_attr(
        not(feature = "services"),
        expect(unused_variables, reason = "only workers and services go below the merging")
    )]
    fn assemble(engine: Arc<dyn Engine>, store: Arc<dyn Engine>, clock: Arc<dyn Clock>) -> Self {
        let inner = Inner {
            engine,
            clock,
            #[cfg(feature = "services")]
            services: windlass_services::Host::new(store.clone()),
            #[cfg(feature = "worker")]
            store,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The underlying engine, for operations of the contract that this client has no method for.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.inner.engine
    }

    /// Generates a job id. A job enqueued twice with the same id is stored once.
    pub fn new_id(&self) -> JobId {
        JobId::new(self.inner.clock.now(), &SystemRandom)
    }

    /// Enqueues a job. Await the builder that this returns, after setting options that differ from those of
    /// the job's type. The job is durable when the await returns.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use std::time::Duration;
    /// # #[derive(windlass::Job, Serialize, Deserialize)]
    /// # struct Remind { who: String }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// # let client = windlass::connect("memory:").await?;
    /// let now = client.enqueue(Remind { who: "ada".into() }).await?;
    /// assert!(now.is_new());
    ///
    /// let later = Remind { who: "alan".into() };
    /// client.enqueue(later).delay(Duration::from_secs(60)).priority(-1).tag("beta").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn enqueue<T: IntoJob>(&self, job: T) -> JobBuilder<T::Job, Self> {
        JobBuilder::new(self.clone(), job.into_new_job())
    }

    /// Returns the job without its parts; `None` if it does not exist or has been deleted.
    pub async fn get(&self, id: JobId) -> Result<Option<StoredJob>> {
        self.get_with(id, PartSet::NONE).await
    }

    /// Returns the job with the given parts.
    pub async fn get_with(&self, id: JobId, parts: PartSet) -> Result<Option<StoredJob>> {
        let jobs = self.engine().get(Get::new([id]).parts(parts)).await?.value;
        Ok(jobs.into_iter().next().flatten())
    }

    /// Depth, running and dead jobs per lane (queue and kind).
    pub async fn stats(&self) -> Result<Vec<LaneStats>> {
        Ok(self.engine().stats(StatsRequest::default()).await?.value)
    }

    /// The sessions of the workers that are connected now.
    pub async fn sessions(&self) -> Result<Vec<SessionInfo>> {
        Ok(self.engine().sessions().await?.value)
    }

    /// All settings of queues and kinds that differ from the defaults.
    pub async fn settings(&self) -> Result<Settings> {
        Ok(self.engine().settings().await?.value)
    }

    /// Checks that the store answers.
    pub async fn health(&self) -> Result<()> {
        self.engine().health().await?;
        Ok(())
    }

    /// Enqueues one job.
    pub(crate) async fn store(&self, mut job: NewJob) -> Result<Enqueued> {
        trace::hand_on(std::slice::from_mut(&mut job));
        only(self.engine().enqueue(Enqueue::each([job])).await?.value)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.engine().capabilities().engine)
    }
}

/// Converts a typed job to the job type of the engine contract.
fn typed<J: TypedJob>(job: &J) -> Result<NewJob> {
    let mut new = J::template();
    if let Some(unique) = job.unique_rule()? {
        new.unique = Some(unique);
    }
    new.parts.payload = Some(json::write(format_args!("a {:?} job", J::KIND), "payload", job)?);
    Ok(new)
}

/// Deserializes the payload of a stored job.
pub(crate) fn read_payload<J: TypedJob>(job: &StoredJob) -> Result<J> {
    let id = job.header.id;
    if &*job.header.kind != J::KIND {
        let reason = format!("it is a {:?} job, not a {:?} job", job.header.kind, J::KIND);
        return Err(Error::Unreadable { id, part: "payload", reason });
    }
    json::read(id, "payload", job.parts.payload.as_ref())
}

/// The result of a batch with one item.
fn only<T>(items: Vec<Item<T>>) -> Result<T> {
    match items.into_iter().next() {
        Some(item) => Ok(item?),
        None => Err(Error::Engine(windlass_core::Error::Unavailable {
            store: "the engine".into(),
            reason: "its reply to a batch of one is empty".into(),
        })),
    }
}
