//! `cargo xtask test`: lint, tidy and every test, with the servers that tests need around them; `--fast` for the
//! everyday loop, `--long` for what takes longer than CI has time for.

use std::num::NonZero;
use std::process::Command;

use anyhow::Result;

use crate::services::Services;
use crate::steps::Steps;
use crate::{lint, postgres_versions, process, schemathesis, tidy};

/// Cases of the model-based test under `--long`, unless the environment says otherwise.
const LONG_MODEL_CASES: &str = "20000";
const MODEL_CASES_VAR: &str = "WINDLASS_MODEL_CASES";
const MODEL_SEED_VAR: &str = "WINDLASS_MODEL_SEED";

/// The packages of `--fast`: their tests need no server and no browser.
const FAST: [&str; 13] = [
    "windlass-core",
    "windlass-executor",
    "windlass-kit",
    "windlass-layers",
    "windlass-macros",
    "windlass-memory",
    "windlass-services",
    "windlass-traces",
    "windlass-wire",
    "windlass-worker",
    "windlass-workset",
    "windlass",
    "xtask",
];
/// Test binaries of these packages that run compilers or other processes.
const NOT_FAST: &str = "not binary(/^(examples|left_out|mistakes|process|processes)$/)";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only what needs no server, browser or other process; leaves out lint, tidy and doc tests.
    #[arg(long, conflicts_with = "long")]
    fast: bool,
    /// Also run ignored tests, many more cases of the model-based test, schemathesis, and the tests of
    /// the PostgreSQL engine on every version of it.
    #[arg(long)]
    long: bool,
    /// Run only tests whose name contains this; leaves out lint, tidy and doc tests.
    filter: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut steps = Steps::default();
    let whole = options.filter.is_none() && !options.fast;
    if whole {
        lint::add_steps(&mut steps);
        steps.run("tidy", "cargo xtask tidy", tidy::run);
    }
    steps.run("tests", "cargo xtask test FILTER, with part of a test's name", || tests(options));
    if whole {
        let alone = "cargo test --workspace --all-features --doc";
        steps.run("doc tests", alone, || doc_tests(options));
        if options.long {
            let run = || schemathesis::run(&schemathesis::Options::default());
            steps.run("schemathesis", "cargo xtask schemathesis", run);
            let run = || postgres_versions::run(&postgres_versions::Options::default());
            steps.run("versions", "cargo xtask postgres-versions", run);
        }
    }
    steps.finish()
}

fn tests(options: &Options) -> Result<()> {
    let services = if options.fast { None } else { Some(Services::start(options.long)?) };
    let mut command = if process::has_cargo_subcommand("nextest")? {
        nextest(options)?
    } else {
        cargo_test(options)?
    };
    process::stream(command.envs(services.iter().flat_map(Services::variables)))
}

fn nextest(options: &Options) -> Result<Command> {
    let mut command =
        process::cargo_locked(&["nextest", "run", "--all-features", "--no-fail-fast"])?;
    select_packages(&mut command, options);
    if options.fast {
        command.args(["--filterset", NOT_FAST]);
    }
    if options.long {
        command.args(["--run-ignored", "all", "--profile", "long"]);
    }
    if options.filter.is_some() {
        command.arg("--ignore-default-filter");
    }
    command.args(&options.filter);
    // Many tests wait for processes, timers or the disk: one more uses what they leave of the processor.
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    command.args(["--test-threads", &(cores + 1).to_string()]);
    raise_model_cases(&mut command, options);
    Ok(command)
}

fn cargo_test(options: &Options) -> Result<Command> {
    let mut command = process::cargo_locked(&["test", "--all-features"])?;
    select_packages(&mut command, options);
    // Doc tests are a step of their own, as nextest does not run them.
    command.args(["--no-fail-fast", "--lib", "--bins", "--tests", "--examples"]);
    command.args(&options.filter);
    if options.long {
        command.args(["--", "--include-ignored"]);
    }
    raise_model_cases(&mut command, options);
    Ok(command)
}

fn select_packages(command: &mut Command, options: &Options) {
    if options.fast {
        command.args(FAST.iter().flat_map(|package| ["--package", package]));
    } else {
        command.arg("--workspace");
    }
}

fn doc_tests(options: &Options) -> Result<()> {
    let mut command = process::cargo_locked(&["test", "--workspace", "--all-features", "--doc"])?;
    raise_model_cases(&mut command, options);
    process::stream(&mut command)
}

fn raise_model_cases(command: &mut Command, options: &Options) {
    if options.long && std::env::var_os(MODEL_CASES_VAR).is_none() {
        command.env(MODEL_CASES_VAR, LONG_MODEL_CASES);
        // Ordinary runs repeat the same stories; long runs generate new ones.
        command.env(MODEL_SEED_VAR, "random");
    }
}
