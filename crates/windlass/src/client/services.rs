//! Access to schedules, samples and the history of removed jobs.

use super::{Client, IntoJob};
use crate::error::Result;
use windlass_core::engine::{Page, RemovedCount, RemovedQuery};
use windlass_core::policy::Schedule;
use windlass_services::{Host, Samples, ScheduleView, Schedules};

impl Client {
    /// Creates or replaces the recurring schedule of this name, which enqueues a job like this one each time
    /// it fires. A process that hosts the services fires it; each fire happens once, however many processes
    /// host them.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(windlass::Job, Serialize, Deserialize)]
    /// # struct Report;
    /// use windlass::policy::Schedule;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// # let client = windlass::connect("memory:").await?;
    /// let schedule = Schedule::cron("0 6 * * *", "Europe/Berlin");
    /// client.schedule("daily-report", schedule, Report).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn schedule(
        &self,
        name: &str,
        schedule: Schedule,
        job: impl IntoJob,
    ) -> Result<ScheduleView> {
        Ok(self.schedules().put(name, schedule, job.into_new_job()?).await?)
    }

    /// The recurring schedules of the store: read, pause, resume, trigger, remove.
    pub fn schedules(&self) -> Schedules {
        Schedules::new(self.engine().clone())
    }

    /// A page of the history of removed jobs: counts by hour, queue, kind, tenant and outcome.
    pub async fn removed(&self, query: RemovedQuery) -> Result<Page<RemovedCount>> {
        Ok(self.engine().removed(query).await?.value)
    }

    /// Samples of queue metrics over time.
    pub fn samples(&self) -> Samples {
        Samples::new(self.engine().clone())
    }

    /// The services of this connection, which run while at least one of its workers runs.
    pub fn services(&self) -> &Host {
        &self.inner.services
    }
}
