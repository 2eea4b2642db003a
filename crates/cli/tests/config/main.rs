//! The configuration as a person meets it: mistakes that say the way out, values that say where they came
//! from, and a running server that takes a new file on SIGHUP.

#![expect(clippy::unwrap_used, reason = "unwrapping is how the helpers say \"this must hold\" too")]

mod payloads;
mod reload;
#[path = "../serving/mod.rs"]
mod serving;
mod words;

use std::path::Path;
use std::process::{Command, Output};

/// The command in a directory, with nothing of ours in its environment.
pub(crate) fn windlass(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(arguments).current_dir(dir);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WINDLASS_")) {
        command.env_remove(name);
    }
    command
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
