//! What can be said on the command line: one module per command.

mod audit;
mod bench;
mod check;
mod completions;
mod config;
mod dead;
mod enqueue;
mod history;
mod jobs;
mod keys;
mod kinds;
mod migrate;
mod queues;
mod scale;
mod schedules;
mod serve;
mod top;
mod torture;
mod work;
mod workers;

use crate::store::Common;
use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Windlass: durable background jobs.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, about, propagate_version = true, after_help = crate::exit::HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Hand jobs over
    Enqueue(enqueue::Args),
    /// Run jobs: a shell command or an HTTP call for each
    Work(work::Args),
    /// Look at jobs and change them
    Jobs(jobs::Args),
    /// Look at dead letters, give them another life, or throw them away
    Dead(dead::Args),
    /// Queues with their depth and settings; pause, resume, set
    Queues(queues::Args),
    /// Kinds with their depth and settings; pause, resume, set
    Kinds(kinds::Args),
    /// What was removed or expired, and when
    History(history::Args),
    /// Recurring jobs
    Schedules(schedules::Args),
    /// The workers that are there
    Workers(workers::Args),
    /// How many workers a queue needs
    Scale(scale::Args),
    /// Who may do what with a store that is served
    Keys(keys::Args),
    /// Who did what to the store
    Audit(audit::Args),
    /// Verify the store, and mend it with --repair
    Check(check::Args),
    /// Make or update the tables of a PostgreSQL store, and grant rights to them
    Migrate(migrate::Args),
    /// Watch queues live
    Top(top::Args),
    /// Serve a store over HTTP
    Serve(serve::Args),
    /// Find mistakes in a configuration, show what holds, print an example
    Config(config::Args),
    /// Measure an engine with the workloads W1–W6
    Bench(bench::Args),
    /// Prove the promises under kills, stalls and a bad network
    Torture(torture::Args),
    /// Print completions for a shell
    Completions(completions::Args),
    /// One measurement in a process of its own, started by `bench`
    #[command(name = bench::RUN_COMMAND, hide = true)]
    BenchRun,
    /// A process with producers and workers in it, started by `torture`
    #[command(name = crate::torture::CLIENT_COMMAND, hide = true)]
    TortureClient,
    /// A server that ends with the `bench` or `torture` that started it
    #[command(name = crate::bench::SERVE_COMMAND, hide = true)]
    BenchServe(serve::Args),
}

impl Cli {
    /// Does what was asked.
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self.command {
            Command::Enqueue(args) => args.run(),
            Command::Work(args) => args.run(),
            Command::Jobs(args) => args.run(),
            Command::Dead(args) => args.run(),
            Command::Queues(args) => args.run(),
            Command::Kinds(args) => args.run(),
            Command::History(args) => args.run(),
            Command::Schedules(args) => args.run(),
            Command::Workers(args) => args.run(),
            Command::Scale(args) => args.run(),
            Command::Keys(args) => args.run(),
            Command::Audit(args) => args.run(),
            Command::Check(args) => args.run(),
            Command::Migrate(args) => args.run(),
            Command::Top(args) => args.run(),
            Command::Serve(args) => args.run(),
            Command::Config(args) => args.run(),
            Command::Bench(args) => args.run(),
            Command::Torture(args) => args.run(),
            Command::TortureClient => crate::torture::run_client(),
            Command::Completions(args) => args.run(),
            Command::BenchRun => bench::run_one(),
            Command::BenchServe(args) => {
                crate::bench::end_with_parent();
                // Nothing of what lies around here may change what is measured.
                args.run_alone()
            }
        }
    }

    /// Whether a machine reads the answer, errors included.
    pub(crate) fn wants_json(&self) -> bool {
        match &self.command {
            Command::Migrate(args) => args.json,
            _ => self.common().is_some_and(|common| common.json),
        }
    }

    const fn common(&self) -> Option<&Common> {
        Some(match &self.command {
            Command::Enqueue(args) => args.common(),
            Command::Work(args) => args.common(),
            Command::Jobs(args) => args.common(),
            Command::Dead(args) => args.common(),
            Command::Queues(args) => args.common(),
            Command::Kinds(args) => args.common(),
            Command::History(args) => args.common(),
            Command::Schedules(args) => args.common(),
            Command::Workers(args) => args.common(),
            Command::Scale(args) => args.common(),
            Command::Keys(args) => args.common(),
            Command::Audit(args) => args.common(),
            Command::Check(args) => args.common(),
            Command::Top(args) => args.common(),
            _ => return None,
        })
    }
}
