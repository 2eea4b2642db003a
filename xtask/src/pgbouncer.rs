//! pgbouncer, which tests of the PostgreSQL engine go through: installed from the distribution's packages
//! when it is missing. Knows nothing of the tests.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::apt;

/// The package, as Debian calls it, and the program it brings.
const PACKAGE: &str = "pgbouncer";
const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// Makes sure that the program is there.
pub(crate) fn ensure() -> Result<()> {
    if !Path::new(PROGRAM).exists() {
        eprintln!("installing {PACKAGE} for the tests");
        apt::install(&[PACKAGE]).with_context(|| format!("install {PACKAGE} yourself"))?;
    }
    ensure!(Path::new(PROGRAM).exists(), "{PACKAGE} is installed, but there is no {PROGRAM}");
    Ok(())
}
