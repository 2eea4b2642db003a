//! Operator's view of queues and kinds: pause, resume, settings, statistics.

use super::{Client, only};
use crate::error::Result;
use std::time::Duration;
use windlass_core::engine::{Configure, LaneStats, StatsRequest};
use windlass_core::model::{KindPatch, KindSettings, Name, Order, QueuePatch, QueueSettings};
use windlass_core::policy::Retention;
use windlass_core::time::millis;

impl Client {
    /// A queue by its name. It need not contain jobs yet.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// # let client = windlass::connect("memory:").await?;
    /// let mail = client.queue("mail");
    /// mail.pause().await?;
    /// assert!(mail.settings().await?.paused);
    /// # Ok(())
    /// # }
    /// ```
    pub fn queue(&self, name: impl Into<Name>) -> Queue {
        Queue { client: self.clone(), name: name.into() }
    }

    /// A kind by its name, across all queues.
    pub fn kind(&self, name: impl Into<Name>) -> Kind {
        Kind { client: self.clone(), name: name.into() }
    }

    async fn configure(&self, change: Configure) -> Result<()> {
        only(self.engine().configure(vec![change]).await?.value)
    }
}

/// A queue. A change is in effect for all workers and producers once its call returns.
#[derive(Clone, Debug)]
pub struct Queue {
    client: Client,
    name: Name,
}

impl Queue {
    /// Pauses the queue: no job of it starts. Running jobs continue; enqueues are accepted.
    pub async fn pause(&self) -> Result<()> {
        self.configure(QueuePatch::paused(true)).await
    }

    /// Resumes the queue.
    pub async fn resume(&self) -> Result<()> {
        self.configure(QueuePatch::paused(false)).await
    }

    /// Refuses new jobs when this many are waiting; `None` removes the limit.
    pub async fn set_max_depth(&self, jobs: Option<u64>) -> Result<()> {
        self.configure(QueuePatch::max_depth(jobs)).await
    }

    /// Sets the order of jobs that become ready from now on.
    pub async fn set_order(&self, order: Order) -> Result<()> {
        self.configure(QueuePatch::order(order)).await
    }

    /// Sets how long ended jobs are kept, unless the job has a retention of its own.
    pub async fn set_retention(&self, retention: Retention) -> Result<()> {
        self.configure(QueuePatch::retention(retention)).await
    }

    /// Expires jobs that wait longer than this, unless the job has a limit of its own; `None` removes the
    /// limit.
    pub async fn set_max_wait(&self, wait: Option<Duration>) -> Result<()> {
        self.configure(QueuePatch::max_wait_ms(wait.map(millis))).await
    }

    /// Changes several settings in one step.
    pub async fn configure(&self, patch: QueuePatch) -> Result<()> {
        self.client.configure(Configure::queue(self.name.clone(), patch)).await
    }

    /// The settings of the queue.
    pub async fn settings(&self) -> Result<QueueSettings> {
        let set = self.client.settings().await?.queues;
        let own = set.into_iter().find(|(name, _)| *name == self.name);
        Ok(own.map(|(_, settings)| settings).unwrap_or_default())
    }

    /// Statistics of its lanes, one per kind.
    pub async fn stats(&self) -> Result<Vec<LaneStats>> {
        let request = StatsRequest::queue(self.name.clone());
        Ok(self.client.engine().stats(request).await?.value)
    }
}

/// A kind. A change is in effect for all workers once its call returns.
#[derive(Clone, Debug)]
pub struct Kind {
    client: Client,
    name: Name,
}

impl Kind {
    /// Pauses the kind: no job of it starts. Running jobs continue; enqueues are accepted.
    pub async fn pause(&self) -> Result<()> {
        self.configure(KindPatch::paused(true)).await
    }

    /// Resumes the kind.
    pub async fn resume(&self) -> Result<()> {
        self.configure(KindPatch::paused(false)).await
    }

    /// Changes several settings in one step.
    pub async fn configure(&self, patch: KindPatch) -> Result<()> {
        self.client.configure(Configure::kind(self.name.clone(), patch)).await
    }

    /// The settings of the kind.
    pub async fn settings(&self) -> Result<KindSettings> {
        let set = self.client.settings().await?.kinds;
        let own = set.into_iter().find(|(name, _)| *name == self.name);
        Ok(own.map(|(_, settings)| settings).unwrap_or_default())
    }
}
