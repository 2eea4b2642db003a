//! A private Redis server for tests, on loopback; removed afterwards.

use std::env;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::apt;

/// Environment variable with the server's URL for tests. If it is already set, that server is used and none is
/// started.
const VARIABLE: &str = "WINDLASS_TEST_REDIS";
/// The server's program.
const PROGRAM: &str = "redis-server";
/// Settings for tests: nothing is persisted, because tests of durability start servers of their own.
const TEST_SETTINGS: &[&str] = &["--save", "", "--appendonly", "no"];

/// A shell script that runs the server until its stdin closes, which happens however this process ends; then it
/// stops the server and removes its files.
const KEEPER: &str = r#"
trap '' INT TERM HUP
home=$1; shift
"$@" &
cat > /dev/null
kill -KILL $!
wait $!
rm -rf "$home"
"#;
/// Maximum number of attempts to connect to a new server.
const LOOKS: u32 = 100;
/// Interval between them.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A running server; dropping it stops it and removes its files.
pub(crate) struct Redis {
    home: PathBuf,
    keeper: Option<Child>,
    address: String,
}

impl Redis {
    /// Starts a server, unless the environment names one.
    pub(crate) fn start() -> Result<Option<Self>> {
        match env::var_os(VARIABLE) {
            Some(_) => Ok(None),
            None => Self::private(&env::temp_dir(), TEST_SETTINGS).map(Some),
        }
    }

    /// Starts a private server, with its files below `parent`.
    fn private(parent: &Path, settings: &[&str]) -> Result<Self> {
        ensure()?;
        let home = parent.join(format!("windlass-redis-{}", std::process::id()));
        fs::create_dir(&home).with_context(|| format!("cannot make {}", home.display()))?;
        // From here on, the directory is removed on every error.
        let mut server = Self { home, keeper: None, address: String::new() };
        server.launch(settings)?;
        Ok(server)
    }

    /// Environment variable for the tests.
    pub(crate) fn variable(&self) -> (&'static str, String) {
        (VARIABLE, format!("redis://{}", self.address))
    }

    fn launch(&mut self, settings: &[&str]) -> Result<()> {
        // A free port. If another process takes it before the server does, the start fails with an error.
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port().to_string();
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "sh"]).arg(&self.home).arg(PROGRAM);
        keeper.args(["--bind", "127.0.0.1", "--port", &port, "--dir"]).arg(&self.home);
        keeper.args(settings).current_dir(&self.home);
        let log = fs::File::create(self.home.join("log"))?;
        keeper.stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
        self.keeper = Some(keeper.spawn().context("cannot start a shell")?);
        self.address = format!("127.0.0.1:{port}");
        for _ in 0..LOOKS {
            if TcpStream::connect(&self.address).is_ok() {
                return Ok(());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let log = fs::read_to_string(self.home.join("log")).unwrap_or_default();
        bail!("the test server does not start; its log:\n{log}");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            // Closing its stdin makes the keeper stop.
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
        let _ = fs::remove_dir_all(&self.home);
    }
}

/// Installs Debian's package if there is no server on the PATH.
fn ensure() -> Result<()> {
    if is_installed() {
        return Ok(());
    }
    if Path::new("/usr/bin/apt-get").exists() {
        eprintln!("installing Debian's redis-server for the tests");
        apt::install(&["redis-server"])?;
    }
    if !is_installed() {
        bail!(
            "no Redis found: install it (Debian: redis-server), or set {VARIABLE} to the URL of a server that tests \
             may use"
        );
    }
    Ok(())
}

fn is_installed() -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|place| place.join(PROGRAM).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_answers_while_it_is_held_and_leaves_nothing_behind() {
        let server = Redis::private(&env::temp_dir(), TEST_SETTINGS).unwrap();
        let (name, url) = server.variable();
        assert_eq!((name, url), (VARIABLE, format!("redis://{}", server.address)));
        let (address, home) = (server.address.clone(), server.home.clone());
        TcpStream::connect(&address).unwrap();
        drop(server);
        assert!(TcpStream::connect(&address).is_err(), "it still listens on {address}");
        assert!(!home.exists(), "{} is still there", home.display());
    }
}
