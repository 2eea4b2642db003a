//! `windlass completions`: prints the completion script of a shell.

use crate::output::print;
use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use clap_complete::Shell;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass completions bash > ~/.local/share/bash-completion/completions/windlass
  windlass completions zsh > ~/.zfunc/_windlass
  windlass completions fish > ~/.config/fish/completions/windlass.fish")]
pub(super) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::Cli::command(), "windlass", &mut script);
        print(&String::from_utf8(script).context("the completions are not UTF-8")?)?;
        Ok(ExitCode::SUCCESS)
    }
}
