//! A pgbouncer in transaction mode in front of a server, for as long as it is held.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// Where Debian puts it.
const PROGRAM: &str = "/usr/sbin/pgbouncer";
/// It refuses to run as root.
const USER: &str = "postgres";
/// Servers it lends: fewer than there are clients, so that each is lent to all of them.
const SERVERS: u32 = 3;
/// How often, and how long each time, it is given to answer.
const LOOKS: u32 = 1_000;
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Runs it until the input closes, which it does however the test ends.
const KEEPER: &str = r#"home=$1; shift; "$@" & cat > /dev/null; kill -KILL $!; rm -rf "$home""#;

/// A running pgbouncer.
pub(crate) struct Bouncer {
    home: PathBuf,
    port: u16,
    database: String,
    keeper: Child,
}

impl Bouncer {
    /// In front of the server at this URL. `settings` are lines of its configuration.
    pub(crate) fn before(url: &str, settings: &str) -> Self {
        static COUNT: AtomicU16 = AtomicU16::new(0);
        let number = COUNT.fetch_add(1, Ordering::SeqCst);
        let name = format!("windlass-bouncer-{}-{number}", std::process::id());
        let home = std::env::temp_dir().join(name);
        std::fs::create_dir(&home).expect("a directory");
        let server: Config = url.parse().expect("a URL");
        let [Host::Tcp(host)] = server.get_hosts() else { panic!("one host, by TCP") };
        let port = free_port(number);
        let to = format!("host={host} port={} user={}", server.get_ports()[0], user(&server));
        let password = server.get_password().map(String::from_utf8_lossy);
        let password = password.map(|it| format!(" password={it}")).unwrap_or_default();
        let config = format!(
            "[databases]\n* = {to}{password}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
             default_pool_size = {SERVERS}\nmax_client_conn = 500\nserver_login_retry = 0.05\n{settings}\n"
        );
        std::fs::write(home.join("config"), config).expect("its configuration");
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "sh"]).arg(&home);
        if std::process::Command::new("id").arg("-u").output().is_ok_and(|it| it.stdout == b"0\n") {
            keeper.args(["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"]);
        }
        keeper.args([PROGRAM, "-q"]).arg(home.join("config")).stdin(Stdio::piped());
        let log = std::fs::File::create(home.join("log")).expect("a log");
        keeper.stdout(log.try_clone().expect("a handle")).stderr(log);
        let keeper = keeper.spawn().expect("a shell");
        let database = server.get_dbname().unwrap_or("postgres").to_owned();
        let bouncer = Self { home, port, database, keeper };
        bouncer.wait_until_it_answers();
        bouncer
    }

    fn wait_until_it_answers(&self) {
        for _ in 0..LOOKS {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let log = std::fs::read_to_string(self.home.join("log")).unwrap_or_default();
        panic!("pgbouncer (Debian: pgbouncer) does not answer; it said:\n{log}");
    }

    /// Where the same database is found through it.
    pub(crate) fn url(&self) -> String {
        format!("postgres://user@127.0.0.1:{}/{}", self.port, self.database)
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

fn user(server: &Config) -> &str {
    server.get_user().unwrap_or(USER)
}

/// A port that most likely no other test chose a moment ago.
fn free_port(number: u16) -> u16 {
    let own = u16::try_from(std::process::id() % 3_000).expect("is small");
    let first = 10_000 + own * 4 + number;
    (first..24_900).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a port")
}
