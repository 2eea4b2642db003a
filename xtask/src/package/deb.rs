//! A Debian package, built by `dpkg-deb` from the staged files.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::stage::Stage;
use crate::process;

/// Builds the package and returns its name; `None` if this system has no `dpkg-deb`.
pub(super) fn build(stage: &Stage, out: &Path) -> Result<Option<String>> {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        eprintln!("dpkg-deb is not installed: no Debian package");
        return Ok(None);
    }
    let architecture = process::capture(Command::new("dpkg").arg("--print-architecture"))?;
    let architecture = architecture.trim();
    let root = out.join("deb");
    fs::create_dir_all(root.join("DEBIAN"))?;
    process::stream(Command::new("cp").arg("-a").arg(&stage.root).arg(root.join("usr")))?;
    fs::write(root.join("DEBIAN/control"), control(&stage.version, architecture)?)?;
    let name = format!("windlass_{}_{architecture}.deb", stage.version);
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.args(["--root-owner-group", "--build"]).arg(&root).arg(out.join(&name));
    process::stream(&mut dpkg)?;
    fs::remove_dir_all(root)?;
    Ok(Some(name))
}

fn control(version: &str, architecture: &str) -> Result<String> {
    // The program needs the C library that it was linked with, or a newer one.
    let libc = process::capture(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
    let libc = libc.split_whitespace().last().unwrap_or("2.36").to_owned();
    Ok(format!(
        "Package: windlass
Version: {version}
Architecture: {architecture}
Maintainer: The Windlass developers <windlass@localhost>
Section: net
Priority: optional
Depends: libc6 (>= {libc}), libgcc-s1
Description: Durable background job queue
 Stores jobs, runs them on workers, retries failures and shows what happened.
 The server starts with `systemctl enable --now windlass` and listens on
 127.0.0.1:7474.
"
    ))
}
