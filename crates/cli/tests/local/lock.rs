//! One owner per directory, even if the lock file is removed.

use crate::serving::{Serving, serve};
use crate::{ask, windlass};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::Stdio;

/// The error of a second server; fails the test if it starts to listen.
fn refused(dir: &Path) -> String {
    let mut command = serve(dir, "127.0.0.1:0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
    let listens = lines.any(|line| line.contains("listening on"));
    if listens {
        process.kill().unwrap();
        process.wait().unwrap();
        panic!("a second server owns the store");
    }
    let mut said = String::new();
    process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(!process.wait().unwrap().success(), "{said}");
    said
}

#[test]
fn removing_the_lock_file_lets_no_second_server_in() {
    let dir = tempfile::tempdir().unwrap();
    let first = Serving::start(dir.path());
    assert_eq!(ask(&first, "POST", "/v1/jobs", r#"{"kind":"k"}"#).0, 201);
    let lock = dir.path().join("windlass.lock");
    std::fs::remove_file(&lock).unwrap();
    // The second time there is a lock file again, without an owner.
    for _ in 0..2 {
        let said = refused(dir.path());
        for part in ["windlass.lock", "removed", &dir.path().display().to_string()] {
            assert!(said.contains(part), "{part:?} in {said:?}");
        }
    }
    let listed = windlass(dir.path(), &["jobs", "list"]);
    let said = String::from_utf8_lossy(&listed.stderr);
    assert!(!listed.status.success() && said.contains("windlass.lock"), "{said}");
    // The first one goes on.
    assert_eq!(ask(&first, "POST", "/v1/jobs", r#"{"kind":"k"}"#).0, 201);
    let (status, page) = ask(&first, "GET", "/v1/jobs", "");
    assert_eq!((status, page["jobs"].as_array().unwrap().len()), (200, 2), "{page}");
    first.terminate();
    assert!(windlass(dir.path(), &["check"]).status.success());
}
