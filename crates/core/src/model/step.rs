//! Steps: parts of a handler that ran to their end and need not run again.

use super::Name;
use super::signal::{check_json, json_text};
use crate::error::{Error, Result, within_limit};
use crate::limits;
use crate::name::check_name;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StepKind {
    /// Runs code, whose result is stored.
    Run,
    /// Waits for a time.
    Sleep,
    /// Waits for a signal.
    Signal,
    /// Creates jobs and waits for them.
    Children,
}

impl fmt::Display for StepKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Run => "run",
            Self::Sleep => "sleep",
            Self::Signal => "signal",
            Self::Children => "children",
        })
    }
}

/// A step of a handler that has been recorded. Handlers find their steps by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Step {
    /// The name, unique in the job.
    pub name: Name,
    /// What it does.
    pub kind: StepKind,
    /// Its result as JSON.
    #[serde(default, with = "json_text", skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

impl Step {
    /// A step without a result.
    pub fn new(name: impl Into<Name>, kind: StepKind) -> Self {
        Self { name: name.into(), kind, result: None }
    }

    /// Sets the result to this JSON text.
    #[must_use]
    pub fn json(mut self, text: impl Into<String>) -> Self {
        self.result = Some(text.into());
        self
    }

    /// Bytes that it takes in its job.
    pub fn bytes(&self) -> usize {
        self.name.len() + self.result.as_ref().map_or(0, String::len)
    }

    /// Validates the step.
    pub fn check(&self) -> Result<()> {
        check_name("steps.name", &self.name)?;
        let Some(result) = &self.result else { return Ok(()) };
        let hint = "keep it in the blob or elsewhere, and return where it is";
        within_limit("steps.result", result.len(), limits::STEP_BYTES_MAX, hint)?;
        check_json("steps.result", result)
    }
}

/// Checks that steps can be added to those of a job. A step that is recorded already may be repeated unchanged.
pub(super) fn check_more(recorded: &[Step], more: &[Step]) -> Result<()> {
    let mut all: Vec<&Step> = recorded.iter().collect();
    for step in more {
        step.check()?;
        match all.iter().find(|known| known.name == step.name) {
            Some(known) if *known == step => {}
            Some(known) => {
                let expected = format!(
                    "the job has a step with this name, of kind {}: give each step a name of its own",
                    known.kind
                );
                return Err(Error::invalid("steps.name", &step.name, expected));
            }
            None => all.push(step),
        }
    }
    let hint = "let the steps record less, or do some of the work in children";
    within_limit("steps", all.len(), limits::STEPS_MAX, hint)?;
    within_limit("steps", all.iter().map(|step| step.bytes()).sum(), limits::STEPS_BYTES_MAX, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_recorded_once_and_may_be_repeated_unchanged() {
        let run = |name: &str, text: &str| Step::new(name, StepKind::Run).json(text);
        let recorded = [run("a", "1")];
        check_more(&recorded, &[run("a", "1"), run("b", "2")]).unwrap();
        for bad in [run("a", "2"), Step::new("a", StepKind::Sleep), run("a b", "1")] {
            assert_eq!(check_more(&recorded, &[bad]).unwrap_err().field(), Some("steps.name"));
        }
        let twice = [run("b", "1"), run("b", "2")];
        assert_eq!(check_more(&recorded, &twice).unwrap_err().field(), Some("steps.name"));
        assert_eq!(check_more(&[], &[run("a", "{")]).unwrap_err().field(), Some("steps.result"));
        let text = format!("\"{}\"", "x".repeat(limits::STEP_BYTES_MAX - 2));
        check_more(&[], &[run("a", &text)]).unwrap();
        let long = format!("\"{}\"", "x".repeat(limits::STEP_BYTES_MAX - 1));
        assert_eq!(check_more(&[], &[run("a", &long)]).unwrap_err().code(), "too_large");
        let many: Vec<Step> = (0..20).map(|n| run(&n.to_string(), &text)).collect();
        assert_eq!(check_more(&[], &many).unwrap_err().field(), Some("steps"));
        let many: Vec<Step> =
            (0..=limits::STEPS_MAX).map(|n| Step::new(n.to_string(), StepKind::Sleep)).collect();
        assert_eq!(check_more(&[], &many).unwrap_err().field(), Some("steps"));
    }
}
