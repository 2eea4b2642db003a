//! Installs axe-core, which checks the dashboard's pages for accessibility, from the npm registry. Knows nothing of
//! the test.

use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process;

/// The version; a newer one may have more rules.
const VERSION: &str = "4.10.3";
/// Environment variable with the path of the script; the test reads it.
const SCRIPT_VAR: &str = "WINDLASS_AXE";

/// Installs it, or reuses the one in the target directory; the variable for tests.
pub(crate) fn ensure() -> Result<(&'static str, String)> {
    let place = process::target()?.join(format!("axe-{VERSION}"));
    let script = place.join("node_modules/axe-core/axe.min.js");
    if !script.exists() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-save", "--no-audit", "--no-fund", "--prefix"]).arg(&place);
        npm.arg(format!("axe-core@{VERSION}"));
        process::stream(&mut npm).context("cannot install axe-core from the npm registry")?;
    }
    Ok((SCRIPT_VAR, script.display().to_string()))
}
