//! The `windlass` command: parses the command line and dispatches to one module per command.

#[cfg(not(unix))]
compile_error!(
    "the windlass command needs a Unix system (Linux or macOS): it uses signals, process groups and file locks. \
     On Windows, use WSL, or the library `windlass` as a client of a server"
);

mod bench;
mod commands;
mod config;
mod connect;
mod disk;
mod exit;
mod exporter;
mod hints;
mod ids;
mod job_args;
mod open_files;
mod operator;
mod output;
mod postgres_places;
mod similar;
mod store;
mod torture;
mod traces;
mod values;
mod views;
mod work;

use clap::Parser as _;
use std::process::ExitCode;

/// Jobs are allocated on one thread and freed on another; mimalloc is fast at such cross-thread frees.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    windlass_worker::process::enter();
    let cli = commands::Cli::parse();
    let json = cli.prepare();
    match cli.run() {
        Ok(code) => code,
        Err(error) => exit::report(&error, json),
    }
}
