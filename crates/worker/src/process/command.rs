//! The last steps before a process is a command, which only it can take itself, without `unsafe`: die with
//! the supervisor, set limits, become the command.

use super::limits::Limits;
use super::role::ROLE_VARIABLE;
use rustix::process::getppid;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// There is no such program. What a shell says, too.
const EXIT_NOT_FOUND: i32 = 127;
/// It cannot be run.
const EXIT_CANNOT: i32 = 126;

/// Becomes the command. If that fails, says why and answers with what code to exit.
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
