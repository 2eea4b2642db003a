//! A PostgreSQL server started for the run: created in a new directory, on a private loopback port, killed with
//! all of its processes and restarted. It runs with fsync, as in production. Knows nothing of jobs.

mod processes;
mod programs;

use anyhow::{Context as _, Result, bail};
use processes::kill_with_children;
use programs::Programs;
use std::fs::{self, File, OpenOptions};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::Instant;
use windlass_core::random::{Random as _, SystemRandom};

/// Name of its only user.
const SUPERUSER: &str = "postgres";
/// Its settings: durable as by default, reachable from this machine only, and with connections for all clients.
const SETTINGS: [&str; 5] = [
    "listen_addresses=127.0.0.1",
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "max_connections=200",
];
/// Range of ports, outside the usual ephemeral range: while the server is down, no client connection is
/// assigned its port.
const PORTS: std::ops::Range<u16> = 25_000..32_000;
/// Name of its data directory.
const DATA: &str = "data";
/// Maximum time until it accepts queries, recovery included.
const START_MAX: Duration = Duration::from_secs(60);
/// Polling interval.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Number of log lines in the error if it does not start.
const LAST_LINES: usize = 8;
/// Name of a file that exists while the server runs. The server's own pid file survives a kill, and its pid may
/// belong to another process by then.
const RUNNING: &str = "running";
/// A shell script that stops the server when this process has ended for any reason: its stdin closes then.
const KEEPER: &str = r#"
trap '' INT TERM HUP
cat > /dev/null
[ -f "$1/running" ] && kill -QUIT "$(head -n 1 "$1/data/postmaster.pid")"
exit 0
"#;

/// A server, running or not. Killed when dropped; the caller removes its files.
pub(super) struct OwnPostgres {
    programs: Programs,
    home: PathBuf,
    log: PathBuf,
    port: u16,
    password: String,
    postmaster: Option<Child>,
    /// Server settings given by the user, as `NAME=VALUE`.
    settings: Vec<String>,
    /// The process that runs `KEEPER`.
    _keeper: Child,
}

impl OwnPostgres {
    /// Creates a server in this new directory and starts it with additional settings; its output goes to `log`.
    pub(super) async fn start_in(home: &Path, log: PathBuf, settings: Vec<String>) -> Result<Self> {
        let programs = Programs::find()?;
        programs.give(home)?;
        // An absolute path, because its programs run in another working directory.
        let home = fs::canonicalize(home).context("cannot find the directory of PostgreSQL")?;
        let password = format!("{:032x}", SystemRandom.next_u128());
        make(&programs, &home, &password).await?;
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, "sh"])
            .arg(&home)
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("cannot start a shell")?;
        let (port, postmaster) = (free_port()?, None);
        let mut server =
            Self { programs, home, log, port, password, postmaster, settings, _keeper: keeper };
        server.start().await?;
        Ok(server)
    }

    /// Its URL.
    pub(super) fn url(&self) -> String {
        let Self { port, password, .. } = self;
        format!("postgres://{SUPERUSER}:{password}@127.0.0.1:{port}/postgres")
    }

    /// Whether it has been started and not killed since.
    pub(super) const fn is_up(&self) -> bool {
        self.postmaster.is_some()
    }

    /// Starts it and waits until it accepts queries.
    pub(super) async fn start(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_MAX;
        while !self.answers().await {
            if Instant::now() > deadline {
                bail!(
                    "PostgreSQL did not answer within {START_MAX:?}; its log ends with: {}",
                    self.log_tail()
                );
            }
            let is_running = match &mut self.postmaster {
                Some(postmaster) => postmaster.try_wait()?.is_none(),
                None => false,
            };
            // A server that ended early may have found remains of its predecessor, and is started again.
            if !is_running {
                self.postmaster = Some(self.launch()?);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    fn launch(&self) -> Result<Child> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let log: File = log.context("cannot write the log of PostgreSQL")?;
        let mut command = self.programs.command("postgres");
        command.arg("-D").arg(self.home.join(DATA)).args(["-p", &self.port.to_string(), "-k", ""]);
        // The user's settings follow the defaults, because the last value wins.
        for setting in SETTINGS.into_iter().chain(self.settings.iter().map(String::as_str)) {
            command.args(["-c", setting]);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // A separate process group, so that ctrl-c does not reach the server.
        command.process_group(0);
        let postmaster = command.spawn().context("cannot start PostgreSQL")?;
        File::create(self.home.join(RUNNING))
            .context("cannot write the marker of the running PostgreSQL")?;
        Ok(postmaster)
    }

    /// The end of its log, for an error: the file may be removed before the user can read it.
    fn log_tail(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }

    async fn answers(&self) -> bool {
        if self.postmaster.is_none() {
            return false;
        }
        match tokio_postgres::connect(&self.url(), tokio_postgres::NoTls).await {
            Ok((client, connection)) => {
                let requested = client.simple_query("SELECT 1");
                tokio::select! {
                    answer = requested => answer.is_ok(),
                    _ = connection => false,
                }
            }
            Err(_) => false,
        }
    }

    /// Sends SIGKILL to all of its processes at once, as if the machine had crashed.
    pub(super) async fn kill(&mut self) -> Result<()> {
        let Some(mut postmaster) = self.postmaster.take() else { return Ok(()) };
        self.kill_all(&postmaster)?;
        postmaster.wait().await.context("cannot wait for the end of PostgreSQL")?;
        Ok(())
    }

    fn kill_all(&self, postmaster: &Child) -> Result<()> {
        // A server that ended by itself has no pid any more.
        postmaster.id().map_or(Ok(()), kill_with_children)?;
        fs::remove_file(self.home.join(RUNNING))
            .context("cannot remove the marker of the running PostgreSQL")
    }
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        if let Some(postmaster) = self.postmaster.take() {
            // If this fails, the keeper stops the rest.
            let _ = self.kill_all(&postmaster);
        }
    }
}

/// Creates an empty cluster that requires the password.
async fn make(programs: &Programs, home: &Path, password: &str) -> Result<()> {
    let (data, secret) = (home.join(DATA), home.join("password"));
    fs::write(&secret, password).with_context(|| format!("cannot write {}", secret.display()))?;
    programs.give(&secret)?;
    let mut initdb = programs.command("initdb");
    initdb.args([
        "--no-sync",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        "--username",
        SUPERUSER,
    ]);
    initdb.arg("--pwfile").arg(&secret).arg("--pgdata").arg(&data);
    let made = initdb.output().await.context("cannot start initdb")?;
    if !made.status.success() {
        let said = String::from_utf8_lossy(&made.stderr);
        bail!("initdb cannot make {}: {}{}", data.display(), said.trim(), programs.advice());
    }
    fs::remove_file(&secret).with_context(|| format!("cannot remove {}", secret.display()))
}

/// Finds a free port. If another process takes it before the server does, the start fails with an error.
fn free_port() -> Result<u16> {
    let many = u64::from(PORTS.end - PORTS.start);
    let first = SystemRandom.below(many) as u16;
    let ports = (PORTS.start + first..PORTS.end).chain(PORTS.start..PORTS.start + first);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.into_iter().find(is_free).context("no port is free for PostgreSQL")
}
