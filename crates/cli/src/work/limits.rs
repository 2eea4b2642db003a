//! What a command may use.

use crate::values;
use anyhow::{Result, bail};
use std::time::Duration;

/// A shell needs about this much to start at all.
const MEMORY_MIN: u64 = 8 * 1024 * 1024;

/// Limits of each command.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Limits {
    /// With --exec: how much memory each process may have, as in 512M
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    pub(crate) memory_max: Option<u64>,
    /// With --exec: how many processes and threads a command may have at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) processes_max: Option<u64>,
    /// With --exec: how much CPU time each process may use, in whole seconds
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) cpu_max: Option<Duration>,
}

impl Limits {
    /// Whether a command can run under them.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(bytes) = self.memory_max.filter(|bytes| *bytes < MEMORY_MIN) {
            bail!(
                "--memory-max is {bytes} bytes: no shell starts with less than {MEMORY_MIN} (8M)"
            );
        }
        if self.cpu_max.is_some_and(|time| time < Duration::from_secs(1)) {
            bail!(
                "--cpu-max is less than a second: it is counted in whole seconds, use 1s or more"
            );
        }
        Ok(())
    }

    /// Whether anything is limited.
    pub(crate) const fn any(&self) -> bool {
        self.memory_max.is_some() || self.processes_max.is_some() || self.cpu_max.is_some()
    }

    /// The CPU limit as the system counts it.
    pub(crate) fn cpu_seconds(&self) -> Option<u64> {
        self.cpu_max.map(|time| time.as_secs())
    }

    /// The same limits as arguments of a command line.
    pub(crate) fn args(&self) -> Vec<String> {
        let memory = self.memory_max.map(|bytes| format!("--memory-max={bytes}"));
        let processes = self.processes_max.map(|count| format!("--processes-max={count}"));
        let cpu = self.cpu_seconds().map(|seconds| format!("--cpu-max={seconds}s"));
        [memory, processes, cpu].into_iter().flatten().collect()
    }
}
