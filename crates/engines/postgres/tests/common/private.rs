//! A PostgreSQL of a test's own, for what the shared one cannot be: in a temporary directory, on loopback,
//! gone when the test is, however that ends.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Names the directory of the programs.
const PROGRAMS: &str = "WINDLASS_TEST_POSTGRES_PROGRAMS";
/// Where Debian puts the programs of each version.
const DEBIAN: &str = "/usr/lib/postgresql";
/// PostgreSQL refuses to run as root; Debian's package brings this user.
const USER: &str = "postgres";
/// Runs the server until its input closes, which it does however we end; then stops it.
const KEEPER: &str = r#"
data=$1; shift
"$@" &
cat > /dev/null
kill -QUIT "$(head -n 1 "$data/postmaster.pid")"
wait $!
"#;
/// How often, and how long each time, a server is given to answer for the first time.
const LOOKS: u32 = 300;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A server that is started when its files are in place.
pub(crate) struct PrivateServer {
    home: TempDir,
    programs: PathBuf,
    pub(crate) port: u16,
    keeper: Option<Child>,
}

impl PrivateServer {
    /// An empty cluster.
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|free| free.local_addr());
        let port = port.expect("a free port").port();
        let server = Self { home, programs: programs(), port, keeper: None };
        give_away(server.home.path());
        let mut initdb = server.program("initdb");
        initdb.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8"]);
        initdb.args(["--username", USER, "--pgdata"]).arg(server.path("data"));
        let made = initdb.output().expect("initdb runs");
        assert!(made.status.success(), "{made:?}");
        server
    }

    /// A file beside or in the cluster.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Writes a file that only the server may read.
    pub(crate) fn write(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.path(name);
        fs::write(&path, text).expect("writes");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("makes it private");
        give_away(&path);
    }

    /// Starts it with these settings, and waits until it answers.
    pub(crate) fn start(&mut self, settings: &[String]) {
        let mut server = self.program("postgres");
        server.arg("-D").arg(self.path("data")).args(["-p", &self.port.to_string(), "-k", ""]);
        let usual = ["listen_addresses=127.0.0.1".to_owned(), "fsync=off".to_owned()];
        for setting in usual.iter().chain(settings) {
            server.args(["-c", setting]);
        }
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "sh"]).arg(self.path("data"));
        keeper.arg(server.get_program()).args(server.get_args()).current_dir(self.home.path());
        let log = fs::File::create(self.path("log")).expect("a log");
        keeper.stdin(Stdio::piped()).stdout(log.try_clone().expect("a log")).stderr(log);
        self.keeper = Some(keeper.spawn().expect("a shell"));
        for _ in 0..LOOKS {
            let mut ready = self.program("pg_isready");
            ready.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
            if ready.status().expect("pg_isready runs").success() {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        panic!("the server does not answer on port {}; it said:\n{log}", self.port);
    }

    /// One of the server's programs, as a user it accepts.
    fn program(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        let mut command = match is_root() {
            true => Command::new("runuser"),
            false => Command::new(&program),
        };
        if is_root() {
            command.args(["-u", USER, "--"]).arg(program);
        }
        command.current_dir(self.home.path());
        command
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            // The end of its input is its sign.
            drop(keeper.stdin.take());
            let _ = keeper.wait();
            assert!(TcpStream::connect(("127.0.0.1", self.port)).is_err(), "it still listens");
        }
    }
}

/// Makes a file the server's.
fn give_away(path: &Path) {
    if is_root() {
        let given = Command::new("chown").arg(USER).arg(path).status();
        assert!(given.expect("chown runs").success());
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id runs");
    id.stdout.starts_with(b"0\n")
}

/// Where the server's programs are: where the variable says, or the newest version there is.
pub(crate) fn programs() -> PathBuf {
    if let Some(named) = std::env::var_os(PROGRAMS) {
        return named.into();
    }
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let version = |name: &std::ffi::OsStr| name.to_str().and_then(|name| name.parse::<u32>().ok());
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((version(&entry.file_name())?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    let debian = versions.into_iter().rev().map(|(_, programs)| programs);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = debian.chain(std::env::split_paths(&path).collect::<Vec<_>>());
    let found = places.find(|it| it.join("initdb").exists() && it.join("postgres").exists());
    found
        .expect("this test starts a server of its own: install PostgreSQL's, or put it on the PATH")
}
