//! The `windlass` command: reads the command line and hands over to one file per command.

mod bench;
mod commands;
mod connect;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    match commands::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
