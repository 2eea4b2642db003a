//! What a command is, as its user says it. Knows nothing of how it is run.

use super::enter::{NAME, has_entered, this_program};
use super::environment::Environment;
use super::limits::{Limits, whole_seconds};
use super::role::{ROLE_VARIABLE, Role};
use super::{SHELL, SNOOZE_DEFAULT};
use crate::error::BuildError;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::process::Command;

/// A command that is run for each job of a kind, in a process of its own: see
/// [the module](super) for what it gets and how its end is read.
///
/// ```
/// use std::time::Duration;
/// use windlass_worker::process::Process;
///
/// let resize = Process::shell("convert - -resize 200 png:-")
///     .memory_max(256 << 20)
///     .cpu_max(Duration::from_secs(30))
///     .processes_max(16);
/// let scan = Process::new("clamscan").args(["--no-summary", "-"]).pass_env("CLAMD_HOST");
/// # resize.check().unwrap();
/// # scan.check().unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a process does nothing until it is given to `handle_process`"]
pub struct Process {
    /// The program and its arguments.
    words: Vec<OsString>,
    environment: Environment,
    pub(super) dir: Option<PathBuf>,
    limits: Limits,
    pub(super) snooze: Duration,
}

/// What to run.
impl Process {
    /// A program, found as a shell would find it. Its arguments are given to it as they are.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            words: vec![program.into()],
            environment: Environment::default(),
            dir: None,
            limits: Limits::default(),
            snooze: SNOOZE_DEFAULT,
        }
    }

    /// A line for `/bin/sh -c`. Never put anything of a job into it: that is for stdin.
    pub fn shell(line: impl Into<OsString>) -> Self {
        Self::new(SHELL).arg("-c").arg(line)
    }

    /// With one more argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.words.push(argument.into());
        self
    }

    /// With more arguments.
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.words.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable in its environment. Otherwise it has `PATH`, `HOME`, `USER`, `LOGNAME`, `TMPDIR`,
    /// `TZ`, `LANG`, `LANGUAGE`, `LC_*` and `LD_LIBRARY_PATH` of the host, and the variables of the job:
    /// what a command prints becomes the result of its job, so the host's secrets stay with the host.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.set(name.into(), value.into());
        self
    }

    /// Passes a variable of the host on to it, if it is set there when the command starts.
    pub fn pass_env(mut self, name: impl Into<OsString>) -> Self {
        self.environment.pass(name.into());
        self
    }

    /// In this directory, instead of the host's.
    pub fn current_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }
}

/// What it may use. Without limits it may use what its host may.
impl Process {
    /// How much memory (address space) each process of it may have. At least
    /// [`MEMORY_MIN`](super::MEMORY_MIN).
    pub const fn memory_max(mut self, bytes: u64) -> Self {
        self.limits.memory_bytes = Some(bytes);
        self
    }

    /// How much CPU time each process of it may use; counted in whole seconds, rounded up.
    pub fn cpu_max(mut self, time: Duration) -> Self {
        self.limits.cpu_seconds = Some(whole_seconds(time));
        self
    }

    /// How many processes and threads it may have at a time. The system counts them by user: a host
    /// that is root runs such commands as users of their own ([`USERS`](super::USERS)), any other
    /// counts from what its user has when the command starts.
    pub const fn processes_max(mut self, count: u64) -> Self {
        self.limits.processes = Some(count);
        self
    }

    /// How large a file may become that it writes.
    pub const fn file_size_max(mut self, bytes: u64) -> Self {
        self.limits.file_bytes = Some(bytes);
        self
    }
}

/// How it goes on.
impl Process {
    /// How long a job waits whose command ended with [`EXIT_SNOOZE`](super::EXIT_SNOOZE); without it
    /// [`SNOOZE_DEFAULT`].
    pub const fn snooze(mut self, time: Duration) -> Self {
        self.snooze = time;
        self
    }

    /// Whether it can run under its limits and with its environment. [`Builder::build`](crate::Builder::build) asks, too.
    pub fn check(&self) -> Result<(), BuildError> {
        self.environment.check()?;
        self.limits.check()
    }

    /// Whether it can run for jobs of this kind.
    pub(crate) fn check_for(&self, kind: &str) -> Result<(), BuildError> {
        if !has_entered() {
            return Err(BuildError::NotEntered { kind: kind.to_owned() });
        }
        self.check()
    }

    /// What starts it: this program, as its supervisor, with these variables of the job.
    pub(super) fn supervisor<'a>(
        &self,
        job: impl IntoIterator<Item = (&'a str, impl AsRef<OsStr>)>,
    ) -> io::Result<Command> {
        let mut command = Command::new(this_program()?);
        command.arg0(NAME).args(&self.words);
        // The command inherits what its supervisor has, so that nothing of the host is in either.
        command.env_clear().envs(self.environment.variables()).envs(job);
        command.env(ROLE_VARIABLE, Role::Supervisor(self.limits).to_string());
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Worker;
    use std::sync::Arc;

    /// Nobody has called `enter` in a test of this sort.
    #[test]
    fn a_program_that_has_not_entered_is_told_where_to() {
        let engine = Arc::new(windlass_memory::MemoryEngine::new());
        let built = Worker::builder(engine).handle_process("x", Process::new("true")).build();
        let error = built.unwrap_err();
        assert_eq!(error, BuildError::NotEntered { kind: "x".to_owned() });
        let text = error.to_string();
        assert!(
            text.contains("`process::enter()`") && text.contains("first line of main"),
            "{text}"
        );
    }
}
