//! The commands of the command line interface: one module per command.

mod audit;
mod bench;
mod bulk;
mod check;
mod completions;
mod config;
mod dead;
mod enqueue;
mod events;
mod flows;
mod history;
mod jobs;
mod keys;
mod kinds;
mod limits;
mod man;
mod migrate;
mod queues;
mod reference;
mod scale;
mod schedules;
mod serve;
mod status;
mod subscriptions;
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
#[command(name = "windlass", version, propagate_version = true, after_help = crate::exit::HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Enqueue jobs
    Enqueue(enqueue::Args),
    /// Run jobs with shell commands or HTTP calls as handlers
    Work(work::Args),
    /// List, show, explain and change jobs
    Jobs(jobs::Args),
    /// Show, cancel and replay graphs of jobs
    Flows(flows::Args),
    /// List, show, replay or discard dead letters
    Dead(dead::Args),
    /// List queues with their depth and settings; pause, resume and configure them
    Queues(queues::Args),
    /// List kinds with their depth and settings; pause, resume, configure and register them
    Kinds(kinds::Args),
    /// List, show, create, change and remove limits on running jobs and rates
    Limits(limits::Args),
    /// List how many jobs were removed or expired, by queue and time
    History(history::Args),
    /// Print the events of a queue, and follow them
    Events(events::Args),
    /// Manage recurring jobs
    Schedules(schedules::Args),
    /// List, resume and cancel changes of many jobs
    Bulk(bulk::Args),
    /// List connected workers
    Workers(workers::Args),
    /// Compute how many workers a queue needs
    Scale(scale::Args),
    /// Manage the access keys of a store
    Keys(keys::Args),
    /// List changes made to the store, with who made them
    Audit(audit::Args),
    /// Verify the consistency of the store, and repair it with --repair
    Check(check::Args),
    /// Create or upgrade the tables of a PostgreSQL store, and grant roles access to them
    Migrate(migrate::Args),
    /// Show the state of the store in a few lines
    Status(status::Args),
    /// Show queues and workers live
    Top(top::Args),
    /// Serve a store over HTTP
    Serve(serve::Args),
    /// Validate a configuration, show the effective one, or print an example
    Config(config::Args),
    /// Benchmark an engine
    Bench(bench::Args),
    /// Test the guarantees of a store under process kills, stalls and network faults
    Torture(torture::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Write manual pages
    Man(man::Args),
    /// Print the help of all commands as a page of the documentation
    #[command(hide = true)]
    Reference,
    /// Run one measurement in a separate process, started by `bench`
    #[command(name = bench::RUN_COMMAND, hide = true)]
    BenchRun,
    /// Run producers and workers in a separate process, started by `torture`
    #[command(name = crate::torture::CLIENT_COMMAND, hide = true)]
    TortureClient,
    /// Serve a store until the `bench` or `torture` process that started it exits
    #[command(name = crate::bench::SERVE_COMMAND, hide = true)]
    BenchServe(serve::Args),
}

impl Cli {
    /// Runs the selected command.
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self.command {
            Command::Enqueue(args) => args.run(),
            Command::Work(args) => args.run(),
            Command::Jobs(args) => args.run(),
            Command::Flows(args) => args.run(),
            Command::Dead(args) => args.run(),
            Command::Queues(args) => args.run(),
            Command::Kinds(args) => args.run(),
            Command::Limits(args) => args.run(),
            Command::History(args) => args.run(),
            Command::Events(args) => args.run(),
            Command::Schedules(args) => args.run(),
            Command::Bulk(args) => args.run(),
            Command::Workers(args) => args.run(),
            Command::Scale(args) => args.run(),
            Command::Keys(args) => args.run(),
            Command::Audit(args) => args.run(),
            Command::Check(args) => args.run(),
            Command::Migrate(args) => args.run(),
            Command::Status(args) => args.run(),
            Command::Top(args) => args.run(),
            Command::Serve(args) => args.run(),
            Command::Config(args) => args.run(),
            Command::Bench(args) => args.run(),
            Command::Torture(args) => args.run(),
            Command::TortureClient => crate::torture::run_client(),
            Command::Completions(args) => args.run(),
            Command::Man(args) => args.run(),
            Command::Reference => reference::run(),
            Command::BenchRun => bench::run_one(),
            Command::BenchServe(args) => {
                crate::bench::end_with_parent();
                // Ignores configuration files and environment variables, which would change the measurement.
                args.run_alone()
            }
        }
    }

    /// Applies the options that concern all output, and returns whether `--json` was given: errors are then printed as
    /// JSON, too.
    pub(crate) fn prepare(&self) -> bool {
        let Some(common) = self.common() else { return false };
        common.prepare();
        common.json
    }

    const fn common(&self) -> Option<&Common> {
        Some(match &self.command {
            Command::Enqueue(args) => args.common(),
            Command::Work(args) => args.common(),
            Command::Jobs(args) => args.common(),
            Command::Flows(args) => args.common(),
            Command::Dead(args) => args.common(),
            Command::Queues(args) => args.common(),
            Command::Kinds(args) => args.common(),
            Command::Limits(args) => args.common(),
            Command::History(args) => args.common(),
            Command::Events(args) => args.common(),
            Command::Schedules(args) => args.common(),
            Command::Bulk(args) => args.common(),
            Command::Workers(args) => args.common(),
            Command::Scale(args) => args.common(),
            Command::Keys(args) => args.common(),
            Command::Audit(args) => args.common(),
            Command::Check(args) => args.common(),
            Command::Migrate(args) => args.common(),
            Command::Status(args) => args.common(),
            Command::Top(args) => args.common(),
            _ => return None,
        })
    }
}
