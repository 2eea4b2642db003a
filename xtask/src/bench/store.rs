//! Creates a new store for every cell, all on one disk: databases on one PostgreSQL server, Redis and
//! beanstalkd servers that live as long as a cell, directories. All are private, on loopback, and removed
//! afterwards.

use std::cell::Cell;
use std::env;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::contender::StoreKind;
use crate::postgres::Postgres;
use crate::{apt, process};

/// Settings of the server that Windlass and the peers share. They favour no contender; durability is at its
/// defaults.
pub(super) const POSTGRES_SETTINGS: &[&str] = &[
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "max_connections=200",
    "shared_buffers=512MB",
    "max_wal_size=4GB",
];
/// A directory on disk even if `/tmp` is in memory.
const DISK: &str = "/var/tmp";
/// Maximum number of polls until a server listens.
const LOOKS: u32 = 500;
/// Polling interval.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The stores of all cells.
pub(super) struct Stores {
    postgres: Postgres,
    next: Cell<u32>,
}

/// The store of one cell; dropping it removes it.
pub(super) struct Store<'a> {
    stores: &'a Stores,
    url: String,
    place: Place,
}

enum Place {
    Database(String),
    Directory(PathBuf),
    Server { child: Child, directory: PathBuf },
    Removed,
}

impl Stores {
    pub(super) fn start() -> Result<Self> {
        let disk = Path::new(DISK);
        let parent = if disk.is_dir() { disk.to_owned() } else { env::temp_dir() };
        let postgres = Postgres::private(crate::postgres::programs()?, &parent, POSTGRES_SETTINGS)?;
        Ok(Self { postgres, next: Cell::new(0) })
    }

    /// The directory that contains all stores.
    pub(super) fn directory(&self) -> &Path {
        self.postgres.home()
    }

    pub(super) fn postgres_version(&self) -> Result<String> {
        Ok(process::capture(self.postgres.program("postgres")?.arg("--version"))?.trim().to_owned())
    }

    /// Creates an empty store.
    pub(super) fn fresh(&self, kind: StoreKind) -> Result<Store<'_>> {
        let number = self.next.replace(self.next.get() + 1);
        let (url, place) = match kind {
            StoreKind::Postgres => self.database(&format!("bench_{number}"))?,
            StoreKind::Directory => {
                let path = self.make_directory(number)?;
                (format!("file:{}", path.display()), Place::Directory(path))
            }
            StoreKind::RedisAlways => self.redis(number, "always")?,
            StoreKind::RedisEverysec => self.redis(number, "everysec")?,
            StoreKind::Beanstalkd => self.beanstalkd(number)?,
        };
        Ok(Store { stores: self, url, place })
    }

    fn database(&self, name: &str) -> Result<(String, Place)> {
        self.sql(&format!("CREATE DATABASE {name}"))?;
        let (server, _) =
            self.postgres.url().rsplit_once('/').context("a URL without a database")?;
        Ok((format!("{server}/{name}"), Place::Database(name.to_owned())))
    }

    fn sql(&self, statement: &str) -> Result<()> {
        let mut psql = self.postgres.program("psql")?;
        psql.args(["--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", self.postgres.url()]);
        process::stream(psql.args(["--command", statement]).stdout(Stdio::null()))
    }

    fn make_directory(&self, number: u32) -> Result<PathBuf> {
        let path = self.directory().join(format!("store-{number}"));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }

    fn redis(&self, number: u32, appendfsync: &str) -> Result<(String, Place)> {
        let (directory, port) = (self.make_directory(number)?, free_port()?);
        let mut server = Command::new("redis-server");
        server.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        server.args(["--appendonly", "yes", "--appendfsync", appendfsync, "--dir"]).arg(&directory);
        let place = launch(&mut server, directory, port)?;
        Ok((format!("redis://127.0.0.1:{port}"), place))
    }

    fn beanstalkd(&self, number: u32) -> Result<(String, Place)> {
        let (directory, port) = (self.make_directory(number)?, free_port()?);
        let mut server = Command::new("beanstalkd");
        server.args(["-l", "127.0.0.1", "-p", &port.to_string(), "-f", "0", "-b"]).arg(&directory);
        let place = launch(&mut server, directory, port)?;
        Ok((format!("beanstalk://127.0.0.1:{port}"), place))
    }
}

impl Store<'_> {
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Removes it, and waits until the disk is idle, so that the next cell is not affected.
    pub(super) fn remove(mut self) -> Result<()> {
        self.clear()?;
        process::stream(&mut Command::new("sync"))
    }

    fn clear(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.place, Place::Removed) {
            Place::Database(name) => {
                self.stores.sql(&format!("DROP DATABASE {name} WITH (FORCE)"))?;
                self.stores.sql("CHECKPOINT")
            }
            Place::Directory(directory) => remove_directory(&directory),
            Place::Server { mut child, directory } => {
                // Killed, not stopped: its data is not needed any more.
                let _ = child.kill();
                child.wait()?;
                remove_directory(&directory)
            }
            Place::Removed => Ok(()),
        }
    }
}

impl Drop for Store<'_> {
    fn drop(&mut self) {
        let _ = self.clear();
    }
}

fn remove_directory(directory: &Path) -> Result<()> {
    fs::remove_dir_all(directory).with_context(|| format!("cannot remove {}", directory.display()))
}

/// Finds a free port. If another process takes it before the server does, the cell fails with an error.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Starts a server and waits until it listens.
fn launch(server: &mut Command, directory: PathBuf, port: u16) -> Result<Place> {
    server.current_dir(&directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child =
        server.spawn().with_context(|| format!("cannot start {:?}", server.get_program()))?;
    let mut place = Place::Server { child, directory };
    for _ in 0..LOOKS {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok(place);
        }
        thread::sleep(LOOK_EVERY);
    }
    if let Place::Server { child, .. } = &mut place {
        let _ = child.kill();
        let _ = child.wait();
    }
    bail!("{:?} does not listen on port {port}", server.get_program());
}

/// Installs a server's program with Debian's package if it is missing; fails if it cannot be installed.
pub(super) fn ensure_program(program: &str, package: &str) -> Result<()> {
    let is_there = || {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path).any(|directory| directory.join(program).exists())
    };
    if !is_there() && Path::new("/usr/bin/apt-get").exists() {
        apt::install(&[package])?;
    }
    if !is_there() {
        bail!("{program} is not on the PATH; install it (Debian: {package})");
    }
    Ok(())
}
