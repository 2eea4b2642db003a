//! `cargo xtask bench --peers`: benchmarks Windlass and its peers in one run on one machine. Selects the
//! measurements; the modules below run them, and the drivers are in `bench/`.

mod cell;
mod chart;
mod contender;
mod figures;
mod install;
mod machine;
mod report;
mod results;
mod schedule;
mod store;
mod tables;
mod workload;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::process;
use cell::Cell;
use contender::Contender;
use install::Drivers;
use results::{Outcome, Results};
use store::Stores;
use workload::Workload;

/// Time limit in minutes after which no cell starts, so that a whole run takes less than 45 minutes.
const MINUTES: u32 = 42;
/// Number of measurements of each peer, if there is time.
const ROUNDS: u32 = 2;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Measure the peers, too. (For Windlass alone: `cargo run --release -- bench`.)
    #[arg(long, required = true)]
    peers: bool,
    /// Peers to measure, by prefix: `pg-boss,apalis` [default: all]
    #[arg(long, value_delimiter = ',', value_name = "PEERS")]
    only: Vec<String>,
    /// Workloads to run, by prefix: `W1,W3` [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    workloads: Vec<String>,
    /// Maximum duration of the measured part of a cell, in seconds [default: by workload, 2 to 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20))]
    seconds: Option<u32>,
    /// Number of measurements of each peer
    #[arg(long, default_value_t = ROUNDS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20))]
    rounds: u32,
    /// Time limit in minutes after which no cell starts, without installation
    #[arg(long, default_value_t = MINUTES, value_name = "N")]
    minutes: u32,
    /// Directory of the report [default: bench/results/DATE]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let contenders = Contender::select(&options.only)?;
    let workloads = Workload::select(&options.workloads)?;
    let out = match &options.out {
        Some(out) => out.clone(),
        None => fresh_directory(&process::root()?.join("bench/results"))?,
    };
    let stores = Stores::start()?;
    let (drivers, missing) = Drivers::install(&contenders)?;
    let mut results = Results::new(machine::describe(&stores)?, command_line(), missing);
    let installed: Vec<_> = contenders.into_iter().filter(|it| drivers.has(it)).collect();
    if !installed.iter().any(|contender| !contender.is_ours()) {
        bail!("no peer could be installed; see the errors above");
    }
    let cells = schedule::cells(&installed, &workloads, options.rounds);
    measure(&cells, options, &drivers, &stores, &mut results);
    report::write(&results, &out)?;
    eprintln!("\nreport: {}", out.join("README.md").display());
    Ok(())
}

/// Measures the cells one after the other. A failure is recorded, and the run continues.
fn measure(
    cells: &[Cell],
    options: &Options,
    drivers: &Drivers,
    stores: &Stores,
    results: &mut Results,
) {
    let began = now();
    let until = began + Duration::from_secs(u64::from(options.minutes) * 60);
    for (number, cell) in cells.iter().enumerate() {
        if now() >= until {
            results.left_out = cells.len() - number;
            eprintln!(
                "the limit of {} minutes is reached: {} cells are skipped",
                options.minutes, results.left_out
            );
            return;
        }
        if results.has_failed(cell) {
            // A cell that has failed is not repeated: one that hangs would use up the time of the others.
            continue;
        }
        let minutes = began.elapsed().as_secs_f64() / 60.0;
        let (workload, contender) = (cell.workload.name(), cell.contender.name);
        eprint!("[{}/{} {minutes:.1} min] {workload:<6} {contender:<24} ", number + 1, cells.len());
        let outcome = cell.run(options.seconds, drivers, stores);
        match &outcome {
            Outcome::Measured(answer) => eprintln!("{}", cell.workload.shown(answer)),
            Outcome::Failed(why) => eprintln!("FAILED: {why}"),
        }
        results.add(cell, outcome);
    }
}

/// Creates a directory named after the date; a second run on the same day gets its own.
fn fresh_directory(parent: &Path) -> Result<PathBuf> {
    let today = process::capture(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    let today = today.trim();
    let names = (1..).map(|run| if run == 1 { today.to_owned() } else { format!("{today}-{run}") });
    let mut paths = names.map(|name| parent.join(name));
    let path = paths.find(|path| !path.exists()).context("no name is free")?;
    fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

/// The command line that repeats this run.
fn command_line() -> String {
    let args: Vec<String> = std::env::args().skip(1).collect();
    format!("cargo xtask {}", args.join(" "))
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures wall time")]
fn now() -> Instant {
    Instant::now()
}
