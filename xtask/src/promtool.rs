//! Finds promtool, which tests the alert rules, or takes it out of Debian's package. Knows nothing of the rules.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::process;

/// Environment variable with the path of the program; the test reads it.
const PROGRAM_VAR: &str = "WINDLASS_PROMTOOL";

/// The one on the `PATH`, or the one in the target directory; the variable for tests.
pub(crate) fn ensure() -> Result<(&'static str, String)> {
    if Command::new("promtool").arg("--version").output().is_ok() {
        return Ok((PROGRAM_VAR, "promtool".to_owned()));
    }
    let place = process::target()?.join("promtool");
    let program = place.join("usr/bin/promtool");
    if !program.exists() {
        fs::create_dir_all(&place)?;
        // Extracted, not installed: the package would start a server.
        process::stream(
            Command::new("apt-get").args(["download", "prometheus"]).current_dir(&place),
        )
        .context("promtool is missing: install Debian's prometheus or put promtool on the PATH")?;
        let files = fs::read_dir(&place)?.flatten().map(|entry| entry.path());
        let package = files.into_iter().find(|it| it.extension().is_some_and(|it| it == "deb"));
        let package = package.context("apt-get downloaded no package")?;
        process::stream(Command::new("dpkg-deb").arg("-x").arg(package).arg(&place))?;
    }
    ensure!(program.exists(), "Debian's prometheus contains no promtool");
    Ok((PROGRAM_VAR, program.display().to_string()))
}
