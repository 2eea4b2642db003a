//! A directory that this user may not write: the error names it and the remedy.

use crate::child::{Role, Running, command, say};
use crate::support::{open as open_engine, still};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;

/// Uid of the user `nobody`, which owns no files here.
const UNPRIVILEGED_UID: u32 = 65_534;

/// First message of the child.
pub(crate) const OPENING: &str = "opening";

/// The child: opens `dir` and reports the result.
pub(crate) fn open(dir: &Path) {
    say(OPENING);
    match open_engine(dir, still()) {
        Ok(_) => say("opened"),
        Err(error) => say(&format!("{} {error}", error.code())),
    }
}

/// Opens `dir` as an unprivileged user and returns the reported result. `None`, with the reason printed, if no
/// process of that user can be started.
fn as_other_user(home: &Path, dir: &Path) -> Option<String> {
    // The directory of this binary may be inaccessible to other users, so they run a copy.
    let binary = home.join("faults");
    let this = std::env::current_exe().expect("this binary");
    if !binary.exists() {
        std::fs::hard_link(&this, &binary)
            .or_else(|_| std::fs::copy(&this, &binary).map(|_| ()))
            .expect("a copy of this binary");
    }
    let mut command = command(&binary, &Role::Open { dir: dir.to_owned() });
    // The working directory may be inaccessible as well.
    command.uid(UNPRIVILEGED_UID).gid(UNPRIVILEGED_UID).current_dir("/");
    match Running::of(command) {
        Ok(mut child) => {
            assert_eq!(child.hear().as_deref(), Some(OPENING));
            Some(child.hear().expect("the child says what came of it"))
        }
        Err(error) => {
            println!("skipped: no process of user {UNPRIVILEGED_UID} can be started: {error}");
            None
        }
    }
}

/// A directory that all users may read, but only its owner may write.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a directory");
    allow(home.path(), 0o755);
    home
}

fn allow(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("other permissions");
}

fn assert_refused(reported: &str, dir: &Path) {
    assert!(reported.starts_with("unavailable "), "{reported}");
    assert!(reported.contains(&*dir.to_string_lossy()), "{reported}");
    assert!(
        reported.contains("Permission denied") && reported.contains("right to write"),
        "{reported}"
    );
}

#[test]
fn a_directory_that_may_not_be_written_is_named() {
    let home = home();
    let dir = home.path().join("empty");
    std::fs::create_dir(&dir).unwrap();
    let Some(reported) = as_other_user(home.path(), &dir) else { return };
    assert_refused(&reported, &dir);
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn a_directory_that_may_not_be_made_is_named() {
    let home = home();
    let dir = home.path().join("a/b");
    let Some(reported) = as_other_user(home.path(), &dir) else { return };
    assert_refused(&reported, &dir);
}

#[test]
fn a_store_that_may_only_be_read_is_named_and_left_as_it_is() {
    let home = home();
    let dir = home.path().join("store");
    drop(open_engine(&dir, still()).unwrap());
    allow(&dir, 0o755);
    let Some(reported) = as_other_user(home.path(), &dir) else { return };
    assert_refused(&reported, &dir);
    // Write access to the lock file alone is not enough.
    allow(&dir.join("windlass.lock"), 0o666);
    let reported = as_other_user(home.path(), &dir).unwrap();
    assert!(
        reported.contains(&*dir.to_string_lossy()) && !reported.contains("opened"),
        "{reported}"
    );
    open_engine(&dir, still()).unwrap();
}
