//! Servers of the tests' own: made, started, killed and started again. Knows nothing of jobs.
//!
//! They do not wait for the disk (`fsync=off`): what is killed here are processes, and the system keeps
//! what they wrote.

use crate::waiting::until;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use tokio_postgres::{Client, NoTls};

/// Where the server's programs are, unless they are where Debian puts them.
const PROGRAMS: &str = "WINDLASS_TEST_POSTGRES_PROGRAMS";
const DEBIAN: &str = "/usr/lib/postgresql";
/// PostgreSQL refuses to run as root; Debian's package brings this user.
const USER: &str = "postgres";
/// How every server is set up. Small, and quick to come back.
const SETTINGS: [&str; 4] =
    ["listen_addresses=127.0.0.1", "fsync=off", "shared_buffers=16MB", "wal_keep_size=64MB"];

/// How long a server may take to come back by itself.
const REVIVAL: Duration = Duration::from_secs(3);

/// Stops the server when the test is gone, however it ended.
const KEEPER: &str = r#"
trap '' INT TERM HUP
cat > /dev/null
[ -f "$1/data/postmaster.pid" ] && kill -QUIT "$(head -n 1 "$1/data/postmaster.pid")"
exit 0
"#;

/// A server, running or not. Gone with everything it wrote when dropped.
pub(crate) struct Server {
    home: PathBuf,
    port: u16,
    /// Settings beyond the usual ones.
    settings: Vec<String>,
    postmaster: Option<Child>,
    keeper: Child,
}

impl Server {
    /// A new one, not started yet, in a directory of its own below `place`.
    pub(crate) fn make_in(place: &Path) -> Self {
        let server = Self::bare(place);
        let mut initdb = program("initdb");
        // Small pieces of log, for small disks.
        initdb.args([
            "--wal-segsize=1",
            "--no-sync",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--username",
        ]);
        initdb.arg(USER).arg("--pgdata").arg(server.data()).stdout(Stdio::null());
        assert!(initdb.status().expect("initdb runs").success(), "initdb failed");
        server
    }

    /// A new one that runs.
    pub(crate) async fn start_new() -> Self {
        let mut server = Self::make_in(&std::env::temp_dir());
        server.start().await;
        server
    }

    /// A new one with what is in this one's directory, which must not run.
    pub(crate) fn copy(&self) -> Self {
        assert!(self.postmaster.is_none(), "a running server cannot be copied");
        let copy = Self::bare(self.home.parent().expect("homes have a parent"));
        let mut cp = Command::new("cp");
        cp.args(["-a", "--"]).arg(self.data()).arg(copy.data());
        assert!(cp.status().expect("cp runs").success(), "cp failed");
        copy
    }

    fn bare(place: &Path) -> Self {
        static COUNT: AtomicU16 = AtomicU16::new(0);
        let number = COUNT.fetch_add(1, Ordering::SeqCst);
        let home = place.join(format!("windlass-faults-{}-{number}", std::process::id()));
        fs::create_dir(&home).expect("a directory");
        if let Some((uid, gid)) = other_user() {
            chown(&home, Some(uid), Some(gid)).expect("root may");
        }
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "sh"]).arg(&home).stdin(Stdio::piped());
        let keeper = keeper.spawn().expect("a shell");
        let port = free_port(number);
        Self { home, port, settings: Vec::new(), postmaster: None, keeper }
    }

    /// With this setting from the next start on.
    pub(crate) fn set(&mut self, setting: impl Into<String>) {
        self.settings.push(setting.into());
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    /// Host and port, as a URL has them.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://{USER}@{}/postgres", self.address())
    }

    /// A connection past the engine.
    pub(crate) async fn client(&self) -> Client {
        self.try_client().await.expect("connects")
    }

    async fn try_client(&self) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// Starts it and waits until it answers.
    pub(crate) async fn start(&mut self) {
        self.launch();
        until("the server answers", async || self.try_client().await.is_ok()).await;
    }

    /// Starts it and waits for nothing.
    pub(crate) fn launch(&mut self) {
        assert!(self.postmaster.is_none(), "it runs");
        let log = fs::File::options().create(true).append(true).open(self.home.join("log"));
        let log = log.expect("a log");
        let mut postgres = program("postgres");
        postgres.arg("-D").arg(self.data()).args(["-p", &self.port.to_string(), "-k"]);
        postgres.arg(&self.home).current_dir(&self.home).stdin(Stdio::null());
        for setting in SETTINGS.into_iter().chain(self.settings.iter().map(String::as_str)) {
            postgres.args(["-c", setting]);
        }
        postgres.stdout(log.try_clone().expect("a handle")).stderr(log);
        self.postmaster = Some(postgres.spawn().expect("postgres starts"));
    }

    /// Starts it again if it went down by itself, and waits until it answers.
    pub(crate) async fn revive(&mut self) {
        let looks = async || self.try_client().await.is_ok();
        if tokio::time::timeout(REVIVAL, until("it is up", looks)).await.is_err() {
            self.kill();
            self.start().await;
        }
    }

    /// SIGKILL of all of its processes at once.
    pub(crate) fn kill(&mut self) {
        let Some(mut postmaster) = self.postmaster.take() else { return };
        let pid = postmaster.id();
        // Stopped, it has no more children.
        signal(pid, Signal::STOP);
        let children = children(pid);
        signal(pid, Signal::KILL);
        children.iter().for_each(|child| signal(*child, Signal::KILL));
        postmaster.wait().expect("it was ours");
        // Their files and memory are free when they are gone.
        while children.iter().any(|child| is_alive(*child)) {
            std::thread::yield_now();
        }
    }

    /// Asks it to stop, and waits until it has: `INT` ends its sessions, `QUIT` does not even do that in
    /// good order.
    pub(crate) fn stop(&mut self, how: Signal) {
        let Some(mut postmaster) = self.postmaster.take() else { return };
        signal(postmaster.id(), how);
        postmaster.wait().expect("it was ours");
    }

    /// Writes into a file of its directory, behind what is there.
    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.data().join(file);
        let mut open = fs::File::options();
        let mut file = open.create(true).append(true).open(&path).expect("a file");
        file.write_all(text.as_bytes()).expect("it is written");
        if let Some((uid, gid)) = other_user() {
            chown(&path, Some(uid), Some(gid)).expect("root may");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.home.join("log")).unwrap_or_default();
            let from = log.len().saturating_sub(4_000);
            println!("the server on port {} said:\n{}", self.port, log.get(from..).unwrap_or(&log));
        }
        self.kill();
        let _ = fs::remove_dir_all(&self.home);
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// One of the server's programs, as a user it accepts.
fn program(name: &str) -> Command {
    let mut command = Command::new(programs().join(name));
    if let Some((uid, gid)) = other_user() {
        command.uid(uid).gid(gid);
    }
    command.current_dir("/");
    command
}

fn programs() -> PathBuf {
    if let Some(reported) = std::env::var_os(PROGRAMS) {
        return reported.into();
    }
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let numbered = versions.filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((version, entry.path().join("bin")))
    });
    let newest = numbered.filter(|(_, programs)| programs.join("initdb").exists()).max();
    let (_, programs) = newest.unwrap_or_else(|| {
        panic!("no PostgreSQL in {DEBIAN}: run `cargo xtask test`, or set {PROGRAMS} to its bin")
    });
    programs
}

/// The user and group to run as, for those who are root.
fn other_user() -> Option<(u32, u32)> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    let number = |flag: &str| {
        let output = Command::new("id").args([flag, USER]).output().expect("id runs");
        let text = String::from_utf8(output.stdout).expect("is text");
        text.trim().parse().unwrap_or_else(|_| panic!("there is no user {USER} to run it as"))
    };
    is_root.then(|| (number("-u"), number("-g")))
}

/// A port that no client is given for its own end while the server is away: below those that systems
/// hand out; and, most likely, that no other test chose a moment ago.
fn free_port(number: u16) -> u16 {
    let own = u16::try_from(std::process::id() % 850).expect("is small");
    let first = 25_000 + own * 8 + number;
    (first..32_700).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a port")
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process");
    // One that is gone already needs none.
    let _ = kill_process(pid, signal);
}

/// The fields of `/proc/PID/stat` after the name: state, parent and more.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| stat[0] != "Z")
}

fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| stat(*pid).is_some_and(|stat| stat[1] == parent.to_string())).collect()
}
