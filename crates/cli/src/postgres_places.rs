//! Finds directories that may contain PostgreSQL's programs. Runs none of them except `pg_config`.

use std::path::PathBuf;

/// Directory in which Debian installs the programs of each version, outside the PATH.
pub(crate) const DEBIAN: &str = "/usr/lib/postgresql";

/// The candidates, in this order: the PATH, the directory reported by `pg_config`, Debian's directories, newest
/// version first.
pub(crate) fn postgres_places() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    on_path.into_iter().chain(reported_by_pg_config()).chain(debian())
}

fn reported_by_pg_config() -> Option<PathBuf> {
    let output = std::process::Command::new("pg_config").arg("--bindir").output().ok()?;
    let reported = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(reported.trim()))
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
