//! Writes results to stdout: tables and text, or JSON. Knows nothing of jobs.

mod ago;
mod paint;
mod table;

pub(crate) use ago::ago;
pub(crate) use paint::{Colour, paint};
pub(crate) use table::{Cell, Table};

use anyhow::{Context as _, Result};
use serde::Serialize;
use std::io::{ErrorKind, Write as _};

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
    let text = serde_json::to_string(value).context("cannot write the answer as JSON")?;
    print(&format!("{text}\n"))
}
