//! Chromium and its driver, which the dashboard's browser test needs: installed from the distribution's
//! packages when they are missing. Knows nothing of the test.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::apt;

/// The packages, as Debian calls them.
const PACKAGES: [&str; 2] = ["chromium", "chromium-driver"];
/// The programs they bring.
const PROGRAMS: [&str; 2] = ["chromium", "chromedriver"];
/// Leaves the browser test out; the test looks at it too.
const SKIP_VAR: &str = "WINDLASS_SKIP_BROWSER";

/// Makes sure that both programs are there, unless the browser test is left out.
pub(crate) fn ensure() -> Result<()> {
    if std::env::var_os(SKIP_VAR).is_some() || PROGRAMS.iter().all(|program| answers(program)) {
        return Ok(());
    }
    eprintln!("installing {} for the browser test", PACKAGES.join(" and "));
    let way_out = format!(
        "install {} yourself, or set {SKIP_VAR}=1 to leave the browser test out",
        PACKAGES.join(" and ")
    );
    apt::install(&PACKAGES).with_context(|| way_out.clone())?;
    match PROGRAMS.iter().find(|program| !answers(program)) {
        Some(program) => bail!("{program} still does not start; {way_out}"),
        None => Ok(()),
    }
}

/// Whether the program is there and starts.
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
