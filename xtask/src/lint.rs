//! `cargo xtask lint`: checks formatting, clippy, the documentation build (warnings are errors) and
//! dependencies.

use std::process::Command;

use anyhow::{Context as _, Result};

use crate::steps::Steps;
use crate::{deny, process};

pub(crate) fn run() -> Result<()> {
    let mut steps = Steps::default();
    add_steps(&mut steps);
    steps.finish()
}

/// Adds the lint steps, also for `cargo xtask test`.
pub(crate) fn add_steps(steps: &mut Steps) {
    steps.run("fmt", "cargo fmt --all --check (fix with `cargo fmt --all`)", fmt);
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

/// Installs a component with rustup if it is missing: a minimal toolchain lacks rustfmt and clippy.
fn ensure_component(subcommand: &str, component: &str) -> Result<()> {
    if process::has_cargo_subcommand(subcommand)? {
        return Ok(());
    }
    process::stream(Command::new("rustup").args(["component", "add", component]))
        .with_context(|| format!("{component} is missing; install it for this Rust toolchain"))
}
