//! Runs named steps, continues after a failure, and ends with a short summary.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// The steps run so far. One run reports every failed step, not only the first.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<Done>,
}

struct Done {
    name: &'static str,
    /// The command that runs only this step.
    alone: String,
    took: Duration,
    failure: Option<String>,
    /// The reason why the step was not checked.
    unchecked: Option<String>,
}

/// The outcome of a step that cannot run everywhere.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Checked,
    /// The step was not checked, with the reason.
    NotChecked(String),
}

impl Steps {
    /// Runs one step. `alone` is the command that repeats only this step.
    pub(crate) fn run(
        &mut self,
        name: &'static str,
        alone: impl Into<String>,
        work: impl FnOnce() -> Result<()>,
    ) {
        self.run_if_possible(name, alone, || work().map(|()| Outcome::Checked));
    }

    /// Runs one step that cannot run everywhere. If it cannot, the summary says that it was not checked.
    pub(crate) fn run_if_possible(
        &mut self,
        name: &'static str,
        alone: impl Into<String>,
        work: impl FnOnce() -> Result<Outcome>,
    ) {
        eprintln!("\n==> {name}");
        let start = now();
        let (failure, unchecked) = match work() {
            Ok(Outcome::Checked) => (None, None),
            Ok(Outcome::NotChecked(why)) => (None, Some(why)),
            Err(error) => (Some(format!("{error:#}")), None),
        };
        if let Some(failure) = &failure {
            eprintln!("{name} FAILED: {failure}");
        }
        if let Some(why) = &unchecked {
            eprintln!("{name} NOT CHECKED: {why}");
        }
        let (alone, took) = (alone.into(), start.elapsed());
        self.done.push(Done { name, alone, took, failure, unchecked });
    }

    /// Prints the summary; an error names the steps that failed.
    pub(crate) fn finish(self) -> Result<()> {
        eprint!("{}", self.summary());
        let failed: Vec<_> =
            self.done.iter().filter(|step| step.failure.is_some()).map(|step| step.name).collect();
        if !failed.is_empty() {
            bail!("{} of {} steps failed: {}", failed.len(), self.done.len(), failed.join(", "));
        }
        Ok(())
    }

    fn summary(&self) -> String {
        let mut text = String::from("\n==> summary\n");
        for step in &self.done {
            let result = match (&step.failure, &step.unchecked) {
                (Some(_), _) => "FAILED",
                (None, Some(_)) => "NOT RUN",
                (None, None) => "ok",
            };
            let seconds = step.took.as_secs_f64();
            text.push_str(&format!("  {:<10} {result:<7} {seconds:>8.1} s\n", step.name));
        }
        let total = self.done.iter().map(|step| step.took).sum::<Duration>().as_secs_f64();
        text.push_str(&format!("  {:<10} {:<7} {total:>8.1} s\n", "total", ""));
        for step in &self.done {
            if let Some(why) = &step.unchecked {
                text.push_str(&format!("\n{} NOT CHECKED: {why}\n", step.name));
            }
            if let Some(failure) = &step.failure {
                text.push_str(&format!("\n{} FAILED: {failure}\n", step.name));
                text.push_str(&format!("  run it alone: {}\n", step.alone));
            }
        }
        text
    }
}

#[expect(clippy::disallowed_methods, reason = "how long a step took on this machine is wall time")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_failed_step_is_named_with_the_way_to_run_it_alone() {
        let mut steps = Steps::default();
        steps.run("good", "cargo good", || Ok(()));
        steps.run("bad", "cargo bad", || Err(anyhow!("it broke")));
        let summary = steps.summary();
        assert!(summary.contains("bad FAILED: it broke\n  run it alone: cargo bad"), "{summary}");
        assert!(!summary.contains("cargo good"), "{summary}");
        assert_eq!(steps.finish().unwrap_err().to_string(), "1 of 2 steps failed: bad");
    }

    #[test]
    fn a_step_that_could_not_run_is_not_called_ok() {
        let mut steps = Steps::default();
        let why = || Ok(Outcome::NotChecked("no database".to_owned()));
        steps.run_if_possible("advisories", "cargo deny", why);
        let summary = steps.summary();
        assert!(summary.contains("advisories NOT CHECKED: no database"), "{summary}");
        assert!(summary.contains("NOT RUN") && !summary.contains(" ok "), "{summary}");
        steps.finish().unwrap();
    }

    #[test]
    fn steps_after_a_failure_still_run() {
        let mut steps = Steps::default();
        let mut ran = false;
        steps.run("bad", "cargo bad", || Err(anyhow!("it broke")));
        steps.run("next", "cargo next", || {
            ran = true;
            Ok(())
        });
        assert!(ran);
    }
}
