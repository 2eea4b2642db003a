//! The final states of the jobs.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use windlass_core::engine::{Engine, Filter, Get, List};
use windlass_core::limits::PAGE_MAX;
use windlass_core::model::State;
use windlass_core::{JobId, Result};

/// The states of the jobs at the end of a run, when every lease has ended and nothing is left to do. A job
/// that is not in it does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The existing jobs.
    pub jobs: BTreeMap<JobId, State>,
}

impl Snapshot {
    /// Reads these jobs from a store; see [`History::wanted`](super::History::wanted).
    pub async fn read(engine: &dyn Engine, ids: impl IntoIterator<Item = JobId>) -> Result<Self> {
        let ids: Vec<JobId> = ids.into_iter().collect();
        let mut jobs = BTreeMap::new();
        for page in ids.chunks(PAGE_MAX as usize) {
            let found = engine.get(Get::new(page.iter().copied())).await?.value;
            jobs.extend(found.into_iter().flatten().map(|job| (job.header.id, job.state)));
        }
        Ok(Self { jobs })
    }

    /// Adds all other jobs of a queue that only the recorded clients used, to detect phantoms.
    pub async fn add_queue(&mut self, engine: &dyn Engine, queue: &str) -> Result<()> {
        let mut after = None;
        loop {
            let list = List::new(Filter::default().queue(queue)).limit(PAGE_MAX).after(after);
            let page = engine.list(list).await?.value;
            for job in page.rows {
                self.jobs.entry(job.header.id).or_insert(job.state);
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}

impl FromIterator<(JobId, State)> for Snapshot {
    fn from_iter<T: IntoIterator<Item = (JobId, State)>>(jobs: T) -> Self {
        Self { jobs: jobs.into_iter().collect() }
    }
}
