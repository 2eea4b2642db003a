//! `cargo xtask lint`: formatting, clippy and the documentation build, with warnings as errors; dependencies.

use std::process::Command;

use anyhow::{Context as _, Result};

use crate::steps::Steps;
use crate::{deny, process};

pub(crate) fn run() -> Result<()> {
    let mut steps = Steps::default();
    add_steps(&mut steps);
    steps.finish()
}

/// The lint steps, also used by `cargo xtask test`.
pub(crate) fn add_steps(steps: &mut Steps) {
    steps.run("fmt", "cargo fmt --all --check (and `cargo fmt --all` mends it)", fmt);
    steps.run(
        "clippy",
        "cargo clippy --workspace --all-targets --all-features -- -D warnings",
        clippy,
    );
    steps.run("docs", "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps", docs);
    deny::add_steps(steps);
}

fn fmt() -> Result<()> {
    ensure_component("fmt", "rustfmt")?;
    process::stream(&mut process::cargo(&["fmt", "--all", "--check"])?)
}

fn clippy() -> Result<()> {
    ensure_component("clippy", "clippy")?;
    let mut clippy = process::cargo_locked(&["clippy", "--workspace"])?;
    clippy.args(["--all-targets", "--all-features", "--", "-D", "warnings"]);
    process::stream(&mut clippy)
}

fn docs() -> Result<()> {
    let mut doc = process::cargo_locked(&["doc", "--workspace", "--no-deps", "--all-features"])?;
    process::stream(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// A minimal toolchain comes without rustfmt and clippy; rustup can add them.
fn ensure_component(subcommand: &str, component: &str) -> Result<()> {
    if process::has_cargo_subcommand(subcommand)? {
        return Ok(());
    }
    process::stream(Command::new("rustup").args(["component", "add", component]))
        .with_context(|| format!("{component} is missing; install it beside this Rust toolchain"))
}
