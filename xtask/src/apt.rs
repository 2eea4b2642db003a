//! Debian's packages, for what tests need and a machine has not. Knows nothing of what they are for.

use std::process::Command;

use anyhow::Result;

use crate::process;

/// Installs these packages. The lists of packages may be missing or old; they are fetched only if it
/// does not work as it is.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let install = || {
        let options = ["install", "--quiet", "--yes", "--no-install-recommends"];
        process::stream(apt_get().args(options).args(packages))
    };
    install().or_else(|_| {
        process::stream(apt_get().args(["update", "--quiet"]))?;
        install()
    })
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}
