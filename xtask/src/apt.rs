//! Installs Debian packages that tests need. Knows nothing of their purpose.

use std::process::Command;

use anyhow::Result;

use crate::process;

/// How long to wait for another installation on this machine, in seconds.
const LOCK_TIMEOUT_S: u32 = 120;

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
    command.arg("--option").arg(format!("DPkg::Lock::Timeout={LOCK_TIMEOUT_S}"));
    command
}
