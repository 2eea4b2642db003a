//! Installs Chromium and its driver, which the dashboard's browser test needs, from the distribution's packages
//! if they are missing. Knows nothing of the test.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::apt;

/// Debian's names of the packages.
const PACKAGES: [&str; 2] = ["chromium", "chromium-driver"];
/// The programs in the packages.
const PROGRAMS: [&str; 2] = ["chromium", "chromedriver"];
/// Environment variable that skips the browser test; the test reads it, too.
const SKIP_VAR: &str = "WINDLASS_SKIP_BROWSER";

/// Installs both programs if they are missing, unless the browser test is skipped.
pub(crate) fn ensure() -> Result<()> {
    if std::env::var_os(SKIP_VAR).is_some() || PROGRAMS.iter().all(|program| answers(program)) {
        return Ok(());
    }
    eprintln!("installing {} for the browser test", PACKAGES.join(" and "));
    let way_out = format!(
        "install {} manually, or set {SKIP_VAR}=1 to skip the browser test",
        PACKAGES.join(" and ")
    );
    apt::install(&PACKAGES).with_context(|| way_out.clone())?;
    match PROGRAMS.iter().find(|program| !answers(program)) {
        Some(program) => bail!("{program} still does not start; {way_out}"),
        None => Ok(()),
    }
}

/// Whether the program is installed and starts.
fn answers(program: &str) -> bool {
    let mut command = Command::new(program);
    let status = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_program_that_is_there_answers() {
        assert!(answers("git"));
        assert!(!answers("no-such-browser"));
    }
}
