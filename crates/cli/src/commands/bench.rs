//! `windlass bench`: parses its arguments into a plan. The measuring itself is in [`crate::bench`].

use crate::bench::{self, Plan, Profile, Workload};
use crate::connect::Url;
use crate::values;
use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use std::path::PathBuf;
use std::process::ExitCode;

/// Name of the hidden command with which `bench` starts itself for one measurement.
pub(super) const RUN_COMMAND: &str = "bench-run";

/// How long the measurements take.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProfileName {
    /// A first impression in less than a minute: one repeat
    Quick,
    /// Publishable figures: long enough to reach a steady state, three repeats
    Full,
    /// A smoke test with meaningless figures, therefore also allowed in debug builds
    #[value(hide = true)]
    Tiny,
}

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The engine: `memory:`, `file:DIR`, `postgres://…` or `http://HOST:PORT`. Writes only to a new directory
    /// below DIR, or to a new schema, and removes it afterwards; on a server, writes only to the queue
    /// `windlass-bench`, and empties it afterwards
    #[arg(default_value = "file:.")]
    url: Url,
    /// Length of the measurements
    #[arg(long, value_enum, default_value_t = ProfileName::Quick)]
    profile: ProfileName,
    /// Workloads to run, e.g. `W1c64,W3`; `W5` selects every workload whose name starts with it. `W3lanes`,
    /// `W5deep` and `soak` run only if they are named [default: all others]
    #[arg(long, visible_alias = "workload", value_delimiter = ',', value_name = "NAMES", value_parser = Workload::select)]
    only: Vec<Selection>,
    /// Print a JSON array instead of a table
    #[arg(long)]
    json: bool,
    /// Number of measurements per workload; the median is reported [default: quick 1, full 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: Option<u32>,
    /// Skip the baselines (bare log, slim SQLite)
    #[arg(long)]
    no_baselines: bool,
    /// With file:DIR: also measure through a server in a separate process, over loopback, in addition to the
    /// engine in this process
    #[arg(long)]
    over_http: bool,
    /// W6, W7 and soak: length of each run in seconds [default: depends on the profile]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    seconds: Option<u64>,
    /// W6, W7 and soak: directory for the time series of each run, as CSV and as a chart (SVG)
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
    /// soak: jobs enqueued per second [default: quick 1,000, full 5,000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: Option<u32>,
    /// soak: retention of finished jobs, e.g. `5m` [default: quick 10s, full 5m]
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
    retention: Option<u64>,
    /// W5deep: number of other ready jobs in the store [default: quick 1,000,000, full 10,000,000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=OTHERS_MAX))]
    ready: Option<u64>,
    /// W5deep: number of other scheduled jobs in the store [default: the same as --ready]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=OTHERS_MAX))]
    scheduled: Option<u64>,
}

/// Maximum length of a run: one day.
const SECONDS_MAX: u64 = 86_400;
/// Maximum number of ready, and of scheduled, jobs that W5deep prepares.
const OTHERS_MAX: u64 = 100_000_000;

/// The workloads that one name of `--only` selects. An alias, because clap treats a bare `Vec` of `Vec`s
/// differently.
type Selection = Vec<Workload>;

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        if cfg!(debug_assertions) && !matches!(self.profile, ProfileName::Tiny) {
            bail!(
                "this is a debug build, whose figures are meaningless; \
                 use a release build: cargo run --release -- bench {}",
                self.url
            );
        }
        let workloads = self.workloads();
        self.check(&workloads)?;
        let profile = self.sizes();
        if self.over_http && !matches!(self.url, Url::File(_)) {
            bail!("--over-http needs an engine in a directory: bench file:DIR --over-http");
        }
        let repeats = self.repeats.unwrap_or(profile.repeats);
        let plan = Plan {
            workloads,
            baselines: !self.no_baselines,
            over_http: self.over_http,
            url: self.url,
            profile,
            repeats,
            json: self.json,
            csv: self.csv,
        };
        runtime()?.block_on(bench::run(plan))
    }

    /// The profile, with the user's overrides applied.
    fn sizes(&self) -> Profile {
        let mut profile = match self.profile {
            ProfileName::Quick => Profile::quick(),
            ProfileName::Full => Profile::full(),
            ProfileName::Tiny => Profile::tiny(),
        };
        if let Some(seconds) = self.seconds {
            (profile.sustained_ms, profile.soak_ms) = (seconds * 1_000, seconds * 1_000);
        }
        profile.soak_rate = self.rate.unwrap_or(profile.soak_rate);
        profile.soak_retention_ms = self.retention.unwrap_or(profile.soak_retention_ms);
        profile.deep_ready = self.ready.unwrap_or(profile.deep_ready);
        profile.deep_scheduled = self.scheduled.unwrap_or(profile.deep_scheduled);
        profile
    }

    /// Fails if an option has no effect on the selected workloads.
    fn check(&self, workloads: &[Workload]) -> Result<()> {
        let watched = workloads.iter().any(|it| it.is_watched());
        let soaked = workloads.contains(&Workload::Soak);
        let deep = workloads.contains(&Workload::W5deep);
        let options = [
            ("--seconds", self.seconds.is_some(), watched, "W6"),
            ("--csv", self.csv.is_some(), watched, "W6"),
            ("--rate", self.rate.is_some(), soaked, "soak"),
            ("--retention", self.retention.is_some(), soaked, "soak"),
            ("--ready", self.ready.is_some(), deep, "W5deep"),
            ("--scheduled", self.scheduled.is_some(), deep, "W5deep"),
        ];
        for (option, is_given, has_meaning, example) in options {
            if is_given && !has_meaning {
                bail!(
                    "{option} has no effect on these workloads; select one that uses it, e.g. --only {example}"
                );
            }
        }
        Ok(())
    }

    /// The selected workloads in their declared order and without duplicates, whatever the order of `--only`.
    fn workloads(&self) -> Vec<Workload> {
        let named: Vec<Workload> = self.only.iter().flatten().copied().collect();
        if named.is_empty() {
            return Workload::usual();
        }
        Workload::ALL.into_iter().filter(|it| named.contains(it)).collect()
    }
}

/// The process of one measurement. Reads its specification from stdin.
pub(super) fn run_one() -> Result<ExitCode> {
    let spec = bench::received_spec()?;
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
        let usual = args("windlass bench memory:").workloads();
        assert_eq!(usual, Workload::usual());
        assert!(usual.contains(&Workload::W7dump) && !usual.contains(&Workload::W5deep));
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
    fn lengths_and_counts_reach_the_workloads_they_are_for_and_are_refused_for_others() {
        let line =
            "windlass bench memory: --workload soak --seconds 1800 --rate 5000 --retention 5m";
        let soak = args(line);
        soak.check(&soak.workloads()).unwrap();
        let sizes = soak.sizes();
        assert_eq!(
            (sizes.soak_ms, sizes.soak_rate, sizes.soak_retention_ms),
            (1_800_000, 5_000, 300_000)
        );
        let deep = args("windlass bench memory: --only W5deep --ready 7 --scheduled 0").sizes();
        assert_eq!((deep.deep_ready, deep.deep_scheduled), (7, 0));
        for (option, example) in
            [("--seconds 3", "W6"), ("--rate 9", "soak"), ("--ready 1", "W5deep")]
        {
            let args = args(&format!("windlass bench memory: --only W3 {option}"));
            let error = args.check(&args.workloads()).unwrap_err().to_string();
            assert!(error.contains(&option[..5]) && error.contains(example), "{error}");
        }
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
