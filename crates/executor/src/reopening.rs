//! Replays of jobs with dependencies: a replayed job looks again at those that were not completed.

use crate::dependencies::End;
use crate::entry::Entry;
use crate::executor::Executor;
use crate::rows::Rows;
use std::collections::BTreeMap;
use windlass_core::model::{Input, Name, State};
use windlass_core::{JobId, Result};

impl<R: Rows> Executor<R> {
    /// Whether a replay lets a job wait for a dependency again.
    pub(crate) fn reopens(&self, entry: &Entry) -> Result<bool> {
        for input in self.failed_inputs(entry)?.into_values() {
            if self.opens_again(input.job)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a replayed job waits again for one that was not completed. The queue of a job elsewhere sends its end, also if
    /// it was completed since.
    fn opens_again(&self, upstream: JobId) -> Result<bool> {
        let Some(state) = self.state(upstream)? else { return Ok(false) };
        let was_completed = || Ok(state == State::Completed && !self.is_here(upstream)?);
        Ok(!state.is_terminal() || was_completed()?)
    }

    /// Looks up the dependencies of a replayed job again that were not completed: they may have been replayed, too. The
    /// jobs that it waits for again are [followed](Self::follow_reopened) once it is stored: only one job is taken at a time.
    pub(crate) fn look_up_again(&mut self, entry: &mut Entry) -> Result<()> {
        for (position, mut input) in self.failed_inputs(entry)? {
            let end = match self.is_here(input.job)? {
                true => self.rows.with_job(input.job, End::of)?,
                false => self.opens_again(input.job)?.then_some(None),
            };
            match end {
                // Gone: it stays as it ended.
                None => continue,
                Some(None) => {
                    input.outcome = None;
                    entry.job.dependencies.open += 1;
                    self.resolving.reopened.push(input.job);
                }
                Some(Some(end)) => {
                    end.write(&mut input, position, &mut entry.job.dependencies, true);
                    if input.kept {
                        self.resolving.kept.push(input.job);
                    }
                }
            }
            self.rows.set_input(entry.id(), position, input)?;
        }
        Ok(())
    }

    /// Marks the jobs that a replayed job depends on again, and those that it keeps.
    pub(crate) fn follow_reopened(&mut self, dependent: JobId) -> Result<()> {
        let mut elsewhere: BTreeMap<Name, Vec<JobId>> = BTreeMap::new();
        while let Some(upstream) = self.resolving.reopened.pop() {
            match self.elsewhere(upstream)? {
                Some(queue) => elsewhere.entry(queue).or_default().push(upstream),
                None => self.follow(upstream)?,
            }
        }
        self.post_follows(dependent, elsewhere)?;
        while let Some(upstream) = self.resolving.kept.pop() {
            self.add_readers(upstream, 1)?;
        }
        Ok(())
    }

    /// The dependencies of a job that ended without being completed, by their position.
    fn failed_inputs(&self, entry: &Entry) -> Result<BTreeMap<u32, Input>> {
        if entry.job.dependencies.total == 0 {
            return Ok(BTreeMap::new());
        }
        let inputs = (0..).zip(self.rows.inputs(entry.id())?);
        let failed = |(_, input): &(u32, Input)| {
            input.outcome.is_some_and(|outcome| outcome != State::Completed)
        };
        Ok(inputs.filter(failed).collect())
    }
}
