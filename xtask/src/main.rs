//! The command line of `cargo xtask`: parses the command and its options. Knows nothing of the work.

mod apt;
mod axe;
mod bench;
mod chromium;
mod deny;
mod docs;
mod lint;
mod mutants;
mod openapi;
mod package;
mod pgbouncer;
mod postgres;
mod postgres_versions;
mod process;
mod promtool;
mod redis;
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
    /// Run lint, tidy and all tests, and start and stop the services they need.
    Test(test::Options),
    /// Check formatting, clippy, the documentation build (warnings are errors) and dependencies.
    Lint,
    /// Check dependencies: licences, duplicates, sources and, if cargo-deny is installed, advisories.
    Deny,
    /// Check style rules: file lengths, leftovers, crate directions, lint exceptions, links.
    Tidy,
    /// Test a seeded sample of code mutations and count how many the tests catch.
    Mutants(mutants::Options),
    /// Benchmark Windlass and its peers in one run on this machine, and write a report.
    Bench(bench::Options),
    /// Regenerate docs/openapi.json from the routes of the server.
    Openapi,
    /// Build the documentation as a site.
    Docs(docs::Options),
    /// Build an archive and a Debian package of the command, with completions and manual pages.
    Package(package::Options),
    /// Test a server against its own OpenAPI document with generated requests.
    Schemathesis(schemathesis::Options),
    /// Test the PostgreSQL engine on every supported version of PostgreSQL.
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
        Cli::Docs(options) => docs::run(&options),
        Cli::Package(options) => package::run(&options),
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
