//! Dependencies: the jobs that a job runs after, and what it receives from them.

use super::{Part, State};
use crate::error::{Error, Result, within_limit};
use crate::growing::growing;
use crate::id::JobId;
use crate::limits;
use crate::name::check_text;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// What happens to a job if a job that it depends on ends without being completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The job is dead.
    #[default]
    Fail,
    /// The job is cancelled.
    Cancel,
    /// The job runs anyway; its inputs say how the other one ended.
    Run,
}

impl OnFailure {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Fail, Self::Cancel, Self::Run];

    /// The name on the wire and in the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Cancel => "cancel",
            Self::Run => "run",
        }
    }

    /// The policy with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == name)
    }
}

/// A job that another one runs after.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dependency {
    /// The job to wait for.
    pub job: JobId,
    /// The name under which the handler finds its result.
    pub name: Option<String>,
    /// What happens if that job is not completed.
    pub on_failure: OnFailure,
}

impl Dependency {
    /// Waits for the completion of a job.
    pub const fn on(job: JobId) -> Self {
        Self { job, name: None, on_failure: OnFailure::Fail }
    }

    /// Sets the name under which the handler finds the result.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets what happens if the other job is not completed.
    #[must_use]
    pub const fn on_failure(mut self, policy: OnFailure) -> Self {
        self.on_failure = policy;
        self
    }
}

impl From<JobId> for Dependency {
    fn from(job: JobId) -> Self {
        Self::on(job)
    }
}

/// Makes a new job a dependency of one that waits already. Only a running job can add such jobs, with its report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Join {
    /// The job that waits for the new one; `None`: the job that reports.
    pub to: Option<JobId>,
    /// The name under which that job finds the result.
    pub name: Option<String>,
    /// What happens to that job if the new one is not completed; `None`: it runs anyway, and sees it.
    pub on_failure: Option<OnFailure>,
}

impl Join {
    /// Joins the job that reports.
    pub const SELF: Self = Self { to: None, name: None, on_failure: None };

    /// Joins a job that is still blocked by its dependencies.
    pub fn to(job: JobId) -> Self {
        Self { to: Some(job), ..Self::SELF }
    }

    /// Sets the name under which the handler finds the result.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets what happens if the new job is not completed.
    #[must_use]
    pub const fn on_failure(mut self, policy: OnFailure) -> Self {
        self.on_failure = Some(policy);
        self
    }

    /// The dependency on the new job with this id.
    pub fn dependency_on(&self, job: JobId) -> Dependency {
        let policy = self.on_failure.unwrap_or(OnFailure::Run);
        Dependency { job, name: self.name.clone(), on_failure: policy }
    }
}

growing! {
    /// A dependency of a stored job, and how it ended.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Input as InputFields {
        /// The job that this one runs after.
        pub job: JobId,
        /// The name under which the handler finds the result.
        pub name: Option<String>,
        /// What happens if that job is not completed.
        pub on_failure: OnFailure,
        /// The state in which that job ended; `None`: it has not ended.
        pub outcome: Option<State>,
        /// Its result, if it was completed and has one.
        pub result: Option<Part>,
        /// Whether it has a result that was not copied, because all results together would exceed
        /// [`INPUT_BYTES_MAX`](crate::limits::INPUT_BYTES_MAX): read it from the job.
        pub omitted: bool,
        /// Whether the other job stays until this one has ended, so that the result can be read from it.
        pub kept: bool,
    }
}

impl Input {
    /// A dependency on a job that has not ended.
    pub fn open(dependency: &Dependency) -> Self {
        let Dependency { job, name, on_failure } = dependency.clone();
        Self { job, name, on_failure, outcome: None, result: None, omitted: false, kept: false }
    }

    /// Whether the other job has not ended.
    pub const fn is_open(&self) -> bool {
        self.outcome.is_none()
    }

    /// Whether the job cannot run, because of how the other one ended.
    pub const fn prevents_start(&self) -> bool {
        match (self.outcome, self.on_failure) {
            (None | Some(State::Completed), _) | (_, OnFailure::Run) => false,
            (Some(_), OnFailure::Fail | OnFailure::Cancel) => true,
        }
    }
}

/// The dependencies of a job, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DependencyCounts {
    /// All dependencies.
    pub total: u32,
    /// Those on jobs that have not ended.
    pub open: u32,
    /// Bytes of the results that were copied.
    pub result_bytes: u32,
    /// Those on jobs that stay until this one has ended, because their results were not copied.
    pub kept: u32,
    /// The position of the first dependency that may be one of these.
    pub kept_from: u32,
    /// Of an ended job: dependents that have not ended and can read its result only from it. Retention passes over it.
    pub readers: u32,
}

impl DependencyCounts {
    /// No dependencies.
    pub const NONE: Self =
        Self { total: 0, open: 0, result_bytes: 0, kept: 0, kept_from: 0, readers: 0 };

    /// Counts a dependency at this position whose job stays until the dependent has ended.
    pub fn keep(&mut self, position: u32) {
        self.kept_from = if self.kept == 0 { position } else { self.kept_from.min(position) };
        self.kept += 1;
    }
}

/// Validates the dependencies of a new job; `id` is its own id, if the producer chose it.
pub(super) fn check_dependencies(after: &[Dependency], id: Option<JobId>) -> Result<()> {
    let hint = "collect some of them in a job between";
    within_limit("after", after.len(), limits::DEPENDENCIES_MAX, hint)?;
    let (mut jobs, mut names) = (HashSet::new(), HashSet::new());
    for dependency in after {
        if id == Some(dependency.job) {
            let expected = "a job cannot run after itself: name another job";
            return Err(Error::invalid("after", dependency.job, expected));
        }
        if !jobs.insert(dependency.job) {
            return Err(Error::invalid("after", dependency.job, "name each job once"));
        }
        let Some(name) = &dependency.name else { continue };
        check_text("after.name", name, limits::NAME_BYTES_MAX)?;
        if !names.insert(name) {
            return Err(Error::invalid("after.name", name, "give each dependency its own name"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> JobId {
        JobId::from_bytes([byte; 16])
    }

    #[test]
    fn dependencies_on_itself_twice_on_one_job_or_under_one_name_are_refused() {
        let on = |byte| Dependency::on(id(byte));
        let check = |after: &[Dependency]| check_dependencies(after, Some(id(9)));
        check(&[]).unwrap();
        check(&[on(1), on(2).named("a"), on(3).named("b")]).unwrap();
        for (after, field) in [
            (vec![on(9)], "after"),
            (vec![on(1), on(1).named("again")], "after"),
            (vec![on(1).named("a"), on(2).named("a")], "after.name"),
            (vec![on(1).named("")], "after.name"),
            (vec![on(1).named("x".repeat(limits::NAME_BYTES_MAX + 1))], "after.name"),
        ] {
            assert_eq!(check(&after).unwrap_err().field(), Some(field), "{after:?}");
        }
        let many = (0..=limits::DEPENDENCIES_MAX).map(|n| {
            let bytes = (n as u128).to_be_bytes();
            Dependency::on(JobId::from_bytes(bytes))
        });
        assert_eq!(check(&many.collect::<Vec<_>>()).unwrap_err().code(), "too_large");
    }

    #[test]
    fn only_an_end_without_completion_prevents_a_start_unless_the_job_runs_anyway() {
        for policy in OnFailure::ALL {
            assert_eq!(OnFailure::named(policy.as_str()), Some(policy));
            let mut input = Input::open(&Dependency::on(id(1)).on_failure(policy));
            assert!(input.is_open() && !input.prevents_start());
            for state in State::ALL.into_iter().filter(|state| state.is_terminal()) {
                input.outcome = Some(state);
                let prevents = state != State::Completed && policy != OnFailure::Run;
                assert_eq!(input.prevents_start(), prevents, "{policy:?}, {state}");
            }
        }
        assert_eq!(OnFailure::named("ignore"), None);
    }
}
