//! The directories in which PostgreSQL's own programs may be. Starts none of them but `pg_config`, which tells one.

use std::path::PathBuf;

/// Where Debian puts the programs of each version: beside the PATH.
pub(crate) const DEBIAN: &str = "/usr/lib/postgresql";

/// On the PATH, where `pg_config` says, and where Debian puts them, the newest first.
pub(crate) fn postgres_places() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    on_path.into_iter().chain(told_by_pg_config()).chain(debian())
}

fn told_by_pg_config() -> Option<PathBuf> {
    let output = std::process::Command::new("pg_config").arg("--bindir").output().ok()?;
    let told = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(told.trim()))
}

fn debian() -> impl Iterator<Item = PathBuf> {
    let versions = std::fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, programs)| programs)
}
