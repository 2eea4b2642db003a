//! Child processes: locates cargo and the repository, and streams or captures the output of tools.

use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

/// The repository root, independent of the working directory.
pub(crate) fn root() -> Result<PathBuf> {
    // Read at run time, not at build time: a cached binary may outlive a moved checkout.
    let manifest_dir = env::var_os("CARGO_MANIFEST_DIR")
        .context("CARGO_MANIFEST_DIR is not set; start this as `cargo xtask`")?;
    let root = PathBuf::from(manifest_dir).parent().map(PathBuf::from);
    root.context("xtask has no parent directory; start this as `cargo xtask`")
}

/// The cargo that started this process, at the repository root.
pub(crate) fn cargo(args: &[&str]) -> Result<Command> {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root()?).args(args);
    Ok(command)
}

/// Like [`cargo`], for subcommands that resolve dependencies: does not change the lock file.
pub(crate) fn cargo_locked(subcommand: &[&str]) -> Result<Command> {
    let mut command = cargo(subcommand)?;
    if root()?.join("Cargo.lock").exists() {
        command.arg("--locked");
    }
    Ok(command)
}

#[derive(Deserialize)]
struct Metadata {
    target_directory: PathBuf,
}

/// Cargo's target directory.
pub(crate) fn target() -> Result<PathBuf> {
    let args = ["metadata", "--no-deps", "--format-version", "1"];
    let json = capture(&mut cargo_locked(&args)?)?;
    let metadata: Metadata =
        serde_json::from_str(&json).context("cannot parse the output of `cargo metadata`")?;
    Ok(metadata.target_directory)
}

/// Whether `cargo <subcommand>` is installed.
pub(crate) fn has_cargo_subcommand(subcommand: &str) -> Result<bool> {
    let mut command = cargo(&[subcommand, "--version"])?;
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    Ok(status.is_ok_and(|status| status.success()))
}

/// Runs a command with its output passed through, so that logs contain it.
pub(crate) fn stream(command: &mut Command) -> Result<()> {
    let status = stream_status(command)?;
    if !status.success() {
        bail!("`{}` failed: {status}", shown(command));
    }
    Ok(())
}

/// Like [`stream`], for tools with several meaningful exit codes.
pub(crate) fn stream_status(command: &mut Command) -> Result<ExitStatus> {
    command.status().with_context(|| format!("cannot start `{}`; is it installed?", shown(command)))
}

/// Runs a command and returns its standard output.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{}`; is it installed?", shown(command)))?;
    if !output.status.success() {
        bail!("`{}` failed: {}", shown(command), output.status);
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` printed output that is not UTF-8", shown(command)))
}

/// The command as typed in a shell, truncated to a line: mutant runs have hundreds of arguments.
fn shown(command: &Command) -> String {
    const MAX_ARGS: usize = 12;
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program()).to_string_lossy();
    let mut line = name.into_owned();
    for arg in command.get_args().take(MAX_ARGS) {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    if command.get_args().count() > MAX_ARGS {
        line.push_str(" …");
    }
    line
}
