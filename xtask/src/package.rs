//! `cargo xtask package`: an archive and a Debian package of the `windlass` command, with completions and manual pages.

mod deb;
mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process;
use stage::Stage;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Profile of the build; `dist` is for packages that are published
    #[arg(long, default_value = "dist")]
    profile: String,
    /// Directory for the packages [default: packages in the target directory]
    #[arg(long)]
    out: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let target = process::target()?;
    let out = options.out.clone().unwrap_or_else(|| target.join("packages"));
    let mut build = process::cargo_locked(&["build", "--package", "windlass-cli"])?;
    process::stream(build.args(["--profile", &options.profile]))?;
    // Cargo keeps the files of the profile `dev` in `debug`.
    let directory = if options.profile == "dev" { "debug" } else { &options.profile };
    let program = target.join(directory).join("windlass");
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("cannot empty {}", out.display()))?;
    }
    let stage = Stage::fill(&out, &program)?;
    let mut made = vec![archive(&stage, &out)?];
    made.extend(deb::build(&stage, &out)?);
    fs::remove_dir_all(&stage.root)?;
    checksums(&out, &made)?;
    for name in &made {
        println!("{}", out.join(name).display());
    }
    Ok(())
}

/// The archive, with the same bytes for the same files on every machine.
fn archive(stage: &Stage, out: &Path) -> Result<String> {
    let directory = format!("windlass-{}-{}", stage.version, stage.host);
    let name = format!("{directory}.tar.gz");
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"]);
    tar.arg(format!("--transform=s,^\\.,{directory},"));
    tar.arg("-C").arg(&stage.root).arg("-czf").arg(out.join(&name)).arg(".");
    process::stream(&mut tar)?;
    Ok(name)
}

fn checksums(out: &Path, names: &[String]) -> Result<()> {
    let sums = process::capture(Command::new("sha256sum").args(names).current_dir(out))?;
    fs::write(out.join("SHA256SUMS"), sums)?;
    Ok(())
}
