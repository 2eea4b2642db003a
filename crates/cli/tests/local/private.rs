//! Only its owner may read a store.

use crate::serving::Serving;
use crate::{ask, windlass};
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn allow(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn modes(dir: &Path) -> BTreeMap<String, u32> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let named =
        |entry: std::fs::DirEntry| (entry.file_name().into_string().unwrap(), mode(&entry.path()));
    entries.map(named).collect()
}

/// A server of the store in `dir`, started under this umask.
fn serve_under(umask: &str, dir: &Path) -> Serving {
    let script = format!("umask {umask} && exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_windlass")]);
    let store = format!("file:{}", dir.display());
    Serving::by(command.args(["serve", "--listen", "127.0.0.1:0", "--store", &store]))
}

#[test]
fn a_store_is_open_to_its_owner_alone_whatever_the_umask() {
    let home = tempfile::tempdir().unwrap();
    for umask in ["000", "022", "277"] {
        let dir = home.path().join(umask);
        let server = serve_under(umask, &dir);
        assert_eq!(ask(&server, "POST", "/v1/jobs", r#"{"kind":"k"}"#).0, 201);
        assert_eq!(mode(&dir), 0o700, "umask {umask}");
        let found = modes(&dir);
        for name in ["windlass.db", "windlass.db-wal", "windlass.db-shm", "windlass.lock"] {
            assert!(found.contains_key(name), "{name} in {found:?}");
        }
        assert!(found.values().all(|mode| *mode == 0o600), "umask {umask}: {found:?}");
        server.terminate();
    }
}

#[test]
fn a_store_that_others_can_read_is_warned_about_with_the_command_that_closes_it() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("it's here");
    assert!(windlass(&dir, &["enqueue", "k"]).status.success());
    let clean = String::from_utf8(windlass(&dir, &["check"]).stdout).unwrap();
    assert!(!clean.contains("chmod"), "{clean}");
    allow(&dir, 0o755);
    allow(&dir.join("windlass.db"), 0o644);

    let checked = windlass(&dir, &["check"]);
    let said = String::from_utf8(checked.stdout).unwrap();
    assert!(checked.status.success() && said.contains("windlass.db (mode 0644)"), "{said}");
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut serve = crate::serving::serve(&dir, "127.0.0.1:0");
    Serving::by(serve.stderr(Stdio::from(log.reopen().unwrap()))).terminate();
    let mut logged = String::new();
    log.reopen().unwrap().read_to_string(&mut logged).unwrap();
    assert!(logged.contains("WARN") && logged.contains("(mode 0755)"), "{logged}");

    // The command works as it is shown.
    let command = said.split('`').nth(1).unwrap();
    assert!(Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
    assert_eq!((mode(&dir), mode(&dir.join("windlass.db"))), (0o700, 0o600));
    let clean = String::from_utf8(windlass(&dir, &["check", "--json"]).stdout).unwrap();
    assert!(clean.contains(r#""warnings":[]"#), "{clean}");
}
