//! The log of the process, whose level can change. It must not know what is logged.

use super::sections::Fixed;
use anyhow::{Context as _, Result};
use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

/// The way to another level.
pub(crate) struct LogHandle(Box<dyn Fn(EnvFilter) -> Result<()> + Send + Sync>);

impl LogHandle {
    /// Starts to log to stderr.
    pub(crate) fn start(fixed: &Fixed) -> Result<Self> {
        let builder = tracing_subscriber::fmt()
            .with_env_filter(filter(fixed)?)
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal())
            .with_filter_reloading();
        let handle = builder.reload_handle();
        builder.init();
        Ok(Self(Box::new(move |filter| handle.reload(filter).context("cannot change the log"))))
    }

    /// Logs at another level.
    pub(crate) fn change(&self, fixed: &Fixed) -> Result<()> {
        (self.0)(filter(fixed)?)
    }
}

fn filter(fixed: &Fixed) -> Result<EnvFilter> {
    let level = fixed.log.level.to_string();
    EnvFilter::try_new(&level).with_context(|| format!("log.level is {level:?}"))
}
