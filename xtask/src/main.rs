//! The command line of `cargo xtask`: which command, with which options. Knows nothing of the work.

mod apt;
mod bench;
mod chromium;
mod deny;
mod lint;
mod mutants;
mod openapi;
mod pgbouncer;
mod postgres;
mod postgres_versions;
mod process;
mod schemathesis;
mod services;
mod steps;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::Parser;

/// Builds, checks and tests Windlass.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Cli {
    /// Everything: lint, tidy and all tests, with what they need started and stopped around them.
    Test(test::Options),
    /// Formatting, clippy and the documentation build, with warnings as errors; dependencies.
    Lint,
    /// Dependencies: licences, duplicates, sources and, where cargo-deny is installed, advisories.
    Deny,
    /// Style as a test: file lengths, leftovers, crate directions, lint exceptions, links.
    Tidy,
    /// Changes the code in a seeded sample of ways and counts how many changes the tests catch.
    Mutants(mutants::Options),
    /// Measures Windlass beside its peers, in one run on this machine, and writes a report.
    Bench(bench::Options),
    /// Writes docs/openapi.json anew from the routes of the server.
    Openapi,
    /// Tests a server against its own OpenAPI document with requests made up at random.
    Schemathesis(schemathesis::Options),
    /// Tests the PostgreSQL engine on every version of PostgreSQL that it is for.
    PostgresVersions(postgres_versions::Options),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse() {
        Cli::Test(options) => test::run(&options),
        Cli::Lint => lint::run(),
        Cli::Deny => deny::run(),
        Cli::Tidy => tidy::run(),
        Cli::Mutants(options) => mutants::run(&options),
        Cli::Bench(options) => bench::run(&options),
        Cli::Openapi => openapi::run(),
        Cli::Schemathesis(options) => schemathesis::run(&options),
        Cli::PostgresVersions(options) => postgres_versions::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
