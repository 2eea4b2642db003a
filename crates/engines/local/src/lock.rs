//! Exclusive ownership of a directory, and the identity of its owner. Independent of the directory's contents.
//!
//! The lock is one of the operating system (`flock` or its equivalent). It is released when its process dies, so a
//! stale lock cannot exist and no pid needs to be checked for liveness. The lock file is never removed; its content
//! gives other processes the pid and address of the owner.
//!
//! If the lock file is removed by hand, a new one would be unlocked; so the owner also locks the directory itself.
//! The database file cannot serve as the second lock: on BSD and NFS, `flock` and SQLite's `fcntl` locks on one file
//! exclude each other. Besides, closing any handle of that file releases SQLite's locks.

use crate::private;
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use windlass_core::{Error, Result};

/// Name of the lock file in the directory.
pub(crate) const FILE_NAME: &str = "windlass.lock";
/// Maximum number of attempts to take a lock. Another process that queries the owner holds the lock for an instant,
/// and a new owner needs an instant to write its pid.
const TRIES_MAX: u32 = 10;
/// Pause between two attempts.
const TRY_PAUSE: Duration = Duration::from_millis(10);
/// Bytes that are read from the lock file. Longer contents are not ours.
const CONTENT_BYTES_MAX: u64 = 4 * 1024;

/// The process that owns a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    /// Address at which the owner serves the store, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// Returns the process that owns `dir`; `None` if the directory has no owner or does not exist.
///
/// The owner may end right after this call, so a connection to its address may fail.
pub fn owner(dir: &Path) -> Result<Option<Owner>> {
    let failed = |error: &io::Error| unavailable(dir, "its lock file cannot be read", error);
    let mut file = match File::open(dir.join(FILE_NAME)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&error)),
    };
    for _ in 0..TRIES_MAX {
        // A shared lock fails only while the directory has an owner, and does not block other queries for the
        // owner.
        match file.try_lock_shared() {
            Ok(()) => return file.unlock().map(|()| None).map_err(|error| failed(&error)),
            Err(TryLockError::Error(error)) => return Err(failed(&error)),
            Err(TryLockError::WouldBlock) => {}
        }
        if let Some(owner) = read(&mut file).map_err(|error| failed(&error))? {
            return Ok(Some(owner));
        }
        std::thread::sleep(TRY_PAUSE);
    }
    Err(nameless(dir))
}

/// Ownership of a directory, released on drop or when the process dies.
#[derive(Debug)]
pub(crate) struct DirLock {
    file: File,
    /// The directory, locked as well; `None` where directories cannot be opened or locked.
    dir: Option<File>,
}

impl DirLock {
    /// Creates `dir` if it does not exist, and takes ownership.
    pub(crate) fn acquire(dir: &Path) -> Result<Self> {
        create(dir).map_err(|error| unavailable(dir, "it cannot be created", &error))?;
        let file = private::open_file(&dir.join(FILE_NAME));
        let file = file.map_err(|error| unavailable(dir, "it cannot be written", &error))?;
        Self::lock(dir, file)
    }

    /// Writes the pid of this process and its address into the lock file, for other processes.
    pub(crate) fn announce(&mut self, dir: &Path, address: Option<&str>) -> Result<()> {
        let owner = Owner { pid: std::process::id(), address: address.map(str::to_owned) };
        let written = self.write(&owner);
        written.map_err(|error| unavailable(dir, "its lock file cannot be written", &error))
    }

    fn lock(dir: &Path, mut file: File) -> Result<Self> {
        let failed = |error: &io::Error| unavailable(dir, "it cannot be locked", error);
        if !try_lock(&file).map_err(|error| failed(&error))? {
            let named = read(&mut file).map_err(|error| failed(&error))?;
            let Owner { pid, address } = named.ok_or_else(|| nameless(dir))?;
            return Err(Error::InUse { store: shown(dir), pid, address });
        }
        private::close_to_others(&file);
        let held = open_dir(dir).map_err(|error| failed(&error))?;
        match held.as_ref().map_or(Ok(true), try_lock) {
            Ok(true) => Ok(Self { file, dir: held }),
            Ok(false) => Err(replaced(dir)),
            // Network file systems may not support locks on directories; the lock file is sufficient there.
            Err(_) => Ok(Self { file, dir: None }),
        }
    }

    fn write(&mut self, owner: &Owner) -> io::Result<()> {
        let mut line = serde_json::to_vec(owner)?;
        line.push(b'\n');
        self.file.set_len(0)?;
        self.file.rewind()?;
        // A single write, so that readers see the complete line or nothing.
        self.file.write_all(&line)?;
        self.file.flush()
    }
}

impl Drop for DirLock {
    fn drop(&mut self) {
        // Errors are ignored: closing the file releases the lock, and a pid without a lock has no meaning. The
        // explicit unlock is needed because a child process between fork and exec still holds the file open, and
        // the lock with it.
        let _ = self.file.set_len(0);
        let _ = self.dir.as_ref().map(File::unlock);
        let _ = self.file.unlock();
    }
}

/// Takes a lock; returns false if another process still holds it after all attempts.
fn try_lock(file: &File) -> io::Result<bool> {
    for _ in 0..TRIES_MAX {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => std::thread::sleep(TRY_PAUSE),
        }
    }
    Ok(false)
}

/// Reads the owner from the lock file; `None` if it contains none, or an incomplete line.
pub(crate) fn read(file: &mut File) -> io::Result<Option<Owner>> {
    file.rewind()?;
    let mut content = Vec::new();
    io::Read::by_ref(file).take(CONTENT_BYTES_MAX).read_to_end(&mut content)?;
    Ok(serde_json::from_slice(&content).ok())
}

/// Creates the directory and its parents, and syncs the parent of each, so that the new directory entries survive
/// power loss: durable files are lost if the entry of their directory is lost.
fn create(dir: &Path) -> io::Result<()> {
    let dir = std::path::absolute(dir)?;
    let missing: Vec<PathBuf> =
        dir.ancestors().take_while(|path| !path.exists()).map(Path::to_owned).collect();
    private::create_dir(&dir)?;
    for parent in missing.iter().filter_map(|path| path.parent()) {
        sync_dir(parent)?;
    }
    Ok(())
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    open_dir(dir)?.map_or(Ok(()), |dir| dir.sync_all())
}

/// Opens a directory as a file, to lock or sync it.
#[cfg(unix)]
fn open_dir(dir: &Path) -> io::Result<Option<File>> {
    File::open(dir).map(Some)
}

/// Other systems cannot open a directory as a file; there the journal of the file system protects its entries.
#[cfg(not(unix))]
fn open_dir(_: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

fn shown(dir: &Path) -> String {
    dir.display().to_string()
}

/// Converts an I/O error on a file of the directory to an error of the store, with a remedy.
#[expect(clippy::wildcard_enum_match_arm, reason = "an enum of another project")]
pub(crate) fn unavailable(dir: &Path, what: &str, error: &io::Error) -> Error {
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        let reason = format!("the disk is full: {what}: {error}; free some space on it");
        return Error::StoreFull { store: shown(dir), reason };
    }
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => "give this user the right to write there",
        io::ErrorKind::ReadOnlyFilesystem => "mount it writable",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => "a file is in the way",
        _ => "see to the cause",
    };
    let reason = format!("{what}: {error}; {hint}, or use another directory");
    Error::Unavailable { store: shown(dir), reason }
}

/// The error if the lock is held but the lock file names no owner.
fn nameless(dir: &Path) -> Error {
    let reason = format!(
        "another process holds {FILE_NAME} and has not written its name into it; try again, or look \
         for it with `lsof`"
    );
    Error::Unavailable { store: shown(dir), reason }
}

/// The error if the directory is locked by a process whose lock file was removed.
fn replaced(dir: &Path) -> Error {
    let reason = format!(
        "another process owns it, although no process holds {FILE_NAME}: the file was removed or replaced while \
         that process ran; find it with `lsof {}` and restart it, or use another directory",
        shown(dir)
    );
    Error::Unavailable { store: shown(dir), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, Command, Stdio};

    /// Environment variable with the directory that the child locks.
    const CHILD_DIR: &str = "WINDLASS_LOCK_TEST_DIR";
    const ADDRESS: &str = "http://127.0.0.1:7780";

    /// Not a test, but the child process: holds the lock until its parent closes stdin.
    #[test]
    fn child() {
        let Ok(dir) = std::env::var(CHILD_DIR) else { return };
        let _lock = own(Path::new(&dir), Some(ADDRESS)).unwrap();
        println!("\nholding");
        let _ = io::stdin().read_line(&mut String::new());
    }

    /// Starts another process that owns `dir`.
    fn holder(dir: &Path) -> Child {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "lock::tests::child", "--nocapture"])
            .env(CHILD_DIR, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let holding = stdout.by_ref().lines().any(|line| line.unwrap() == "holding");
        assert!(holding, "the child could not take it");
        // The child prints more when it ends, so its stdout must stay open.
        child.stdout = Some(stdout.into_inner());
        child
    }

    /// Takes ownership of `dir` and announces it.
    fn own(dir: &Path, address: Option<&str>) -> Result<DirLock> {
        let mut lock = DirLock::acquire(dir)?;
        lock.announce(dir, address)?;
        Ok(lock)
    }

    fn free() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_directory_has_one_owner_even_within_a_process() {
        let dir = free();
        assert_eq!(owner(dir.path()).unwrap(), None);
        let lock = own(dir.path(), None).unwrap();
        let pid = std::process::id();
        assert_eq!(owner(dir.path()).unwrap(), Some(Owner { pid, address: None }));
        let store = dir.path().display().to_string();
        let error = own(dir.path(), None).unwrap_err();
        assert_eq!(error, Error::InUse { store, pid, address: None });
        drop(lock);
        assert_eq!(owner(dir.path()).unwrap(), None);
        assert_eq!(std::fs::read(dir.path().join(FILE_NAME)).unwrap(), b"");
        own(dir.path(), None).unwrap();
    }

    #[test]
    fn another_process_is_named_with_its_address_and_its_lock_dies_with_it() {
        let dir = free();
        let mut child = holder(dir.path());
        let there = Owner { pid: child.id(), address: Some(ADDRESS.into()) };
        assert_eq!(owner(dir.path()).unwrap(), Some(there.clone()));
        let error = own(dir.path(), None).unwrap_err();
        let text = error.to_string();
        let dir_text = dir.path().display().to_string();
        for part in [&*dir_text, &*child.id().to_string(), ADDRESS] {
            assert!(text.contains(part), "{part:?} in {text:?}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // The pid of the dead process is still in the file, but has no meaning.
        assert!(!std::fs::read(dir.path().join(FILE_NAME)).unwrap().is_empty());
        assert_eq!(owner(dir.path()).unwrap(), None);
        let _lock = own(dir.path(), None).unwrap();
        let pid = std::process::id();
        assert_eq!(owner(dir.path()).unwrap(), Some(Owner { pid, address: None }));
    }

    #[test]
    fn a_process_that_ends_without_an_error_leaves_no_name() {
        let dir = free();
        let mut child = holder(dir.path());
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        assert_eq!(std::fs::read(dir.path().join(FILE_NAME)).unwrap(), b"");
        own(dir.path(), None).unwrap();
    }

    #[test]
    fn reading_the_owner_does_not_block_a_new_owner() {
        let dir = free();
        // The pid of a dead process, so that a query finds an owner in the file.
        std::fs::write(dir.path().join(FILE_NAME), "{\"pid\":1}\n").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    owner(dir.path()).unwrap();
                }
            });
            for _ in 0..20 {
                own(dir.path(), None).unwrap();
            }
        });
    }

    #[test]
    fn one_of_many_concurrent_processes_gets_the_lock() {
        let dir = free();
        let nested = dir.path().join("a/b/c");
        let locks: Vec<Result<DirLock>> = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..8).map(|_| scope.spawn(|| own(&nested, None))).collect();
            tries.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(locks.iter().filter(|lock| lock.is_ok()).count(), 1);
        let refused = |lock: &&Result<DirLock>| matches!(lock, Err(Error::InUse { .. }));
        assert_eq!(locks.iter().filter(refused).count(), 7);
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named_with_the_reason_and_the_way_out() {
        let dir = free();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        for path in [file.clone(), file.join("below")] {
            let error = own(&path, None).unwrap_err();
            let Error::Unavailable { store, reason } = &error else { panic!("{error}") };
            assert_eq!(*store, path.display().to_string());
            assert!(reason.contains("a file is in the way"), "{error}");
        }
        assert_eq!(owner(&dir.path().join("nowhere")).unwrap(), None);
    }

    #[test]
    fn a_removed_lock_file_does_not_free_the_directory() {
        let dir = free();
        let mut child = holder(dir.path());
        std::fs::remove_file(dir.path().join(FILE_NAME)).unwrap();
        for _ in 0..2 {
            let error = own(dir.path(), None).unwrap_err();
            let Error::Unavailable { store, reason } = &error else { panic!("{error}") };
            assert_eq!(*store, dir.path().display().to_string());
            assert!(reason.contains(FILE_NAME) && reason.contains("removed"), "{error}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        own(dir.path(), None).unwrap();
    }

    #[test]
    fn an_unreadable_lock_file_does_not_block_a_new_owner() {
        let dir = free();
        std::fs::write(dir.path().join(FILE_NAME), [0xff; 10_000]).unwrap();
        assert_eq!(owner(dir.path()).unwrap(), None);
        let _lock = own(dir.path(), None).unwrap();
        assert_eq!(owner(dir.path()).unwrap().unwrap().pid, std::process::id());
    }
}
