//! `windlass bench`: its arguments, and what they select. The measuring itself is in [`crate::bench`].

use crate::bench::{self, Plan, Profile, Workload};
use crate::connect::Url;
use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use std::process::ExitCode;

/// The hidden command under which `bench` starts itself for one measurement.
pub(super) const RUN_COMMAND: &str = "bench-run";

/// How much time to spend.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProfileName {
    /// A first impression in less than a minute, one repeat
    Quick,
    /// Figures to quote: long enough to reach a steady state, three repeats
    Full,
    /// Enough to see that everything works; its figures say nothing, so debug builds take it too
    #[value(hide = true)]
    Tiny,
}

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The engine: `memory:`, `file:DIR`, `postgres://…` or `http://HOST:PORT`. Only a fresh directory below
    /// DIR, or a schema of its own, is written to, and it is removed afterwards; of a server only the
    /// queue `windlass-bench`, and it is emptied
    #[arg(default_value = "file:.")]
    url: Url,
    /// How much time to spend
    #[arg(long, value_enum, default_value_t = ProfileName::Quick)]
    profile: ProfileName,
    /// Only these workloads, as in `W1c64,W3`; `W5` means every workload that begins so
    #[arg(long, value_delimiter = ',', value_name = "NAMES", value_parser = Workload::select)]
    only: Vec<Selection>,
    /// Print a JSON array instead of the table
    #[arg(long)]
    json: bool,
    /// How often to measure each workload; the median is reported [default: quick 1, full 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: Option<u32>,
    /// Leave the baselines (bare log, slim SQLite) out
    #[arg(long)]
    no_baselines: bool,
    /// With file:DIR: also measure through a server in a process of its own, over loopback, beside the
    /// engine in this process
    #[arg(long)]
    over_http: bool,
}

/// What one name of `--only` stands for. Behind a name, because clap takes a bare `Vec` of `Vec`s
/// for something else.
type Selection = Vec<Workload>;

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        if cfg!(debug_assertions) && !matches!(self.profile, ProfileName::Tiny) {
            bail!(
                "this is a debug build, and its figures would say nothing about Windlass; \
                 use a release build: cargo run --release -- bench {}",
                self.url
            );
        }
        let profile = match self.profile {
            ProfileName::Quick => Profile::quick(),
            ProfileName::Full => Profile::full(),
            ProfileName::Tiny => Profile::tiny(),
        };
        if self.over_http && !matches!(self.url, Url::File(_)) {
            bail!("--over-http compares with an engine in a directory: bench file:DIR --over-http");
        }
        let repeats = self.repeats.unwrap_or(profile.repeats);
        let plan = Plan {
            workloads: self.workloads(),
            baselines: !self.no_baselines,
            over_http: self.over_http,
            url: self.url,
            profile,
            repeats,
            json: self.json,
        };
        runtime()?.block_on(bench::run(plan))
    }

    /// The selected workloads in their own order, each once, whatever the order of `--only`.
    fn workloads(&self) -> Vec<Workload> {
        let named: Vec<Workload> = self.only.iter().flatten().copied().collect();
        let wanted = |it: &Workload| named.is_empty() || named.contains(it);
        Workload::ALL.into_iter().filter(wanted).collect()
    }
}

/// The process of one measurement. It is told on its input what to do.
pub(super) fn run_one() -> Result<ExitCode> {
    let spec = bench::told()?;
    bench::end_with_parent();
    let sample = runtime()?.block_on(bench::measure(&spec))?;
    println!("{}", serde_json::to_string(&sample)?);
    Ok(ExitCode::SUCCESS)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")
}

#[cfg(test)]
mod tests {
    use crate::bench::Workload;
    use crate::commands::{Cli, Command};
    use clap::Parser as _;

    fn args(line: &str) -> super::Args {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        let Command::Bench(args) = cli.command else { panic!("{line} is a bench") };
        args
    }

    #[test]
    fn everything_is_measured_unless_workloads_are_named() {
        assert_eq!(args("windlass bench memory:").workloads(), Workload::ALL);
    }

    #[test]
    fn named_workloads_run_once_and_in_their_own_order() {
        let workloads = args("windlass bench memory: --only W3,W1c64,w3").workloads();
        assert_eq!(workloads, [Workload::W1c64, Workload::W3]);
    }

    #[test]
    fn a_prefix_names_its_family() {
        let workloads = args("windlass bench memory: --only W5").workloads();
        let family = [Workload::W5same0, Workload::W5same, Workload::W5lanes0, Workload::W5lanes];
        assert_eq!(workloads, family);
    }

    #[test]
    fn no_repeats_at_all_is_refused() {
        assert!(Cli::try_parse_from("windlass bench memory: --repeats 0".split(' ')).is_err());
    }

    #[test]
    fn the_command_line_is_well_formed() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
