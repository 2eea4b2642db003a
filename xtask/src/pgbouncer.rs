//! Installs pgbouncer, which tests of the PostgreSQL engine use, from the distribution's packages if it is
//! missing. Knows nothing of the tests.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::apt;

/// Debian's name of the package, and the program in it.
const PACKAGE: &str = "pgbouncer";
const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// Installs the program if it is missing.
pub(crate) fn ensure() -> Result<()> {
    if !Path::new(PROGRAM).exists() {
        eprintln!("installing {PACKAGE} for the tests");
        apt::install(&[PACKAGE]).with_context(|| format!("install {PACKAGE} yourself"))?;
    }
    ensure!(Path::new(PROGRAM).exists(), "{PACKAGE} is installed, but there is no {PROGRAM}");
    Ok(())
}
