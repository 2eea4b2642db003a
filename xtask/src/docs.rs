//! `cargo xtask docs`: the documentation as a site, by mdBook.
//!
//! The pages keep their places in the repository, so that links between them work here and there alike. Only the table
//! of contents moves to the root, and the page about the command line is generated.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::process;

/// The version that is installed if there is none.
const MDBOOK: &str = "0.5.4";
/// What the site contains: files and directories of the repository.
const SOURCES: [&str; 9] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "bench/README.md",
    "crates/engines/local/sql/schema.sql",
    "docs",
    "ops",
];
const CONFIGURATION: &str = r#"[book]
title = "Windlass"
language = "en"
src = "src"

[output.html]
no-section-label = true
smart-punctuation = false

[output.html.fold]
enable = false
"#;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Directory for the site [default: book/site in the target directory]
    #[arg(long)]
    out: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let place = process::target()?.join("book");
    let out = options.out.clone().unwrap_or_else(|| place.join("site"));
    let source = place.join("src");
    if source.exists() {
        fs::remove_dir_all(&source)?;
    }
    for path in SOURCES {
        copy(&process::root()?, path, &source)?;
    }
    let contents = fs::read_to_string(source.join("docs/SUMMARY.md"))?;
    fs::write(source.join("SUMMARY.md"), from_root(&contents))?;
    fs::remove_file(source.join("docs/SUMMARY.md"))?;
    fs::write(source.join("docs/cli.md"), command_line()?)?;
    fs::write(place.join("book.toml"), CONFIGURATION)?;
    let mut mdbook = Command::new(mdbook()?);
    process::stream(mdbook.arg("build").arg(&place).arg("--dest-dir").arg(&out))?;
    ensure!(out.join("docs/cli.html").exists(), "mdBook built no page about the command line");
    println!("{}", out.join("index.html").display());
    Ok(())
}

/// Copies a file or a directory of the repository to the same place below `source`.
fn copy(root: &Path, path: &str, source: &Path) -> Result<()> {
    let (from, to) = (root.join(path), source.join(path));
    let parent = to.parent().context("the root is not copied")?;
    fs::create_dir_all(parent)?;
    process::stream(Command::new("cp").arg("-r").arg(from).arg(to))
}

/// The table of contents with links from the root of the repository instead of from `docs`.
fn from_root(contents: &str) -> String {
    contents.replace("](../", "](ROOT/").replace("](", "](docs/").replace("](docs/ROOT/", "](")
}

/// The page with the help of every command.
fn command_line() -> Result<String> {
    let run = ["run", "--quiet", "--package", "windlass-cli", "--", "reference"];
    process::capture(&mut process::cargo(&run)?)
}

/// mdBook: the one on the `PATH`, or one in the target directory, which is built first.
fn mdbook() -> Result<PathBuf> {
    if Command::new("mdbook").arg("--version").output().is_ok() {
        return Ok("mdbook".into());
    }
    let place = process::target()?.join(format!("mdbook-{MDBOOK}"));
    let program = place.join("bin/mdbook");
    if !program.exists() {
        eprintln!("installing mdBook {MDBOOK} for the documentation; this takes a few minutes");
        let mut install = process::cargo(&["install", "--locked", "mdbook", "--version", MDBOOK])?;
        process::stream(install.arg("--root").arg(&place).args([
            "--no-default-features",
            "--features",
            "search",
        ]))?;
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_contents_is_read_from_the_root() {
        let contents = "[Windlass](../README.md)\n- [Limits](guides/limits.md)\n";
        let expected = "[Windlass](README.md)\n- [Limits](docs/guides/limits.md)\n";
        assert_eq!(from_root(contents), expected);
    }
}
