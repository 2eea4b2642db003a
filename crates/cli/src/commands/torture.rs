//! `windlass torture`: parses its arguments into a plan. The run itself is in [`crate::torture`].

use crate::connect::Url;
use crate::store::block_on;
use crate::torture::{self, Plan, Store};
use crate::values;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::ExitCode;
use windlass_core::random::{Random as _, SystemRandom};

/// Maximum length of a run: one day.
const SECONDS_MAX: u64 = 24 * 3_600;
/// Generated seeds are below this, so that they are short enough to type.
const SEEDS: u64 = 1_000_000;

/// Maximum number of operators: each is a process, and together they must leave jobs for the workers.
const OPERATORS_MAX: i64 = 8;
/// Minimum retention: a shorter one would remove jobs before their workers learn that the settle succeeded.
const RETENTION_MIN_MS: u64 = 100;

#[derive(Debug, clap::Args)]
#[command(after_help = torture::HELP)]
pub(super) struct Args {
    /// Store: `file:DIR`, `postgres://…` or `http://HOST:PORT`. Writes only to a new directory below DIR, or to
    /// a new schema; on a server, only to a new queue
    #[arg(required_unless_present = "start_postgres")]
    url: Option<String>,
    /// Directory in which to start a PostgreSQL server, instead of a URL: in a new subdirectory, on a private
    /// port, with fsync enabled. It is killed during the run, too, and removed afterwards
    #[arg(long, value_name = "DIR", conflicts_with_all = ["url", "serve"])]
    start_postgres: Option<PathBuf>,
    /// Length of the fault phase in seconds; draining and checking take additional time
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    seconds: u64,
    /// Seed of the fault schedule; the same seed produces the same faults [default: random, and printed]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// With file:DIR: start a server that owns the directory, connect the clients over HTTP, and kill the
    /// server, too
    #[arg(long)]
    serve: bool,
    /// Connect without the proxy, so that the network does not fail
    #[arg(long)]
    direct: bool,
    /// Number of operators, which cancel, edit, move and replay jobs during the run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(..=OPERATORS_MAX))]
    operators: u32,
    /// Retention of ended jobs, at least 100ms; if set, the operators discard jobs, too [default: longer than
    /// the run]
    #[arg(long, value_name = "TIME", value_parser = retention)]
    retention: Option<u64>,
    /// Run jobs under limits, with ten workers, and check that no limit is exceeded
    #[arg(long)]
    limits: bool,
    /// Let some jobs form random graphs of up to 200 jobs, and check that none starts early or is forgotten
    #[arg(long, conflicts_with = "limits")]
    flows: bool,
    /// With --start-postgres: setting of that PostgreSQL server, e.g.
    /// default_transaction_isolation=serializable; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = postgres_setting)]
    postgres_setting: Vec<String>,
    /// Directory for histories, logs, schedule and findings, kept whatever the verdict [default: a new one,
    /// removed if the run passes]
    #[arg(long, value_name = "DIR")]
    evidence: Option<PathBuf>,
    /// Print the verdict as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        if self.start_postgres.is_none() && !self.postgres_setting.is_empty() {
            bail!(
                "--postgres-setting applies to the server of --start-postgres only; on another server use ALTER \
                 DATABASE … SET"
            );
        }
        let store = match (self.start_postgres, self.url) {
            (Some(parent), _) => Store::OwnPostgres(parent),
            (None, url) => Store::At(the_store(url, self.serve)?),
        };
        let plan = Plan {
            store,
            seconds: self.seconds,
            seed: self.seed.unwrap_or_else(|| SystemRandom.below(SEEDS)),
            serve: self.serve,
            direct: self.direct,
            operators: self.operators,
            retention_ms: self.retention,
            limits: self.limits,
            flows: self.flows,
            postgres_settings: self.postgres_setting,
            evidence: self.evidence,
            json: self.json,
        };
        block_on(torture::run(plan))
    }
}

fn retention(text: &str) -> Result<u64, String> {
    match values::duration_ms(text)? {
        ms if ms < RETENTION_MIN_MS => {
            Err(format!("{text} is too short: use {RETENTION_MIN_MS}ms or more"))
        }
        ms => Ok(ms),
    }
}

fn postgres_setting(text: &str) -> Result<String, String> {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.".contains(c))
    };
    match text.split_once('=') {
        Some((name, _)) if is_name(name) => Ok(text.to_owned()),
        _ => Err("use NAME=VALUE, e.g. default_transaction_isolation=serializable".to_owned()),
    }
}

/// Parses the URL of the store; fails if it cannot be tortured.
fn the_store(url: Option<String>, serve: bool) -> Result<Url> {
    // Not parsed by clap, whose error messages would show the value: it may contain a password.
    let url: Url = url.unwrap_or_default().parse()?;
    if matches!(url, Url::Memory) {
        bail!(
            "memory: loses everything when its process is killed, so there is nothing to test; \
             torture file:DIR, postgres://… or http://HOST:PORT"
        );
    }
    if serve && !matches!(url, Url::File(_)) {
        bail!("--serve needs a store in a directory: torture file:DIR --serve");
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use crate::commands::{Cli, Command};
    use clap::Parser as _;

    #[test]
    fn the_commands_of_the_guide_are_understood() {
        let guide = include_str!("../../../../docs/guides/guarantees.md");
        let commands =
            guide.lines().filter_map(|line| line.strip_prefix("cargo run --release -- "));
        let commands: Vec<&str> = commands.collect();
        assert!(commands.len() >= 3, "{commands:?}");
        for command in commands {
            let words = std::iter::once("windlass").chain(command.split(' '));
            let cli =
                Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{command}: {error}"));
            assert!(matches!(cli.command, Command::Torture(_)), "{command}");
        }
    }
}
