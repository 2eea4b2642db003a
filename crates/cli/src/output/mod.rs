//! Writes results to stdout: tables and text, or JSON; and notes to stderr. Knows nothing of jobs.

mod ago;
mod paint;
mod table;

pub(crate) use ago::ago;
pub(crate) use paint::{Colour, paint};
pub(crate) use table::{Cell, Table};

use crate::hints;
use anyhow::{Context as _, Result};
use indicatif::ProgressBar;
use serde::Serialize;
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether notes and progress bars are suppressed.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Suppresses notes and progress bars.
pub(crate) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Writes to stdout. A closed pipe (`| head`) is not an error.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to stdout"),
    }
}

/// Writes one line of JSON to stdout.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string(value).context("cannot write the answer as JSON")?;
    // Parts are written as they are stored. A line break in them is between tokens: in strings it is escaped.
    if text.contains(['\n', '\r']) {
        text = text.replace(['\n', '\r'], " ");
    }
    text.push('\n');
    print(&text)
}

/// Writes a note to stderr, unless `--quiet`. For what a script does not need: results go to stdout, errors are errors.
pub(crate) fn note(text: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        eprintln!("{}", hints::complete(text));
    }
}

/// Writes a warning to stderr, also with `--quiet`.
pub(crate) fn warn(text: &str) {
    eprintln!("warning: {}", hints::complete(text));
}

/// A progress bar for `total` steps, if a person can see it.
pub(crate) fn progress_bar(total: u64) -> ProgressBar {
    match std::io::stderr().is_terminal() && !QUIET.load(Ordering::Relaxed) {
        true => ProgressBar::new(total),
        false => ProgressBar::hidden(),
    }
}
