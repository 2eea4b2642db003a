//! The `windlass` command: reads the command line and hands over to one file per command.

mod bench;
mod commands;
mod config;
mod connect;
mod disk;
mod exit;
mod exporter;
mod job_args;
mod open_files;
mod operator;
mod output;
mod postgres_places;
mod store;
mod torture;
mod traces;
mod values;
mod views;
mod work;

use clap::Parser as _;
use std::process::ExitCode;

/// Jobs are made on one thread and freed on another all the time; this allocator is made for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    windlass_worker::process::enter();
    let cli = commands::Cli::parse();
    let json = cli.wants_json();
    match cli.run() {
        Ok(code) => code,
        Err(error) => exit::report(&error, json),
    }
}
