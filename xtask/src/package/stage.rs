//! The files of a package, in the directories below `usr` in which systems expect them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process;

/// The completion script of each shell, and where the shell looks for it.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/windlass"),
    ("zsh", "share/zsh/vendor-completions/_windlass"),
    ("fish", "share/fish/vendor_completions.d/windlass.fish"),
];
/// Files of the repository, and where they go.
const FILES: [(&str, &str); 7] = [
    ("README.md", "share/doc/windlass/README.md"),
    ("CHANGELOG.md", "share/doc/windlass/CHANGELOG.md"),
    ("LICENSE-APACHE", "share/doc/windlass/LICENSE-APACHE"),
    ("LICENSE-MIT", "share/doc/windlass/LICENSE-MIT"),
    ("docs/windlass.example.toml", "share/doc/windlass/windlass.example.toml"),
    ("ops/prometheus/alerts.yml", "share/doc/windlass/alerts.yml"),
    ("ops/systemd/windlass.service", "lib/systemd/system/windlass.service"),
];

/// A directory with all files of a package.
pub(super) struct Stage {
    pub(super) root: PathBuf,
    pub(super) version: String,
    /// The platform of the program.
    pub(super) host: String,
}

impl Stage {
    /// Fills a directory below `out` with this program and the files that it prints.
    pub(super) fn fill(out: &Path, program: &Path) -> Result<Self> {
        let root = out.join("stage");
        let printed = process::capture(Command::new(program).arg("--version"))?;
        let version = printed.split_whitespace().nth(1).context("the program has no version")?;
        let stage = Self { root, version: version.to_owned(), host: host()? };
        fs::copy(program, stage.place("bin/windlass")?)?;
        for (shell, path) in COMPLETIONS {
            let script = process::capture(Command::new(program).args(["completions", shell]))?;
            fs::write(stage.place(path)?, script)?;
        }
        let pages = stage.place("share/man/man1")?;
        process::stream(Command::new(program).arg("man").arg(pages))?;
        for (file, path) in FILES {
            fs::copy(process::root()?.join(file), stage.place(path)?)?;
        }
        Ok(stage)
    }

    /// The path of a file, whose directory exists.
    fn place(&self, path: &str) -> Result<PathBuf> {
        let path = self.root.join(path);
        let parent = path.parent().context("it has no directory")?;
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        Ok(path)
    }
}

/// The platform that this machine builds for.
fn host() -> Result<String> {
    let version = process::capture(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not name its host")?.to_owned())
}
