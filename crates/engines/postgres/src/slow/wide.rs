//! Jobs with many dependencies.

use crate::PostgresEngine;
use crate::slow::perform::Needs;
use std::collections::BTreeSet;
use windlass_core::model::NewJob;
use windlass_core::{JobId, Result};
use windlass_workset::Wants;

/// Jobs that are marked in one transaction.
const MARKED_TOGETHER: usize = 1_000;

impl PostgresEngine {
    /// Marks the jobs that new ones will depend on, in steps, if they are many. The transaction that stores the dependents
    /// then reads and locks them, and changes only those that were added meanwhile.
    pub(crate) async fn follow_ahead(&self, jobs: impl Iterator<Item = &NewJob>) -> Result<()> {
        let after = jobs.flat_map(|job| &job.after).map(|dependency| dependency.job);
        let after: BTreeSet<JobId> = after.collect();
        if after.len() <= MARKED_TOGETHER {
            return Ok(());
        }
        let after: Vec<JobId> = after.into_iter().collect();
        for some in after.chunks(MARKED_TOGETHER) {
            let wants = Wants { own: some.iter().copied().collect(), ..Wants::default() };
            // A mark that is lost is set again by the enqueue.
            self.perform(Needs::Written, wants, Vec::new(), |run, _| run.follow_all(some)).await?;
        }
        Ok(())
    }
}
