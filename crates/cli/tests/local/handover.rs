//! Commands follow a lock file to the server that holds it, with their key: only to one of the same user, on
//! this machine.

use std::fs::{File, Permissions};
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A user that owns nothing here.
const OTHER_UID: u32 = 65_534;

/// A listener to which an attacker tries to redirect commands.
struct Trap {
    port: u16,
    visits: Arc<AtomicUsize>,
}

impl Trap {
    fn set() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let visits = Arc::new(AtomicUsize::new(0));
        let seen = visits.clone();
        // Closes each connection at once.
        std::thread::spawn(move || {
            listener.incoming().for_each(|_| {
                seen.fetch_add(1, Ordering::SeqCst);
            });
        });
        Self { port, visits }
    }

    fn visits(&self) -> usize {
        self.visits.load(Ordering::SeqCst)
    }
}

/// A lock file that names `address`, held by this process.
fn held(dir: &Path, address: &str, mode: u32) -> (PathBuf, File) {
    let path = dir.join("windlass.lock");
    let mut file = File::create(&path).unwrap();
    file.lock().unwrap();
    writeln!(file, r#"{{"pid":{},"address":"{address}"}}"#, std::process::id()).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    (path, file)
}

fn list(dir: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["jobs", "list", "--store", &format!("file:{}", dir.display())]);
    command.env("WINDLASS_KEY", format!("wl_{}", "k".repeat(43))).output().unwrap()
}

/// The command goes nowhere, and says which file, what is wrong with it, and the way out.
fn assert_refused(dir: &Path, trap: &Trap, parts: &[&str]) {
    let refused = list(dir);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{said}");
    assert_eq!(trap.visits(), 0, "the key was sent to another user's server: {said}");
    let path = dir.join("windlass.lock").display().to_string();
    for part in parts.iter().chain(&[&*path, "--store http://"]) {
        assert!(said.contains(part), "{part:?} in {said:?}");
    }
}

#[test]
fn a_lock_file_of_this_user_with_an_address_of_this_machine_is_followed() {
    let (dir, trap) = (tempfile::tempdir().unwrap(), Trap::set());
    let _held = held(dir.path(), &format!("http://127.0.0.1:{}", trap.port), 0o600);
    list(dir.path());
    assert_ne!(trap.visits(), 0);
}

#[test]
fn an_address_that_is_not_a_loopback_one_is_not_followed() {
    let (dir, trap) = (tempfile::tempdir().unwrap(), Trap::set());
    // Leads to this machine all the same, so that a visit would be seen.
    let address = format!("http://0.0.0.0:{}", trap.port);
    let _held = held(dir.path(), &address, 0o600);
    assert_refused(dir.path(), &trap, &[&address, "127.0.0.1"]);
}

#[test]
fn a_lock_that_another_user_could_hold_is_not_followed() {
    let (dir, trap) = (tempfile::tempdir().unwrap(), Trap::set());
    let _held = held(dir.path(), &format!("http://127.0.0.1:{}", trap.port), 0o644);
    assert_refused(dir.path(), &trap, &["0644", "chmod 600"]);
}

#[test]
fn a_lock_file_of_another_user_is_not_followed() {
    let (dir, trap) = (tempfile::tempdir().unwrap(), Trap::set());
    let (path, _held) = held(dir.path(), &format!("http://127.0.0.1:{}", trap.port), 0o600);
    if let Err(error) = std::os::unix::fs::chown(&path, Some(OTHER_UID), Some(OTHER_UID)) {
        println!("not checked: only root can make a file of another user: {error}");
        return;
    }
    assert_refused(dir.path(), &trap, &["uid 65534", "uid 0"]);
}
