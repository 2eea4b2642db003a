//! What the services keep: schedules, history, samples. Knows nothing of how they do it.

use super::{Client, IntoJob};
use crate::error::Result;
use windlass_core::policy::Schedule;
use windlass_services::{History, Host, Samples, ScheduleView, Schedules};

impl Client {
    /// Has a job like this enqueued again and again: creates or replaces the schedule of this name.
    /// A worker that hosts the services fires it; however many processes do, each fire happens once.
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

    /// The recurring jobs of the store: look, pause, resume, trigger, remove.
    pub fn schedules(&self) -> Schedules {
        Schedules::new(self.engine().clone())
    }

    /// How many jobs were removed or expired, of which queue, and when.
    pub fn history(&self) -> History {
        History::new(self.engine().clone())
    }

    /// How queues did over time.
    pub fn samples(&self) -> Samples {
        Samples::new(self.engine().clone())
    }

    /// The services of this connection, which run while one of its workers does.
    pub fn services(&self) -> &Host {
        &self.inner.services
    }
}
