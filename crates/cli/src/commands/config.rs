//! `windlass config`: validates the configuration, shows the effective one, prints an example. Starts and
//! changes nothing.

use super::serve;
use crate::config::{Config, FILE_DEFAULT, Inputs, example, show, summary};
use crate::output::print;
use anyhow::{Result, bail};
use clap::Subcommand;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Validate the file and the environment variables, and report all errors at once
    Check {
        /// Configuration file [default: ./windlass.toml, or WINDLASS_CONFIG]
        path: Option<PathBuf>,
    },
    /// Print the settings that `serve` would use, and the source of each; takes the flags of `serve`
    Show(Box<serve::Args>),
    /// Print every setting with its default, as a template for a configuration file
    Example,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        match self.action {
            Action::Check { path } => check(path)?,
            Action::Show(serve) => {
                let config = Config::load(&serve.inputs())?;
                note(&config);
                print(&show(&config))?;
            }
            Action::Example => print(&example())?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn check(path: Option<PathBuf>) -> Result<()> {
    let config = Config::load(&Inputs::around(path, Vec::new()))?;
    note(&config);
    let Some(file) = &config.file else {
        bail!(
            "no {FILE_DEFAULT} in this directory; name a file, or create one from the example: \
             windlass config example > {FILE_DEFAULT}"
        );
    };
    print(&format!("{} has no mistakes: {}\n", file.display(), summary(&config)))
}

fn note(config: &Config) {
    for note in &config.notes {
        eprintln!("note: {note}");
    }
}
