//! The files that tidy checks: those that git tracks or would track, without ignored ones.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process;

/// A text file, with its path relative to the repository root.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// Lines with their numbers, counted from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    pub(crate) fn has_extension(&self, extensions: &[&str]) -> bool {
        let extension = Path::new(&self.path).extension().and_then(|it| it.to_str());
        extension.is_some_and(|it| extensions.contains(&it))
    }
}

/// The repository as git sees it.
#[derive(Default)]
pub(crate) struct Tree {
    files: Vec<File>,
    /// Paths of all files, including binary ones, so that links to images resolve.
    paths: BTreeSet<String>,
}

impl Tree {
    pub(crate) fn of_repository(root: &Path) -> Result<Self> {
        let mut git = Command::new("git");
        git.current_dir(root).args(["ls-files", "-z", "--cached", "--others"]);
        let listed = process::capture(git.arg("--exclude-standard"))
            .context("tidy needs git to list the files; run it in a git checkout")?;
        let mut tree = Self::default();
        for path in listed.split_terminator('\0') {
            // A missing file was deleted without a commit; a directory is a nested repository.
            let Ok(bytes) = fs::read(root.join(path)) else {
                continue;
            };
            tree.paths.insert(path.to_owned());
            if let Ok(text) = String::from_utf8(bytes) {
                tree.files.push(File { path: path.to_owned(), text });
            }
        }
        Ok(tree)
    }

    /// A tree in memory, for tests.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.paths.insert((*path).to_owned());
            tree.files.push(File { path: (*path).to_owned(), text: (*text).to_owned() });
        }
        tree
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    pub(crate) fn with_extension<'a>(
        &'a self,
        extensions: &'a [&str],
    ) -> impl Iterator<Item = &'a File> {
        self.files().filter(move |file| file.has_extension(extensions))
    }

    pub(crate) fn text_of(&self, path: &str) -> Option<&str> {
        self.files().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    /// Whether this is a file of the repository, or a directory that contains one.
    pub(crate) fn holds(&self, path: &str) -> bool {
        let directory = format!("{path}/");
        path.is_empty()
            || self.paths.contains(path)
            || self.paths.iter().any(|known| known.starts_with(&directory))
    }
}
