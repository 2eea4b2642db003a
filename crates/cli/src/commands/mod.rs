//! What can be said on the command line: one module per command.

mod bench;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Windlass: durable background jobs.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, about, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure an engine with the workloads W1–W6
    Bench(bench::Args),
    /// One measurement in a process of its own, started by `bench`
    #[command(name = bench::RUN_COMMAND, hide = true)]
    BenchRun(bench::RunArgs),
}

impl Cli {
    /// Does what was asked.
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self.command {
            Command::Bench(args) => args.run(),
            Command::BenchRun(args) => args.run(),
        }
    }
}
