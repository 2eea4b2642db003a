//! A directory written by a newer version is refused with a clear error and left unchanged.

use crate::support::{database, enqueue, get, ids, job, open, runtime, still};
use std::path::Path;
use windlass_core::Error;
use windlass_core::time::Clock as _;

const NEWER: i64 = 999;

fn connect(dir: &Path) -> rusqlite::Connection {
    let path = database(dir).expect("a database");
    rusqlite::Connection::open(path).expect("a connection")
}

fn version(dir: &Path) -> i64 {
    let version = connect(dir).pragma_query_value(None, "user_version", |row| row.get(0));
    version.expect("a version")
}

fn set_version(dir: &Path, version: i64) {
    connect(dir).pragma_update(None, "user_version", version).expect("a new version");
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), still());
    let id = ids(1, clock.now(), 1)[0];
    let engine = open(dir.path(), clock.clone()).unwrap();
    runtime().block_on(enqueue(&engine, job(id))).unwrap();
    drop(engine);
    let ours = version(dir.path());
    assert!(ours >= 1, "the format has a number from the beginning");
    set_version(dir.path(), NEWER);
    let error = open(dir.path(), clock.clone()).unwrap_err();
    let text = error.to_string();
    let dir_text = dir.path().display().to_string();
    for part in [&*dir_text, &*NEWER.to_string(), &*ours.to_string(), "newer"] {
        assert!(text.contains(part), "{part:?} in {text:?}");
    }
    assert!(!matches!(error, Error::InUse { .. }), "{error}");
    assert_eq!(version(dir.path()), NEWER);
    // The directory is unchanged, and has no owner.
    set_version(dir.path(), ours);
    let engine = open(dir.path(), clock).unwrap();
    assert!(runtime().block_on(get(&engine, id)).is_some());
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), still());
    drop(open(dir.path(), clock.clone()).unwrap());
    let path = database(dir.path()).unwrap();
    let letter = "Dear sir or madam,\n".repeat(1_000);
    std::fs::write(&path, &letter).unwrap();
    let error = open(dir.path(), clock).unwrap_err();
    assert!(error.to_string().contains(&*dir.path().to_string_lossy()), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), letter);
}

#[test]
fn a_database_of_another_application_is_refused_and_not_changed() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), still());
    let path = dir.path().join("windlass.db");
    let theirs = rusqlite::Connection::open(&path).unwrap();
    theirs.execute_batch("CREATE TABLE job (note TEXT); INSERT INTO job VALUES ('keep')").unwrap();
    drop(theirs);
    let text = open(dir.path(), clock).unwrap_err().to_string();
    assert!(text.contains("database of another application"), "{text}");
    let theirs = rusqlite::Connection::open(&path).unwrap();
    let tables = theirs.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0));
    assert_eq!(tables, Ok(1_i64));
    assert_eq!(
        theirs.query_row("SELECT note FROM job", [], |row| row.get(0)),
        Ok("keep".to_owned())
    );
}
