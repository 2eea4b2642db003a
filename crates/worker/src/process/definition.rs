//! The user's definition of a command. Independent of how it is run.

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

/// A command that runs for each job of a kind, in its own process. See [the module](super) for its input and
/// the meaning of its exit code.
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
    /// The program, followed by its arguments.
    words: Vec<OsString>,
    environment: Environment,
    pub(super) dir: Option<PathBuf>,
    limits: Limits,
    pub(super) snooze: Duration,
}

/// Program and environment.
impl Process {
    /// A program, looked up in `PATH` as a shell does. Arguments are passed unchanged.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            words: vec![program.into()],
            environment: Environment::default(),
            dir: None,
            limits: Limits::default(),
            snooze: SNOOZE_DEFAULT,
        }
    }

    /// A command line for `/bin/sh -c`. Never insert data of a job into it: that is what stdin is for.
    pub fn shell(line: impl Into<OsString>) -> Self {
        Self::new(SHELL).arg("-c").arg(line)
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.words.push(argument.into());
        self
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.words.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable. By default the command gets `PATH`, `HOME`, `USER`, `LOGNAME`, `TMPDIR`,
    /// `TZ`, `LANG`, `LANGUAGE`, `LC_*` and `LD_LIBRARY_PATH` of the host, and the variables of the job, but
    /// no others: the output of a command becomes the result of its job, so it must not see the host's
    /// secrets.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.set(name.into(), value.into());
        self
    }

    /// Passes on a variable of the host, if it is set when the command starts.
    pub fn pass_env(mut self, name: impl Into<OsString>) -> Self {
        self.environment.pass(name.into());
        self
    }

    /// Sets the working directory; the default is the host's.
    pub fn current_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }
}

/// Resource limits. Without them, the limits of the host apply.
impl Process {
    /// Maximum memory (address space) of each process of the command. At least
    /// [`MEMORY_MIN`](super::MEMORY_MIN).
    pub const fn memory_max(mut self, bytes: u64) -> Self {
        self.limits.memory_bytes = Some(bytes);
        self
    }

    /// Maximum CPU time of each process of the command, in whole seconds, rounded up.
    pub fn cpu_max(mut self, time: Duration) -> Self {
        self.limits.cpu_seconds = Some(whole_seconds(time));
        self
    }

    /// Maximum number of processes and threads at a time. The system counts them per user: a host that runs
    /// as root runs each such command as a separate user ([`USERS`](super::USERS)); any other host adds the
    /// number of processes that its user has when the command starts.
    pub const fn processes_max(mut self, count: u64) -> Self {
        self.limits.processes = Some(count);
        self
    }

    /// Maximum size of a file that the command writes.
    pub const fn file_size_max(mut self, bytes: u64) -> Self {
        self.limits.file_bytes = Some(bytes);
        self
    }
}

/// Snoozing and validation.
impl Process {
    /// Delay of a job whose command exits with [`EXIT_SNOOZE`](super::EXIT_SNOOZE). The default is
    /// [`SNOOZE_DEFAULT`].
    pub const fn snooze(mut self, time: Duration) -> Self {
        self.snooze = time;
        self
    }

    /// Validates limits and environment. [`Builder::build`](crate::Builder::build) does so as well.
    pub fn check(&self) -> Result<(), BuildError> {
        self.environment.check()?;
        self.limits.check()
    }

    /// Validates the command for jobs of this kind.
    pub(crate) fn check_for(&self, kind: &str) -> Result<(), BuildError> {
        if !has_entered() {
            return Err(BuildError::NotEntered { kind: kind.to_owned() });
        }
        self.check()
    }

    /// The process that starts the command: this program as its supervisor, with these variables of the job.
    pub(super) fn supervisor<'a>(
        &self,
        job: impl IntoIterator<Item = (&'a str, impl AsRef<OsStr>)>,
    ) -> io::Result<Command> {
        let mut command = Command::new(this_program()?);
        command.arg0(NAME).args(&self.words);
        // The command inherits the environment of its supervisor, so both are started without the host's
        // variables.
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

    /// Test binaries never call `enter`.
    #[test]
    fn a_program_without_the_entry_call_gets_an_error_that_names_it() {
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
