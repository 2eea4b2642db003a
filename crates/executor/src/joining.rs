//! Jobs that join one that waits already: children of a job that reports, and members added to an open group.
//!
//! All jobs of such a report are new and depend on new jobs only, or on the one that it completes. So an edge from a job
//! that exists leads to one that depends on no older job that waits: there can be no cycle.

use crate::entry::Entry;
use crate::executor::Executor;
use crate::rows::Rows;
use crate::topics::Expanded;
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::engine::{Enqueued, Outcome, SettleItem};
use windlass_core::limits::DEPENDENCIES_MAX;
use windlass_core::machine::EventKind;
use windlass_core::model::{Dependency, NewJob};
use windlass_core::{Error, JobId, Result, Timestamp};

/// The job that a follow-up of `reporting` joins.
fn target(job: &NewJob, reporting: JobId) -> Option<JobId> {
    job.joins.as_ref().map(|join| join.to.unwrap_or(reporting))
}

impl<R: Rows> Executor<R> {
    /// Checks that the follow-ups of a report can join the jobs that they name; `false` if none does.
    pub(crate) fn check_joins(
        &self,
        entry: &Entry,
        item: &SettleItem,
        follow_ups: &Expanded,
        now: Timestamp,
    ) -> Result<bool> {
        let waits = item.outcome == Outcome::WaitForJobs;
        if waits {
            self.check_flow_support()?;
        }
        let jobs = &follow_ups.jobs;
        if jobs.iter().all(|job| job.joins.is_none()) {
            return Ok(false);
        }
        let completes = matches!(item.outcome, Outcome::Complete { .. });
        let ids: BTreeSet<JobId> = jobs.iter().filter_map(|job| job.id).collect();
        let mut joined: BTreeMap<JobId, u32> = BTreeMap::new();
        for (index, job) in jobs.iter().enumerate() {
            let index = follow_ups.index_of(index);
            let within = |error: Error| error.within(format_args!("follow_ups[{index}]"));
            self.check_is_new(job, &ids, completes.then_some(item.id)).map_err(within)?;
            let Some(to) = target(job, item.id) else { continue };
            if to == item.id && !waits {
                let expected = "only a report that waits for jobs can add jobs to its own job";
                return Err(within(Error::invalid("joins", to, expected)));
            }
            *joined.entry(to).or_default() += 1;
            let more = joined[&to];
            let is_own = to == item.id;
            if let Some(queue) = self.elsewhere(to)? {
                let expected = format!(
                    "it is in queue {queue}: this engine adds jobs only to jobs in the queue of the job that reports"
                );
                return Err(within(Error::invalid("joins", to, expected)));
            }
            let check = |joined: &Entry| self.check_join(joined, job, more, is_own, now);
            match is_own {
                true => check(entry),
                false => self.rows.with_job(to, check)?.unwrap_or_else(|| {
                    Err(Error::invalid("joins", to, "no job has this id: name one that waits"))
                }),
            }
            .map_err(within)?;
        }
        Ok(true)
    }

    /// Refuses jobs that exist, and dependencies on jobs that exist: they could depend on the job that is joined. The job
    /// that the report `completed` waits for nothing.
    fn check_is_new(
        &self,
        job: &NewJob,
        ids: &BTreeSet<JobId>,
        completed: Option<JobId>,
    ) -> Result<()> {
        if let Some(id) = job.id
            && self.state(id)?.is_some()
        {
            let expected =
                "a job has this id: a report with jobs that join others can create new jobs only";
            return Err(Error::invalid("id", id, expected));
        }
        let is_old = |dependency: &&Dependency| {
            !ids.contains(&dependency.job) && Some(dependency.job) != completed
        };
        match job.after.iter().find(is_old) {
            None => Ok(()),
            Some(dependency) => {
                let expected =
                    "in a report with jobs that join others, jobs may run after each other only";
                Err(Error::invalid("after", dependency.job, expected))
            }
        }
    }

    /// Checks that `more` jobs, of which this is the last, can join one that waits, or that is about to: the job that
    /// reports.
    fn check_join(
        &self,
        joined: &Entry,
        job: &NewJob,
        more: u32,
        is_own: bool,
        now: Timestamp,
    ) -> Result<()> {
        if !is_own {
            self.decide(joined, EventKind::Join, &Default::default(), now)?;
        }
        let size = u64::from(joined.job.dependencies.total.saturating_add(more));
        if size > DEPENDENCIES_MAX as u64 {
            return Err(Error::TooLarge {
                field: "joins".into(),
                size,
                limit: DEPENDENCIES_MAX as u64,
                hint: "collect some of them in a job between",
            });
        }
        let header = &joined.job.header;
        if joined.holds_key && job.key == header.key && job.queue == header.queue {
            let expected = "the job that waits for this one holds the same ordering key in the same queue: use another one";
            return Err(Error::invalid("key", job.key.as_deref().unwrap_or_default(), expected));
        }
        Ok(())
    }

    /// Stores the follow-ups of a report, and adds those that join a job to its dependencies.
    pub(crate) fn admit_joining(
        &mut self,
        reporting: JobId,
        follow_ups: Expanded,
        now: Timestamp,
    ) -> Result<Vec<Enqueued>> {
        let mut joined: BTreeMap<JobId, Vec<Dependency>> = BTreeMap::new();
        for job in &follow_ups.jobs {
            if let Some(((to, join), id)) =
                target(job, reporting).zip(job.joins.as_ref()).zip(job.id)
            {
                joined.entry(to).or_default().push(join.dependency_on(id));
            }
        }
        let stored = self.admit_expanded(follow_ups, now)?;
        let stored = stored.into_iter().collect::<Result<Vec<_>>>()?;
        for (to, dependencies) in joined {
            let mut counts = self.read(to, |entry| entry.job.dependencies)?;
            let attached = self.attach(&mut counts, &dependencies)?;
            self.edit(to, |entry| entry.job.dependencies = counts)?;
            self.store_inputs(to, attached, now)?;
        }
        Ok(stored)
    }
}
