//! `cargo xtask mutants`: draws a seeded sample of code mutations and runs the tests on them.

mod score;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::process;
use score::Score;

/// Number of cases of the model-based test: low, because it runs once per mutant.
const MODEL_CASES: &str = "64";
/// Exit code of cargo-mutants: all mutants were caught.
const ALL_CAUGHT: i32 = 0;
/// Exit code of cargo-mutants: some mutants were missed.
const SOME_MISSED: i32 = 2;
/// Exit code of cargo-mutants: tests timed out on some mutants.
const SOME_TIMED_OUT: i32 = 3;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of mutants to draw
    #[arg(long, default_value_t = 120)]
    sample: usize,
    /// Seed of the sample; the same seed on the same code draws the same mutants
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Packages whose code is mutated
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "windlass-core,windlass-executor,windlass-workset,windlass-memory"
    )]
    packages: Vec<String>,
    /// Packages whose tests must catch the mutants
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "windlass-core,windlass-executor,windlass-workset,windlass-memory"
    )]
    test_packages: Vec<String>,
    /// Number of mutants tested at a time, each in its own copy of the tree
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

#[derive(Deserialize)]
struct Mutant {
    name: String,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if !process::has_cargo_subcommand("mutants")? {
        process::stream(&mut process::cargo(&["install", "--locked", "cargo-mutants"])?)
            .context("cargo-mutants is missing; `cargo install --locked cargo-mutants`")?;
    }
    let all = list(&options.packages)?;
    let found = all.len();
    let sample = draw(all, options.sample, options.seed);
    println!(
        "{} of {found} mutants of {}, seed {}",
        sample.len(),
        options.packages.join(" and "),
        options.seed
    );
    let output = process::root()?.join("target/mutants");
    try_out(&sample, options, &output)?;
    let score = Score::read(&output.join("mutants.out"))?;
    // It may test more mutants than were drawn: its filter includes all "delete field" mutants.
    if score.total() < sample.len() {
        bail!("{} mutants drawn, {} tested; see {}", sample.len(), score.total(), output.display());
    }
    score.report()
}

fn list(packages: &[String]) -> Result<Vec<String>> {
    let mut command = process::cargo(&["mutants", "--list", "--json"])?;
    for package in packages {
        command.args(["--package", package]);
    }
    let json = process::capture(&mut command)?;
    let mutants: Vec<Mutant> =
        serde_json::from_str(&json).context("cannot parse the output of `cargo mutants --list`")?;
    if mutants.is_empty() {
        bail!("{} has no mutants; is the name right?", packages.join(" and "));
    }
    Ok(mutants.into_iter().map(|mutant| mutant.name).collect())
}

fn try_out(sample: &[String], options: &Options, output: &Path) -> Result<()> {
    fs::create_dir_all(output).with_context(|| format!("cannot create {}", output.display()))?;
    let mut command = process::cargo(&["mutants"])?;
    for package in &options.test_packages {
        command.args(["--test-package", package]);
    }
    for package in &options.packages {
        command.args(["--package", package]);
    }
    command.args(["--jobs", &options.jobs.to_string(), "--output"]).arg(output);
    for name in sample {
        command.arg("--re").arg(exactly(name));
    }
    if process::has_cargo_subcommand("nextest")? {
        // Stops at the first failure, which is enough to catch a mutant.
        command.args(["--test-tool=nextest", "--cargo-test-arg=--max-fail=1:immediate"]);
    }
    let status = process::stream_status(command.env("WINDLASS_MODEL_CASES", MODEL_CASES))?;
    match status.code() {
        Some(ALL_CAUGHT | SOME_MISSED | SOME_TIMED_OUT) => Ok(()),
        _ => bail!("cargo mutants could not run: {status}; its logs are in {}", output.display()),
    }
}

/// A regular expression that matches this mutant's name and no other.
fn exactly(name: &str) -> String {
    let mut pattern = String::from("^");
    for c in name.chars() {
        // Only these characters are escaped: an escaped `<` would mean the start of a word.
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('$');
    pattern
}

/// The first `count` names of a shuffle that depends only on the seed.
fn draw(mut names: Vec<String>, count: usize, seed: u64) -> Vec<String> {
    let mut state = seed;
    for last in (1..names.len()).rev() {
        let pick = split_mix_64(&mut state) % (last as u64 + 1);
        names.swap(last, usize::try_from(pick).unwrap_or(last));
    }
    names.truncate(count);
    names
}

fn split_mix_64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("mutant {n}")).collect()
    }

    #[test]
    fn the_same_seed_draws_the_same_sample_and_another_seed_another() {
        assert_eq!(draw(names(50), 10, 1), draw(names(50), 10, 1));
        assert_ne!(draw(names(50), 10, 1), draw(names(50), 10, 2));
    }

    #[test]
    fn a_sample_holds_no_mutant_twice_and_no_more_than_there_are() {
        let mut sample = draw(names(50), 80, 1);
        sample.sort();
        sample.dedup();
        assert_eq!(sample.len(), 50);
    }

    #[test]
    fn a_pattern_escapes_what_regular_expressions_would_interpret() {
        assert_eq!(exactly("a.rs:1: f -> (x)"), r"^a\.rs:1: f \-> \(x\)$");
    }
}
