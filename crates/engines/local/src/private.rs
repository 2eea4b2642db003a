//! File modes of a store: 0700 for the directory and 0600 for every file in it, regardless of the umask.
//!
//! The files contain payloads, results and keys. In addition, any user who can open the lock file can hold its
//! lock.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Creates `dir` with mode 0700; parents get the default mode. An existing directory keeps its mode.
pub(crate) fn create_dir(dir: &Path) -> io::Result<()> {
    if let Some(parent) = dir.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, DIR_MODE);
    match builder.create(dir) {
        Ok(()) => set_mode(&File::open(dir)?, DIR_MODE),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Creates an empty file with mode 0600; returns `None` if it already exists.
pub(crate) fn create_file(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, FILE_MODE);
    match options.open(path) {
        Ok(file) => set_mode(&file, FILE_MODE).map(|()| Some(file)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a file for reading and writing; creates it with mode 0600 if it does not exist.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    match create_file(path)? {
        Some(file) => Ok(file),
        None => OpenOptions::new().read(true).write(true).open(path),
    }
}

/// Sets the mode of a file to 0600 if it is wider. A file of another user keeps its mode.
pub(crate) fn close_to_others(file: &File) {
    if is_open_to_others(file) {
        // Fails for files of another user. Code that relies on the mode checks it again.
        let _ = set_mode(file, FILE_MODE);
    }
}

const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Permission bits of group and others.
#[cfg(unix)]
const OTHERS: u32 = 0o077;

#[cfg(unix)]
fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    // A restrictive umask may have removed bits of the owner as well.
    file.set_permissions(std::fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn set_mode(_: &File, _: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn is_open_to_others(file: &File) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|it| it.permissions().mode() & OTHERS != 0)
}

#[cfg(not(unix))]
fn is_open_to_others(_: &File) -> bool {
    false
}

/// A warning about files of the store in `dir` that other users can open, with the command that restricts them.
/// `None` if only the owner can open them, and always on systems without Unix file modes.
#[cfg(unix)]
pub fn exposure(dir: &Path) -> Option<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| Some(std::fs::metadata(path).ok()?.permissions().mode() & 0o777);
    let files = std::fs::read_dir(dir).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let ours = files.filter(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("windlass."))
    });
    let mut paths: Vec<_> = ours.collect();
    paths.sort();
    paths.insert(0, dir.to_owned());
    let open = paths.iter().filter_map(|path| mode(path).map(|mode| (path, mode)));
    let open: Vec<String> = open
        .filter(|(_, mode)| mode & OTHERS != 0)
        .map(|(path, mode)| format!("{} (mode {mode:04o})", path.display()))
        .collect();
    if open.is_empty() {
        return None;
    }
    let quoted = quoted(&dir.display().to_string());
    Some(format!(
        "other users can open {}: close the store to them with `chmod {DIR_MODE:o} {quoted} && chmod \
         {FILE_MODE:o} {quoted}/windlass.*`",
        open.join(", ")
    ))
}

/// A warning about files of the store in `dir` that other users can open. Always `None`: this system has no Unix
/// file modes.
#[cfg(not(unix))]
pub fn exposure(_: &Path) -> Option<String> {
    None
}

/// Quotes a path for a shell, if necessary.
#[cfg(unix)]
fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    match path.chars().all(is_plain) {
        true => path.to_owned(),
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}
