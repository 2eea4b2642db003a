//! `windlass torture`: its arguments. What is done with them is in [`crate::torture`].

use crate::connect::Url;
use crate::store::block_on;
use crate::torture::{self, Plan, Store};
use crate::values;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::ExitCode;
use windlass_core::random::{Random as _, SystemRandom};

/// The longest run.
const SECONDS_MAX: u64 = 24 * 3_600;
/// Seeds that are made up are short enough to be typed again.
const SEEDS: u64 = 1_000_000;

/// Operators in a run: each is a process, and they must leave some work to the others.
const OPERATORS_MAX: i64 = 8;
/// A shorter retention would remove jobs before their workers know that they have reported.
const RETENTION_MIN_MS: u64 = 100;

#[derive(Debug, clap::Args)]
#[command(after_help = torture::HELP)]
pub(super) struct Args {
    /// The store: `file:DIR`, `postgres://…` or `http://HOST:PORT`. Only a fresh directory below DIR, or a
    /// schema of its own, is written to; of a server only a queue of its own
    #[arg(required_unless_present = "start_postgres")]
    url: Option<String>,
    /// Instead of a URL: start a PostgreSQL of our own, in a fresh directory below DIR and on a private port,
    /// and kill it too. It syncs; it is ended and removed afterwards
    #[arg(long, value_name = "DIR", conflicts_with_all = ["url", "serve"])]
    start_postgres: Option<PathBuf>,
    /// How long things go wrong; draining and judging come on top
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    seconds: u64,
    /// Decides what goes wrong when; the same seed means the same faults [default: made up, and printed]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// With file:DIR: a server of our own owns the directory and is killed too, the clients talk to it over
    /// HTTP
    #[arg(long)]
    serve: bool,
    /// Without the proxy in between: the network does not fail
    #[arg(long)]
    direct: bool,
    /// Operators who cancel, edit, move and replay jobs meanwhile
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(..=OPERATORS_MAX))]
    operators: u32,
    /// How long ended jobs are kept, at least 100ms; the operators discard jobs, too [default: longer than the run]
    #[arg(long, value_name = "TIME", value_parser = retention)]
    retention: Option<u64>,
    /// With --start-postgres: a setting of that PostgreSQL, as in default_transaction_isolation=serializable; can
    /// be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = postgres_setting)]
    postgres_setting: Vec<String>,
    /// Keep histories, logs, schedule and findings in this directory, whatever the verdict
    /// [default: a fresh one, removed if all is well]
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
                "--postgres-setting is for the PostgreSQL of --start-postgres; on a server of your own use ALTER \
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
        _ => Err("use NAME=VALUE, as in default_transaction_isolation=serializable".to_owned()),
    }
}

/// The store that a URL names, if it can be tortured.
fn the_store(url: Option<String>, serve: bool) -> Result<Url> {
    // Not read by clap, which shows what it cannot read: there may be a password in it.
    let url: Url = url.unwrap_or_default().parse()?;
    if matches!(url, Url::Memory) {
        bail!(
            "memory: keeps nothing when its process is killed, so there is nothing to prove; \
             torture file:DIR, postgres://… or http://HOST:PORT"
        );
    }
    if serve && !matches!(url, Url::File(_)) {
        bail!("--serve starts a server on a directory: torture file:DIR --serve");
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
