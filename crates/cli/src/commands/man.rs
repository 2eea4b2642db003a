//! `windlass man`: writes manual pages, one per command.

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  windlass man ~/.local/share/man/man1 && man windlass-enqueue")]
pub(super) struct Args {
    /// Directory for the pages; created if it does not exist
    dir: PathBuf,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        let shown = self.dir.display();
        fs::create_dir_all(&self.dir).with_context(|| format!("cannot create {shown}"))?;
        clap_mangen::generate_to(super::Cli::command(), &self.dir)
            .with_context(|| format!("cannot write manual pages to {shown}"))?;
        Ok(ExitCode::SUCCESS)
    }
}
