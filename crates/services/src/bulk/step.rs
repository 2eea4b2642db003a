//! One step of a bulk operation: one page of jobs.

use super::change::BulkChange;
use super::task::{Bulk, BulkState};
use crate::kinds::Kinds;
use std::collections::HashMap;
use std::sync::Arc;
use windlass_core::engine::{ChangeItem, Engine, Filter, List, ListOrder};
use windlass_core::limits::BULK_STEP_JOBS;
use windlass_core::model::{Job, Name};
use windlass_core::{Error, Result};

impl Bulk {
    /// Examines the next page and changes its jobs. Progress is in `self`, to be saved by the caller; a step whose
    /// progress was lost may be repeated.
    pub(super) async fn step(&mut self, engine: &Arc<dyn Engine>) -> Result<u64> {
        // Newest first: jobs that the change moves to the present are behind the cursor.
        let list = List::new(self.selected()).order(ListOrder::Newest).limit(BULK_STEP_JOBS);
        let page = engine.list(list.after(self.after.clone())).await?;
        let (now, page) = (page.now, page.value);
        let applies = |job: &Job| self.change.applies_to(job, self.begun);
        let jobs: Vec<Job> = page.rows.into_iter().filter(applies).collect();
        let count = jobs.len() as u64;
        match self.state {
            BulkState::Counting => self.total += count,
            BulkState::Running | BulkState::Done | BulkState::Cancelled => {
                self.apply(engine, &jobs).await?;
            }
        }
        self.examined += page.examined;
        self.after = page.next;
        if self.after.is_none() {
            self.end_phase(now);
        }
        Ok(count)
    }

    /// The jobs that match the filter and were enqueued before the operation began.
    fn selected(&self) -> Filter {
        let mut filter = self.filter.clone();
        let begun = self.begun.plus(1);
        let until = filter.created_until.map_or(begun, |until| until.min(begun));
        // A window that begins later contains no job of that time.
        if filter.created_from.is_none_or(|from| from < until) {
            filter.created_until = Some(until);
        }
        filter
    }

    async fn apply(&mut self, engine: &Arc<dyn Engine>, jobs: &[Job]) -> Result<()> {
        let unconfirmed = self.unconfirmed(engine, jobs).await?;
        let mut items: Vec<ChangeItem> = Vec::new();
        // The position of the last change of each job, which decides.
        let mut last = Vec::new();
        for job in jobs {
            match unconfirmed.get(&job.header.kind) {
                Some(error) => self.refuse(error),
                None => {
                    items.extend(self.change.items(job));
                    last.push(items.len() - 1);
                }
            }
        }
        if items.is_empty() {
            return Ok(());
        }
        let answers = engine.change(items).await?.value;
        for answer in last.into_iter().filter_map(|at| answers.get(at)) {
            match answer {
                Ok(_) => self.changed += 1,
                Err(error) => self.refuse(error),
            }
        }
        Ok(())
    }

    /// The kinds of these jobs that may not be replayed without a confirmation.
    async fn unconfirmed(
        &self,
        engine: &Arc<dyn Engine>,
        jobs: &[Job],
    ) -> Result<HashMap<Name, Error>> {
        let BulkChange::Replay { confirm, .. } = &self.change else { return Ok(HashMap::new()) };
        let (kinds, mut found) = (Kinds::new(Arc::clone(engine)), HashMap::new());
        let mut names: Vec<&Name> = jobs.iter().map(|job| &job.header.kind).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            match kinds.check_replay([name.clone()], confirm.as_deref()).await {
                Err(error @ Error::Invalid { .. }) => drop(found.insert(name.clone(), error)),
                checked => checked?,
            }
        }
        Ok(found)
    }
}
