//! Importing jobs from another store, as it returned them.

use super::check_batch;
use crate::error::{Error, Result, within_limit};
use crate::limits;
use crate::model::{Dependency, Header, Job, NewJob};
use crate::time::Timestamp;

/// Jobs of another store, with all their parts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Import {
    /// The jobs, as [`Admin::get`](super::Admin::get) returned them.
    pub jobs: Vec<Job>,
}

impl Import {
    /// Imports these jobs.
    pub fn new(jobs: impl IntoIterator<Item = Job>) -> Self {
        Self { jobs: jobs.into_iter().collect() }
    }

    /// Validates the batch as a whole.
    pub fn check(&self) -> Result<()> {
        check_batch("jobs", self.jobs.len(), limits::ENQUEUE_BATCH_MAX)
    }

    /// Validates one job at `now`, for an engine with this payload limit.
    pub fn check_job(job: &Job, now: Timestamp, payload_bytes_max: usize) -> Result<()> {
        job.header.id.check_version()?;
        described(job).check(now, payload_bytes_max)?;
        if let Some(result) = &job.result {
            result.check("result", limits::RESULT_BYTES_MAX)?;
        }
        if let Some(progress) = &job.progress {
            progress.check()?;
        }
        within_limit("history", job.history.len(), limits::HISTORY_MAX, "keep the latest")?;
        within_limit("log", job.log.len(), limits::LOG_LINES_MAX, "keep the latest")?;
        check_times(job)?;
        job.continuation.as_ref().map_or(Ok(()), |kept| kept.check())?;
        let counts = job.dependencies;
        if counts.open > 0 || counts.total as usize != job.inputs.len() {
            let expected = "a job is imported with all its inputs, and once the jobs that it depends on have ended";
            return Err(Error::invalid("dependencies", counts.open, expected));
        }
        let ended = job.state.is_terminal();
        if ended != job.finished_at.is_some() || ended != job.finish.is_some() {
            let expected = "an ended job has `finished_at` and `finish`, and no other job has them";
            return Err(Error::invalid("state", job.state, expected));
        }
        Ok(())
    }
}

/// Times are between 1970 and the highest timestamp, so that sums with durations saturate.
fn check_times(job: &Job) -> Result<()> {
    let Header { run_at, created_at, .. } = job.header;
    let times = [
        ("run_at", Some(run_at)),
        ("created_at", Some(created_at)),
        ("changed_at", Some(job.changed_at)),
        ("started_at", job.started_at),
        ("finished_at", job.finished_at),
    ];
    let early = |at: &Timestamp| *at < Timestamp::EPOCH;
    let early = times.into_iter().find_map(|(field, at)| Some((field, at.filter(early)?)));
    early.map_or(Ok(()), |(field, at)| Err(Error::invalid(field, at, "it must not be before 1970")))
}

/// The definition of a job, as if it were enqueued now without an id.
fn described(job: &Job) -> NewJob {
    let Header { queue, kind, tenant, key, group, cost, .. } = job.header.clone();
    let Header { unique, tags, trace, policy, .. } = job.header.clone();
    let mut new = NewJob::new(kind).queue(queue);
    (new.tenant, new.key, new.unique) = (tenant, key, unique);
    (new.group, new.cost) = (group, cost);
    (new.tags, new.trace, new.policy) = (tags, trace, policy);
    new.flow = job.header.flow.clone();
    new.after = job.inputs.iter().map(described_input).collect();
    new.parts = job.parts.clone();
    new
}

fn described_input(input: &crate::model::Input) -> Dependency {
    let mut dependency = Dependency::on(input.job).on_failure(input.on_failure);
    dependency.name.clone_from(&input.name);
    dependency
}
