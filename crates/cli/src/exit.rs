//! Exit codes of the program, and how errors are printed. Knows nothing of single commands.

use crate::ids::Unresolved;
use serde_json::json;
use std::process::ExitCode;
use windlass_core::Error as EngineError;

/// The exit codes, for `--help`.
pub(crate) const HELP: &str = "Exit codes:
  0  done
  1  failed; the message on stderr says why and what to do
  2  the command line is invalid
  3  the store cannot be used: locked by another process, unavailable, or missing
  4  some of several items were refused; the others are done";

/// Exit code: the store cannot be used.
const STORE: u8 = 3;
/// Exit code: some of several items were refused.
const PARTLY: u8 = 4;

/// The exit code if some of several items were refused; each refusal has been printed already.
pub(crate) fn partly() -> ExitCode {
    ExitCode::from(PARTLY)
}

/// The store does not exist.
#[derive(Debug, thiserror::Error)]
#[error(
    "no store at {0}; enqueue a job first (`windlass enqueue`), or select another store \
     with --store URL or WINDLASS_STORE"
)]
pub(crate) struct NoStore(pub(crate) windlass::Url);

/// Prints an error to stderr, as JSON if `json`, and returns the exit code.
pub(crate) fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    let message = sentence(error);
    let message = crate::hints::complete(&message);
    if json {
        eprintln!("{}", json!({ "error": { "code": code(error), "message": message } }));
    } else {
        eprintln!("error: {message}");
    }
    match code(error) {
        "in_use" | "unavailable" | "store_full" | "no_store" | "connect" => ExitCode::from(STORE),
        _ => ExitCode::FAILURE,
    }
}

/// The stable code of an error.
pub(crate) fn code(error: &anyhow::Error) -> &'static str {
    let known = |cause: &(dyn std::error::Error + 'static)| {
        if cause.is::<NoStore>() {
            return Some("no_store");
        }
        if let Some(unresolved) = cause.downcast_ref::<Unresolved>() {
            return Some(unresolved.code());
        }
        let ours = cause.downcast_ref::<windlass::Error>().map(windlass::Error::code);
        ours.or_else(|| cause.downcast_ref::<EngineError>().map(EngineError::code))
    };
    error.chain().find_map(known).unwrap_or("failed")
}

/// An error with its causes. Causes that are already part of the text are skipped: many errors include their
/// source.
pub(crate) fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn a_cause_is_said_once() {
        let source = EngineError::InUse { store: "./jobs".into(), pid: 7, address: None };
        let error = windlass::Error::Open { url: "file:./jobs".into(), source };
        let error = Err::<(), _>(error).context("cannot list jobs").unwrap_err();
        let text = sentence(&error);
        assert_eq!(text.matches("in use by process 7").count(), 1, "{text}");
        assert!(text.starts_with("cannot list jobs: cannot open file:./jobs"), "{text}");
        assert_eq!(code(&error), "in_use");
    }
}
