//! `windlass sandbox-run`: the few steps between `work` and a job's command that only the child itself
//! can take, without `unsafe`: drop privileges, set limits, die with the worker, become the command.
//! And `sandbox-watch`, which ends what a worker that was killed has left.

use crate::work::{self, Limits};
use anyhow::{Context as _, Result, bail};
use rustix::process::{Resource, Rlimit, getppid, setrlimit};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// The hidden name of this command.
pub(crate) const COMMAND: &str = "sandbox-run";

/// The hidden name of the process beside a worker.
pub(crate) const WATCH_COMMAND: &str = "sandbox-watch";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The worker's process
    #[arg(long)]
    parent: i32,
    #[command(flatten)]
    limits: Limits,
    /// Drop to this user first
    #[arg(long)]
    uid: Option<u32>,
    /// What to run
    command: String,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        if let Some(uid) = self.uid {
            let mut again = Command::new(work::this_program()?);
            again
                .arg(COMMAND)
                .args(["--parent", &self.parent.to_string()])
                .args(self.limits.args());
            let error = again.arg("--").arg(&self.command).uid(uid).gid(uid).exec();
            return Err(error).with_context(|| format!("cannot drop to user {uid}"));
        }
        // After dropping privileges, which would undo it.
        #[cfg(target_os = "linux")]
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        if getppid().is_none_or(|parent| parent.as_raw_pid() != self.parent) {
            bail!("the worker is gone");
        }
        set("no core dump", Resource::Core, Some(0))?;
        set("--cpu-max", Resource::Cpu, self.limits.cpu_seconds())?;
        set("--processes-max", Resource::Nproc, self.limits.processes_max)?;
        set("--memory-max", Resource::As, self.limits.memory_max)?;
        let error = Command::new("/bin/sh").arg("-c").arg(&self.command).exec();
        Err(error).context("cannot start /bin/sh")
    }
}

/// Ends what a worker that was killed has left.
pub(super) fn watch() -> ExitCode {
    work::watch(std::io::stdin().lock());
    ExitCode::SUCCESS
}

fn set(name: &str, resource: Resource, limit: Option<u64>) -> Result<()> {
    let Some(limit) = limit else { return Ok(()) };
    // Past the first CPU limit comes a signal that says so, past the second an end without words.
    let maximum = if resource == Resource::Cpu { limit + 1 } else { limit };
    let limits = Rlimit { current: Some(limit), maximum: Some(maximum) };
    setrlimit(resource, limits).with_context(|| format!("cannot set {name} to {limit}"))
}
