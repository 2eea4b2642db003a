//! Installs Debian packages that tests need. Knows nothing of their purpose.

use std::process::Command;

use anyhow::Result;

use crate::process;

/// Installs these packages. The package lists may be missing or outdated; they are updated only if the
/// installation fails.
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
