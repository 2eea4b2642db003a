//! `windlass reference`: prints the help of every command as one Markdown page, for the documentation site.

use crate::output::print;
use anyhow::Result;
use clap::{Command, CommandFactory as _};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Prints the page.
pub(super) fn run() -> Result<ExitCode> {
    let mut cli = super::Cli::command();
    cli.build();
    let mut page =
        "# Command line\n\nThe help of every command, as `windlass COMMAND --help` prints it.\n"
            .to_owned();
    add(&mut page, &mut cli)?;
    print(&page)?;
    Ok(ExitCode::SUCCESS)
}

/// Adds a command and those below it, each with its complete name as the heading.
fn add(page: &mut String, command: &mut Command) -> Result<()> {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    writeln!(
        page,
        "\n## {name}\n\n```text\n{}\n```",
        command.render_long_help().to_string().trim()
    )?;
    for below in command.get_subcommands_mut() {
        if !below.is_hide_set() && below.get_name() != "help" {
            add(page, below)?;
        }
    }
    Ok(())
}
