//! Queues and kinds as operators see them: pause, resume, settings, numbers.

use super::{Client, only};
use crate::error::Result;
use crate::millis::millis;
use std::time::Duration;
use windlass_core::engine::{Configure, LaneStats, StatsRequest};
use windlass_core::model::{KindPatch, KindSettings, Name, Order, QueuePatch, QueueSettings};
use windlass_core::policy::Retention;

impl Client {
    /// A queue by its name. It need not hold any jobs yet.
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

    /// A kind of jobs by its name, on whatever queue they are.
    pub fn kind(&self, name: impl Into<Name>) -> Kind {
        Kind { client: self.clone(), name: name.into() }
    }

    async fn configure(&self, change: Configure) -> Result<()> {
        only(self.engine().configure(vec![change]).await?.value)
    }
}

/// A queue. Every change is in force for all workers and producers once it is answered.
#[derive(Clone, Debug)]
pub struct Queue {
    client: Client,
    name: Name,
}

impl Queue {
    /// Lets nothing of it start. What runs goes on; enqueues are taken.
    pub async fn pause(&self) -> Result<()> {
        self.configure(QueuePatch::paused(true)).await
    }

    /// Lets its jobs start again.
    pub async fn resume(&self) -> Result<()> {
        self.configure(QueuePatch::paused(false)).await
    }

    /// Refuses jobs when this many wait; `None` lifts the limit.
    pub async fn max_depth(&self, jobs: Option<u64>) -> Result<()> {
        self.configure(QueuePatch::max_depth(jobs)).await
    }

    /// Orders jobs so that become ready from now on.
    pub async fn order(&self, order: Order) -> Result<()> {
        self.configure(QueuePatch::order(order)).await
    }

    /// Keeps finished jobs so long, unless they say otherwise.
    pub async fn retention(&self, retention: Retention) -> Result<()> {
        self.configure(QueuePatch::retention(retention)).await
    }

    /// Lets jobs expire that wait longer, unless they say otherwise; `None` lifts the limit.
    pub async fn max_wait(&self, wait: Option<Duration>) -> Result<()> {
        self.configure(QueuePatch::max_wait_ms(wait.map(millis))).await
    }

    /// Changes several settings in one step.
    pub async fn configure(&self, patch: QueuePatch) -> Result<()> {
        self.client.configure(Configure::queue(self.name.clone(), patch)).await
    }

    /// Its settings.
    pub async fn settings(&self) -> Result<QueueSettings> {
        let set = self.client.settings().await?.queues;
        let own = set.into_iter().find(|(name, _)| *name == self.name);
        Ok(own.map(|(_, settings)| settings).unwrap_or_default())
    }

    /// Its lanes in numbers, one for each kind.
    pub async fn stats(&self) -> Result<Vec<LaneStats>> {
        let request = StatsRequest::queue(self.name.clone());
        Ok(self.client.engine().stats(request).await?.value)
    }
}

/// A kind of jobs. Every change is in force for all workers once it is answered.
#[derive(Clone, Debug)]
pub struct Kind {
    client: Client,
    name: Name,
}

impl Kind {
    /// Lets no job of it start. What runs goes on; enqueues are taken.
    pub async fn pause(&self) -> Result<()> {
        self.configure(KindPatch::paused(true)).await
    }

    /// Lets its jobs start again.
    pub async fn resume(&self) -> Result<()> {
        self.configure(KindPatch::paused(false)).await
    }

    /// Changes several settings in one step.
    pub async fn configure(&self, patch: KindPatch) -> Result<()> {
        self.client.configure(Configure::kind(self.name.clone(), patch)).await
    }

    /// Its settings.
    pub async fn settings(&self) -> Result<KindSettings> {
        let set = self.client.settings().await?.kinds;
        let own = set.into_iter().find(|(name, _)| *name == self.name);
        Ok(own.map(|(_, settings)| settings).unwrap_or_default())
    }
}
