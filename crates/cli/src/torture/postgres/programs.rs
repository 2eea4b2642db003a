//! Finds PostgreSQL's programs and the user to run them as. Starts none of them.

use crate::postgres_places::postgres_places;
use anyhow::{Context as _, Result, bail};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use tokio::process::Command;

/// The user that PostgreSQL's packages create; PostgreSQL refuses to run as root.
const USER: &str = "postgres";

/// The programs of one version, and the user to run them as.
pub(super) struct Programs {
    directory: PathBuf,
    /// User and group, if not those of this process.
    other: Option<(u32, u32)>,
}

impl Programs {
    /// Finds the first directory that contains them.
    pub(super) fn find() -> Result<Self> {
        let has_both =
            |place: &PathBuf| ["initdb", "postgres"].iter().all(|it| place.join(it).exists());
        let Some(directory) = postgres_places().find(has_both) else {
            bail!(
                "no PostgreSQL to start: install it (Debian: postgresql), or put its initdb and postgres on \
                 the PATH"
            );
        };
        Ok(Self { directory, other: other_user()? })
    }

    /// A command for one of them, run as a user that it accepts.
    pub(super) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.directory.join(name));
        if let Some((user, group)) = self.other {
            command.uid(user).gid(group);
        }
        // Not in the current directory, which their user may not be allowed to read.
        command.current_dir("/");
        command
    }

    /// Changes the owner of a file or directory to their user.
    pub(super) fn give(&self, path: &Path) -> Result<()> {
        let Some((user, group)) = self.other else { return Ok(()) };
        chown(path, Some(user), Some(group))
            .with_context(|| format!("cannot give {} to the user {USER}", path.display()))
    }

    /// A hint for the case that they cannot write.
    pub(super) const fn advice(&self) -> &'static str {
        match self.other {
            Some(_) => {
                "; started by root, it runs as the user postgres: name a directory it can reach"
            }
            None => "",
        }
    }
}

/// The user and group to run as, if this process runs as root.
fn other_user() -> Result<Option<(u32, u32)>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let number = |flag: &str| -> Result<u32> {
        let output = std::process::Command::new("id").args([flag, USER]).output();
        let output = output.context("cannot start id")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.trim().parse().with_context(|| {
            format!("PostgreSQL refuses to run as root, and there is no user {USER} to run it as")
        })
    };
    Ok(Some((number("-u")?, number("-g")?)))
}
