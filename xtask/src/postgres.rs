//! A private PostgreSQL server for tests and benchmarks, on loopback; removed afterwards.

use std::env;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::{apt, process};

/// Environment variable with the server's URL for tests. If it is already set, that server is used and none is
/// started.
const VARIABLE: &str = "WINDLASS_TEST_POSTGRES";
/// Environment variable with the directory of the programs, for tests that start and kill their own servers.
const PROGRAMS: &str = "WINDLASS_TEST_POSTGRES_PROGRAMS";
/// Directory in which Debian installs the programs of each version.
const DEBIAN: &str = "/usr/lib/postgresql";
/// The user that Debian's package creates; PostgreSQL refuses to run as root.
const USER: &str = "postgres";

/// Settings for tests. Without fsync: tests kill processes of Windlass, not the machine of the server.
pub(crate) const TEST_SETTINGS: &[&str] = &["fsync=off", "max_connections=400"];

/// A shell script that runs the server until its stdin closes, which happens however this process ends; then it
/// stops the server and removes its files.
const KEEPER: &str = r#"
trap '' INT TERM HUP
home=$1; shift
"$@" &
cat > /dev/null
kill -QUIT "$(head -n 1 "$home/data/postmaster.pid")"
wait $!
rm -rf "$home"
"#;
/// The log message of a server that accepts connections.
const READY: &str = "database system is ready to accept connections";
/// Maximum number of polls for that message.
const LOOKS: u32 = 300;
/// Polling interval.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A running server; dropping it stops it and removes its files.
pub(crate) struct Postgres {
    programs: PathBuf,
    home: PathBuf,
    keeper: Option<Child>,
    url: String,
}

impl Postgres {
    /// Starts a server, unless the environment names one.
    pub(crate) fn start() -> Result<Option<Self>> {
        match env::var_os(VARIABLE) {
            Some(_) => Ok(None),
            // Not below the checkout, which the server's user may not be able to access.
            None => Self::private(programs()?, &env::temp_dir(), TEST_SETTINGS).map(Some),
        }
    }

    /// Starts a private server of the version of these programs, with its files below `parent`.
    pub(crate) fn private(programs: PathBuf, parent: &Path, settings: &[&str]) -> Result<Self> {
        let home = parent.join(format!("windlass-postgres-{}", std::process::id()));
        fs::create_dir(&home).with_context(|| format!("cannot make {}", home.display()))?;
        // From here on, the directory is removed on every error.
        let mut server = Self { programs, home, keeper: None, url: String::new() };
        server.launch(settings)?;
        Ok(server)
    }

    /// Its URL.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Its directory, which is removed with it.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Environment variables for the tests.
    pub(crate) fn variables(&self) -> [(&'static str, String); 2] {
        let programs = self.programs.to_string_lossy().into_owned();
        [(VARIABLE, self.url.clone()), (PROGRAMS, programs)]
    }

    fn launch(&mut self, settings: &[&str]) -> Result<()> {
        if is_root()? {
            process::stream(Command::new("chown").arg(USER).arg(&self.home))?;
        }
        let data = self.home.join("data");
        let mut initdb = self.program("initdb")?;
        initdb.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8"]);
        initdb.args(["--username", USER, "--pgdata"]).arg(&data);
        process::stream(initdb.stdout(Stdio::null()))?;
        // A free port. If another process takes it before the server does, the start fails with an error.
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port().to_string();
        let mut server = self.program("postgres")?;
        server.arg("-D").arg(&data).args(["-p", &port, "-k"]).arg(&self.home);
        ["listen_addresses=127.0.0.1"].iter().chain(settings).for_each(|setting| {
            server.args(["-c", setting]);
        });
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "sh"]).arg(&self.home);
        keeper.arg(server.get_program()).args(server.get_args()).current_dir(&self.home);
        let log = fs::File::create(self.home.join("log"))?;
        keeper.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        self.keeper = Some(keeper.spawn().context("cannot start a shell")?);
        self.url = format!("postgres://{USER}@127.0.0.1:{port}/postgres");
        self.wait_until_it_is_ready()
    }

    fn wait_until_it_is_ready(&self) -> Result<()> {
        let log = || fs::read_to_string(self.home.join("log")).unwrap_or_default();
        for _ in 0..LOOKS {
            if log().contains(READY) {
                return Ok(());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        bail!("the test server does not start; its log:\n{}", log());
    }

    /// A command for one of the server's programs, run as a user that it accepts.
    pub(crate) fn program(&self, name: &str) -> Result<Command> {
        let program = self.programs.join(name);
        let mut command = if is_root()? {
            let mut command = Command::new("runuser");
            command.args(["-u", USER, "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(&self.home);
        Ok(command)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            // Closing its stdin makes the keeper stop.
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
        let _ = fs::remove_dir_all(&self.home);
    }
}

/// The directory of the server's programs, newest version first; installs Debian's package if there is none.
pub(crate) fn programs() -> Result<PathBuf> {
    if let Some(found) = installed() {
        return Ok(found);
    }
    if Path::new("/usr/bin/apt-get").exists() && is_root()? {
        eprintln!("installing Debian's postgresql for the tests");
        // Prevents the package from creating and starting a cluster.
        apt::install(&["postgresql-common"])?;
        let settings = Path::new("/etc/postgresql-common/createcluster.d");
        fs::create_dir_all(settings)?;
        fs::write(settings.join("windlass-tests.conf"), "create_main_cluster = false\n")?;
        apt::install(&["postgresql"])?;
    }
    let Some(found) = installed() else {
        bail!(
            "no PostgreSQL found: install it (Debian: postgresql), put initdb on the PATH, or set \
             {VARIABLE} to the URL of a server that tests may use"
        );
    };
    Ok(found)
}

fn installed() -> Option<PathBuf> {
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    versions.sort();
    let debian = versions.into_iter().rev().map(|(_, programs)| programs);
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places = debian.chain(env::split_paths(&path).collect::<Vec<_>>());
    places.find(|place| ["initdb", "postgres"].iter().all(|it| place.join(it).exists()))
}

fn is_root() -> Result<bool> {
    Ok(process::capture(Command::new("id").arg("-u"))?.trim() == "0")
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_server_answers_while_it_is_held_and_leaves_nothing_behind() {
        let server =
            Postgres::private(programs().unwrap(), &env::temp_dir(), TEST_SETTINGS).unwrap();
        let [(name, url), _] = server.variables();
        assert_eq!(name, VARIABLE);
        let address = url.split(['@', '/']).find(|part| part.starts_with("127.0.0.1:")).unwrap();
        TcpStream::connect(address).unwrap();
        let home = server.home.clone();
        drop(server);
        assert!(TcpStream::connect(address).is_err(), "it still listens on {address}");
        assert!(!home.exists(), "{} is still there", home.display());
    }
}
