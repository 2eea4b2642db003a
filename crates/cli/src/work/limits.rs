//! Flags for the resource limits of commands.

use crate::values;
use std::time::Duration;
use windlass_worker::process::Process;

/// Resource limits of each command.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Limits {
    /// With --exec: memory limit of each process, e.g. 512M
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    memory_max: Option<u64>,
    /// With --exec: maximum number of processes and threads of a command at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    processes_max: Option<u64>,
    /// With --exec: CPU time limit of each process, in whole seconds
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    cpu_max: Option<Duration>,
}

impl Limits {
    /// Whether any limit is set.
    pub(crate) const fn any(&self) -> bool {
        self.memory_max.is_some() || self.processes_max.is_some() || self.cpu_max.is_some()
    }

    /// Applies the limits to a command.
    pub(crate) fn on(&self, mut process: Process) -> Process {
        if let Some(bytes) = self.memory_max {
            process = process.memory_max(bytes);
        }
        if let Some(count) = self.processes_max {
            process = process.processes_max(count);
        }
        if let Some(time) = self.cpu_max {
            process = process.cpu_max(time);
        }
        process
    }
}
