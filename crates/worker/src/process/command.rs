//! The last steps of a process before it executes a command, which without `unsafe` only the process itself
//! can take: die with the supervisor, set resource limits, exec.

use super::limits::Limits;
use super::role::ROLE_VARIABLE;
use rustix::process::getppid;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Exit code if the program does not exist, as in a shell.
const EXIT_NOT_FOUND: i32 = 127;
/// Exit code if the program cannot be executed, as in a shell.
const EXIT_CANNOT: i32 = 126;

/// Executes the command in this process. If that fails, prints the reason and returns the exit code.
pub(super) fn run(
    supervisor: i32,
    limits: Limits,
    mut words: impl Iterator<Item = OsString>,
) -> i32 {
    let program = words.next().unwrap_or_default();
    let mut command = Command::new(&program);
    command.args(words).env_remove(ROLE_VARIABLE);
    if let Err(error) = prepare(supervisor, limits) {
        eprintln!("{error}");
        return EXIT_CANNOT;
    }
    let error = command.exec();
    eprintln!("cannot start {}: {error}", program.display());
    if error.kind() == io::ErrorKind::NotFound { EXIT_NOT_FOUND } else { EXIT_CANNOT }
}

fn prepare(supervisor: i32, limits: Limits) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    if getppid().is_none_or(|parent| parent.as_raw_pid() != supervisor) {
        return Err(io::Error::other("the supervisor is gone"));
    }
    limits.apply()
}
