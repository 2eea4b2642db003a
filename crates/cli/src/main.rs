//! The `windlass` command: reads the command line and hands over to one file per command.

mod bench;
mod commands;
mod connect;

use clap::Parser as _;
use std::process::ExitCode;

/// Jobs are made on one thread and freed on another all the time; this allocator is made for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match commands::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
