//! `cargo xtask bench --peers`: Windlass beside its peers, in one run on one machine. Picks what is measured;
//! how is in the modules below, what a driver does is in `bench/`.

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

/// No cell begins after so many minutes, so that a whole run takes less than 45.
const MINUTES: u32 = 42;
/// How often each peer is measured, if there is time.
const ROUNDS: u32 = 2;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Beside the peers. (For Windlass alone: `cargo run --release -- bench`.)
    #[arg(long, required = true)]
    peers: bool,
    /// Only these peers, by the beginning of their names: `pg-boss,apalis`
    #[arg(long, value_delimiter = ',', value_name = "PEERS")]
    only: Vec<String>,
    /// Only these workloads, by the beginning of their names: `W1,W3`
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    workloads: Vec<String>,
    /// How long the measured part of a cell may last, in seconds [default: by workload, 2 to 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20))]
    seconds: Option<u32>,
    /// How often each peer is measured
    #[arg(long, default_value_t = ROUNDS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20))]
    rounds: u32,
    /// No cell begins after so many minutes, installs not counted
    #[arg(long, default_value_t = MINUTES, value_name = "N")]
    minutes: u32,
    /// Where the report goes [default: bench/results/DATE]
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
        bail!("not one peer could be installed; why is said above");
    }
    let cells = schedule::cells(&installed, &workloads, options.rounds);
    measure(&cells, options, &drivers, &stores, &mut results);
    report::write(&results, &out)?;
    eprintln!("\nreport: {}", out.join("README.md").display());
    Ok(())
}

/// Measures cell after cell. One that fails is noted, and the run goes on.
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
                "{} minutes are over: {} cells are left out",
                options.minutes, results.left_out
            );
            return;
        }
        if results.has_failed(cell) {
            // Said once is enough: one that hangs would take the time of the others.
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

/// The day's directory; a second run on the same day gets its own.
fn fresh_directory(parent: &Path) -> Result<PathBuf> {
    let today = process::capture(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    let today = today.trim();
    let names = (1..).map(|run| if run == 1 { today.to_owned() } else { format!("{today}-{run}") });
    let mut paths = names.map(|name| parent.join(name));
    let path = paths.find(|path| !path.exists()).context("no name is free")?;
    fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

/// How to repeat this run.
fn command_line() -> String {
    let args: Vec<String> = std::env::args().skip(1).collect();
    format!("cargo xtask {}", args.join(" "))
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures wall time")]
fn now() -> Instant {
    Instant::now()
}
