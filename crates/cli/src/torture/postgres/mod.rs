//! A PostgreSQL of our own: made in a fresh directory, on a private port of the loopback, killed with all of
//! its processes and started again. It syncs, as one that matters does. Knows nothing of jobs.

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

/// Its superuser, which is all there is in it.
const SUPERUSER: &str = "postgres";
/// How it is set up: as it comes, but reached only from this machine, and by all clients at once.
const SETTINGS: [&str; 5] = [
    "listen_addresses=127.0.0.1",
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "max_connections=200",
];
/// Ports that systems do not hand out: no client is given it for its own end while the server is away.
const PORTS: std::ops::Range<u16> = 25_000..32_000;
/// Its files, in its directory.
const DATA: &str = "data";
/// How long it may take to answer, recovery included.
const START_MAX: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// So much of its log is told if it does not start.
const LAST_LINES: usize = 8;
/// There while the server runs. The server's own file outlives a kill, with the number of a process that may
/// be somebody else's by then.
const RUNNING: &str = "running";
/// Stops the server when this process is gone, however it ended: its input closes then.
const KEEPER: &str = r#"
trap '' INT TERM HUP
cat > /dev/null
[ -f "$1/running" ] && kill -QUIT "$(head -n 1 "$1/data/postmaster.pid")"
exit 0
"#;

/// A server, running or not. Killed when dropped; its files belong to whoever made the directory.
pub(super) struct OwnPostgres {
    programs: Programs,
    home: PathBuf,
    log: PathBuf,
    port: u16,
    password: String,
    postmaster: Option<Child>,
    /// Server settings given by the user, as `NAME=VALUE`.
    settings: Vec<String>,
    /// Ends with this process.
    _keeper: Child,
}

impl OwnPostgres {
    /// Makes one in this fresh directory and starts it with more settings; what it says goes to `log`.
    pub(super) async fn start_in(home: &Path, log: PathBuf, settings: Vec<String>) -> Result<Self> {
        let programs = Programs::find()?;
        programs.give(home)?;
        // Its programs are started elsewhere, where a relative path would be another one.
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

    /// Where it is reached.
    pub(super) fn url(&self) -> String {
        let Self { port, password, .. } = self;
        format!("postgres://{SUPERUSER}:{password}@127.0.0.1:{port}/postgres")
    }

    /// Whether it was started and not killed since.
    pub(super) const fn is_up(&self) -> bool {
        self.postmaster.is_some()
    }

    /// Starts it and waits until it answers.
    pub(super) async fn start(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_MAX;
        while !self.answers().await {
            if Instant::now() > deadline {
                bail!(
                    "PostgreSQL did not answer within {START_MAX:?}; it said: {}",
                    self.last_words()
                );
            }
            let is_running = match &mut self.postmaster {
                Some(postmaster) => postmaster.try_wait()?.is_none(),
                None => false,
            };
            // One that ended again may have found something of its predecessor that was about to go.
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
        // The last one counts.
        for setting in SETTINGS.into_iter().chain(self.settings.iter().map(String::as_str)) {
            command.args(["-c", setting]);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // A key on the keyboard is for us.
        command.process_group(0);
        let postmaster = command.spawn().context("cannot start PostgreSQL")?;
        File::create(self.home.join(RUNNING)).context("cannot note that PostgreSQL runs")?;
        Ok(postmaster)
    }

    /// The end of its log, which may be gone when somebody wants to look.
    fn last_words(&self) -> String {
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
                let asked = client.simple_query("SELECT 1");
                tokio::select! {
                    answer = asked => answer.is_ok(),
                    _ = connection => false,
                }
            }
            Err(_) => false,
        }
    }

    /// SIGKILL of all of its processes at once, as if the machine had lost it.
    pub(super) async fn kill(&mut self) -> Result<()> {
        let Some(mut postmaster) = self.postmaster.take() else { return Ok(()) };
        self.kill_all(&postmaster)?;
        postmaster.wait().await.context("cannot wait for the end of PostgreSQL")?;
        Ok(())
    }

    fn kill_all(&self, postmaster: &Child) -> Result<()> {
        // One that ended by itself has no number any more.
        postmaster.id().map_or(Ok(()), kill_with_children)?;
        fs::remove_file(self.home.join(RUNNING)).context("cannot note that PostgreSQL is gone")
    }
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        if let Some(postmaster) = self.postmaster.take() {
            // If that fails, the keeper stops what is left of it.
            let _ = self.kill_all(&postmaster);
        }
    }
}

/// An empty cluster that asks for the password.
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

/// Free now; whoever takes it before the server does makes the start fail, and say so.
fn free_port() -> Result<u16> {
    let many = u64::from(PORTS.end - PORTS.start);
    let first = SystemRandom.below(many) as u16;
    let ports = (PORTS.start + first..PORTS.end).chain(PORTS.start..PORTS.start + first);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.into_iter().find(is_free).context("no port is free for PostgreSQL")
}
