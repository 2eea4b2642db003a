//! `cargo xtask postgres-versions`: runs the tests of the PostgreSQL engine on every supported version. Servers
//! are installed from the npm registry, because Debian has only one version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::postgres::{Postgres, TEST_SETTINGS};
use crate::steps::Steps;
use crate::{pgbouncer, process};

/// Major version, name of its step, and version of the package. Pinned; raise them deliberately.
const VERSIONS: [(u32, &str, &str); 6] = [
    (13, "postgres 13", "13.23.0-beta.16"),
    (14, "postgres 14", "14.23.0-beta.17"),
    (15, "postgres 15", "15.18.0-beta.17"),
    (16, "postgres 16", "16.14.0-beta.17"),
    (17, "postgres 17", "17.10.0-beta.17"),
    (18, "postgres 18", "18.4.0-beta.17"),
];

#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Versions to test, e.g. 13,18 [default: all]
    #[arg(long, value_delimiter = ',')]
    versions: Vec<u32>,
    /// Only tests whose name contains this
    filter: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let known = |version: &u32| VERSIONS.iter().any(|(major, ..)| major == version);
    if let Some(version) = options.versions.iter().find(|version| !known(version)) {
        let all = VERSIONS.map(|(major, ..)| major.to_string()).join(", ");
        bail!("PostgreSQL {version} is not supported; use some of {all}");
    }
    pgbouncer::ensure()?;
    let mut steps = Steps::default();
    for (major, name, package) in VERSIONS {
        if options.versions.is_empty() || options.versions.contains(&major) {
            let alone = format!("cargo xtask postgres-versions --versions {major}");
            steps.run(name, alone, || test(package, options));
        }
    }
    steps.finish()
}

/// Runs the engine's tests on a server of this version.
fn test(version: &str, options: &Options) -> Result<()> {
    let programs = Programs::installed(version)?;
    let server =
        Postgres::private(programs.home.join("bin"), &std::env::temp_dir(), TEST_SETTINGS)?;
    let mut command = if process::has_cargo_subcommand("nextest")? {
        let mut command = process::cargo_locked(&["nextest", "run", "--no-fail-fast"])?;
        command.args(["--status-level", "fail"]);
        command
    } else {
        process::cargo_locked(&["test", "--no-fail-fast", "--tests"])?
    };
    command.args(["--package", "windlass-postgres"]).args(&options.filter);
    process::stream(command.envs(server.variables()))
}

/// The programs of a version; removed on drop if they are a copy.
struct Programs {
    home: PathBuf,
}

impl Programs {
    /// Installs the programs from the registry, or reuses those in the target directory.
    fn installed(version: &str) -> Result<Self> {
        let package = format!("@embedded-postgres/{}", platform()?);
        let place = process::target()?.join(format!("postgres-{version}"));
        let native = place.join("node_modules").join(&package).join("native");
        if !native.join("bin/postgres").exists() {
            let mut npm = Command::new("npm");
            npm.args(["install", "--no-save", "--no-audit", "--no-fund", "--prefix"]).arg(&place);
            npm.arg(format!("{package}@{version}"));
            process::stream(&mut npm).context("cannot install a server from the npm registry")?;
        }
        Self::copied(&native, version)
    }

    /// Copies the programs to a directory that the user of the servers can access.
    fn copied(native: &Path, version: &str) -> Result<Self> {
        let name = format!("windlass-postgres-{version}-{}", std::process::id());
        let programs = Self { home: std::env::temp_dir().join(name) };
        let mut copy = Command::new("cp");
        process::stream(copy.args(["-rp", "--"]).arg(native).arg(&programs.home))?;
        process::stream(Command::new("chmod").args(["-R", "a+rX", "--"]).arg(&programs.home))?;
        Ok(programs)
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.home);
    }
}

/// The registry's name of this platform.
fn platform() -> Result<&'static str> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Ok("linux-x64"),
        ("linux", "aarch64") => Ok("linux-arm64"),
        (system, machine) => bail!("no servers available for {system} on {machine}"),
    }
}
