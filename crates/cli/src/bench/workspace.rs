//! The working directory of a benchmark: a new one on the disk of the engine, removed afterwards.

use crate::connect::Url;
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The parent of the runs' directories. Removed with its content when dropped.
pub(super) struct Workspace {
    /// `None` for engines that write nothing. Declared before `parent`, to be removed before it.
    directory: Option<TempDir>,
    /// The directories of the user's path that had to be created, outermost first.
    made: Vec<PathBuf>,
}

impl Workspace {
    /// Creates the workspace for the engine at `url`. A missing directory is created, and removed afterwards.
    pub(super) fn create(url: &Url) -> Result<Self> {
        let Url::File(parent) = url else { return Ok(Self { directory: None, made: Vec::new() }) };
        let missing =
            parent.ancestors().take_while(|it| !it.as_os_str().is_empty() && !it.exists());
        let mut made: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        made.reverse();
        let directory = std::fs::create_dir_all(parent)
            .and_then(|()| tempfile::Builder::new().prefix("windlass-bench-").tempdir_in(parent))
            .with_context(|| {
                format!("cannot make a directory in {}; use a writable one", parent.display())
            })?;
        Ok(Self { directory: Some(directory), made })
    }

    /// Creates a directory for one run.
    pub(super) fn directory(&self) -> Result<Option<TempDir>> {
        let Some(directory) = &self.directory else { return Ok(None) };
        let fresh =
            TempDir::new_in(directory.path()).context("cannot make a directory for a run")?;
        Ok(Some(fresh))
    }

    /// Removes a run's directory and waits until the disk is idle, so that the next run is not affected.
    pub(super) fn clear(&self, directory: TempDir) -> Result<()> {
        let path = directory.path().to_owned();
        directory.close().with_context(|| format!("cannot remove {}", path.display()))?;
        if let Some(directory) = &self.directory {
            sync(directory.path())?;
        }
        Ok(())
    }

    /// Removes the workspace; returns an error if that fails.
    pub(super) fn remove(mut self) -> Result<()> {
        let Some(directory) = self.directory.take() else { return Ok(()) };
        let path = directory.path().to_owned();
        directory.close().with_context(|| format!("cannot remove {}", path.display()))
    }
}

/// Waits until the file system of `directory` is written to the disk.
#[cfg(target_os = "linux")]
fn sync(directory: &std::path::Path) -> Result<()> {
    Ok(rustix::fs::syncfs(std::fs::File::open(directory)?)?)
}

/// Writes all file systems to the disk: this system cannot select one.
#[cfg(not(target_os = "linux"))]
fn sync(_: &std::path::Path) -> Result<()> {
    rustix::fs::sync();
    Ok(())
}

impl Drop for Workspace {
    fn drop(&mut self) {
        drop(self.directory.take());
        for path in self.made.iter().rev() {
            // Removed only if empty: another process may have put files there meanwhile.
            let _ = std::fs::remove_dir(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_removes_its_files_and_keeps_existing_ones() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("precious"), "data").unwrap();
        let url = Url::File(home.path().to_owned());
        let workspace = Workspace::create(&url).unwrap();
        let run = workspace.directory().unwrap().unwrap();
        assert!(run.path().starts_with(home.path()));
        std::fs::write(run.path().join("jobs"), "many").unwrap();
        workspace.clear(run).unwrap();
        workspace.remove().unwrap();
        let left: Vec<_> = std::fs::read_dir(home.path()).unwrap().collect();
        assert_eq!(left.len(), 1);
        assert_eq!(std::fs::read(home.path().join("precious")).unwrap(), b"data");
    }

    #[test]
    fn directories_made_on_the_way_are_removed_too() {
        let home = tempfile::tempdir().unwrap();
        let workspace = Workspace::create(&Url::File(home.path().join("a/b"))).unwrap();
        assert!(home.path().join("a/b").is_dir());
        drop(workspace);
        assert!(home.path().is_dir() && !home.path().join("a").exists());
    }

    #[test]
    fn memory_needs_no_directory() {
        assert!(Workspace::create(&Url::Memory).unwrap().directory().unwrap().is_none());
    }
}
