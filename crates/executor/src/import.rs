//! Import: jobs of another store, stored as they were there.

use crate::enqueue::BatchPreview;
use crate::entry::Entry;
use crate::executor::Executor;
use crate::rows::Rows;
use windlass_core::engine::{Disposition, Enqueued, Import, Item};
use windlass_core::model::Job;
use windlass_core::{Result, Timestamp};

impl<R: Rows> Executor<R> {
    /// Stores jobs of another store; see [`windlass_core::engine::Admin::import`].
    pub fn import(&mut self, request: Import, now: Timestamp) -> Result<Vec<Item<Enqueued>>> {
        request.check()?;
        Ok(request.jobs.into_iter().map(|job| self.import_one(job, now)).collect())
    }

    fn import_one(&mut self, job: Job, now: Timestamp) -> Item<Enqueued> {
        Import::check_job(&job, now, self.capabilities.payload_bytes_max)?;
        self.in_step(&job.header.queue.clone(), now, |executor| executor.import_in_step(job, now))
    }

    fn import_in_step(&mut self, job: Job, now: Timestamp) -> Item<Enqueued> {
        let header = &job.header;
        let id = header.id;
        self.check_scope(header.unique.as_ref())?;
        if header.flow.is_some() || !job.inputs.is_empty() {
            self.check_flow_support()?;
        }
        if let Some(state) = self.state(id)? {
            return Ok(Enqueued::new(id, Disposition::Existing, Some(state)));
        }
        self.preview_lane(&header.queue, &header.kind, &mut BatchPreview::default())?;
        let mut entry = Box::new(Entry::imported(job, &*self.random));
        let inputs = std::mem::take(&mut entry.job.inputs);
        let state = self.insert_imported(entry, now)?;
        if !inputs.is_empty() {
            self.rows.add_inputs(id, 0, inputs)?;
        }
        Ok(Enqueued::new(id, Disposition::Created, Some(state)))
    }
}
