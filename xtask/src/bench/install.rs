//! Installs the drivers: peers are installed from the configured package registries into `target/bench-peers`,
//! never into the workspace's own dependencies. A peer that cannot be installed is recorded, and the run
//! continues without it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::contender::{Contender, Driver, StoreKind};
use super::results::Missing;
use super::store;
use crate::process;

/// The installed drivers.
pub(super) struct Drivers {
    target: PathBuf,
    ready: Vec<&'static str>,
}

impl Drivers {
    /// Installs the drivers of these contenders; returns those that could not be installed, with the reasons.
    pub(super) fn install(contenders: &[Contender]) -> Result<(Self, Vec<Missing>)> {
        let target = process::target()?;
        let (mut drivers, mut missing) = (Self { target, ready: Vec::new() }, Vec::new());
        copy_files(&process::root()?.join("bench/peers"), &drivers.peers())?;
        let mut tried: Vec<(Driver, Result<(), String>)> = Vec::new();
        for contender in contenders {
            let known = tried.iter().find(|(driver, _)| *driver == contender.driver);
            let installed = match known {
                Some((_, installed)) => installed.clone(),
                None => {
                    eprintln!("==> {}", contender.name);
                    let installed = drivers.install_one(contender.driver);
                    let installed = installed.map_err(|error| format!("{error:#}"));
                    tried.push((contender.driver, installed.clone()));
                    installed
                }
            };
            let ready =
                installed.and_then(|()| server_of(contender).map_err(|error| format!("{error:#}")));
            match ready {
                Ok(()) => drivers.ready.push(contender.name),
                Err(why) => {
                    eprintln!("{} is skipped: {why}", contender.name);
                    missing.push(Missing { contender: contender.name, why });
                }
            }
        }
        Ok((drivers, missing))
    }

    pub(super) fn has(&self, contender: &Contender) -> bool {
        self.ready.contains(&contender.name)
    }

    /// The command of a driver; it takes the order as its only argument.
    pub(super) fn command(&self, contender: &Contender) -> Result<Command> {
        let place = |name: &str| self.peers().join(name);
        let command = match contender.driver {
            Driver::Ours => Command::new(self.target.join("dist/bench-ours")),
            Driver::Rust(name) => Command::new(self.rust().join(format!("release/{name}-driver"))),
            Driver::Node(name) => {
                let mut command = Command::new(place(name).join("node_modules/.bin/node"));
                command.arg(place(name).join("driver.mjs"));
                command
            }
            Driver::Python(name) => {
                let mut command = Command::new(place(name).join("venv/bin/python"));
                command.arg(place(name).join("driver.py"));
                command
            }
        };
        Ok(command)
    }

    fn peers(&self) -> PathBuf {
        self.target.join("bench-peers")
    }

    fn rust(&self) -> PathBuf {
        self.peers().join("rust")
    }

    fn install_one(&self, driver: Driver) -> Result<()> {
        match driver {
            Driver::Ours => {
                let build = ["build", "--profile", "dist", "--package", "bench-ours"];
                process::stream(&mut process::cargo_locked(&build)?)
            }
            Driver::Rust(name) => self.build_rust(name),
            Driver::Node(name) => {
                let place = self.peers().join(name);
                if is_installed(&place, "package.json")? {
                    return Ok(());
                }
                let mut npm = Command::new("npm");
                npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error"]);
                process::stream(npm.current_dir(&place))?;
                note_installed(&place, "package.json")
            }
            Driver::Python(name) => {
                let place = self.peers().join(name);
                if is_installed(&place, "requirements.txt")? {
                    return Ok(());
                }
                process::stream(
                    Command::new("python3").args(["-m", "venv"]).arg(place.join("venv")),
                )?;
                let mut pip = Command::new(place.join("venv/bin/pip"));
                pip.args(["install", "--quiet", "--requirement", "requirements.txt"]);
                process::stream(pip.current_dir(&place))?;
                note_installed(&place, "requirements.txt")
            }
        }
    }

    /// Builds all Rust drivers together, because separate builds would resolve different features of their
    /// dependencies. A driver that fails to build does not affect the others.
    fn build_rust(&self, name: &str) -> Result<()> {
        let driver = self.rust().join(format!("release/{name}-driver"));
        if driver.exists() {
            // It may be from an earlier run; cargo restores it if it is up to date.
            fs::remove_file(&driver)?;
        }
        let mut build = process::cargo(&["build", "--release", "--locked", "--keep-going"])?;
        build.current_dir(process::root()?.join("bench/peers-rust"));
        // Variables that cargo set for xtask would look like changes to build scripts, and rerun them.
        let about_xtask =
            |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(about_xtask) {
                build.env_remove(name);
            }
        }
        let built = process::stream(build.arg("--target-dir").arg(self.rust()));
        if driver.exists() { Ok(()) } else { built.and_then(|()| bail!("it built no driver")) }
    }
}

/// Installs the server that a contender needs besides PostgreSQL.
fn server_of(contender: &Contender) -> Result<()> {
    match contender.store {
        StoreKind::RedisAlways | StoreKind::RedisEverysec => {
            store::ensure_program("redis-server", "redis-server")
        }
        StoreKind::Beanstalkd => store::ensure_program("beanstalkd", "beanstalkd"),
        StoreKind::Postgres | StoreKind::Directory => Ok(()),
    }
}

/// Name of the file with the exact manifest of the last installation.
const INSTALLED: &str = "installed";

fn is_installed(place: &Path, list: &str) -> Result<bool> {
    let wanted =
        fs::read(place.join(list)).with_context(|| format!("no {list} in {}", place.display()))?;
    Ok(fs::read(place.join(INSTALLED)).is_ok_and(|installed| installed == wanted))
}

fn note_installed(place: &Path, list: &str) -> Result<()> {
    fs::copy(place.join(list), place.join(INSTALLED))?;
    Ok(())
}

/// Copies files and directories, overwriting existing ones: scripts import from their own directory.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_files(&entry.path(), &target)?,
            false => {
                fs::copy(entry.path(), target)?;
            }
        }
    }
    Ok(())
}
