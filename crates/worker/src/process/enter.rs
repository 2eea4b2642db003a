//! Entry point for the re-executed program, which determines its role.

use super::role::{ROLE_VARIABLE, Role};
use super::{command, supervisor};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Prefix of the process names of supervisors and commands; followed by the command.
pub(super) const NAME: &str = "windlass-process";
/// Exit code if the role variable has an invalid value, i.e. was not set by Windlass.
const EXIT_NO_ROLE: i32 = 126;

static ENTERED: AtomicBool = AtomicBool::new(false);

/// Enables commands as handlers: call it first in `main`, before reading arguments, printing anything or
/// starting threads.
///
/// The host starts a job's command by executing its own program again. That process sets limits, supervises
/// the command and kills all of its processes at the end. `enter` detects such a process by its environment,
/// runs its role and never returns. In any other process it returns at once and only records that it was
/// called; without that, [`Builder::build`](crate::Builder::build) refuses commands as handlers.
///
/// ```
/// use windlass_worker::process;
///
/// process::enter(); // the first line of main, also of one under `#[tokio::main]`
/// // … everything else.
/// ```
pub fn enter() {
    let Some(role) = std::env::var_os(ROLE_VARIABLE) else {
        ENTERED.store(true, Ordering::Relaxed);
        return;
    };
    let command = std::env::args_os().skip(1);
    std::process::exit(match role.to_string_lossy().parse() {
        Ok(Role::Supervisor(limits)) => supervisor::run(limits, command.collect()),
        Ok(Role::Command { supervisor, limits }) => command::run(supervisor, limits, command),
        Err(error) => {
            eprintln!("{error}");
            EXIT_NO_ROLE
        }
    })
}

/// Whether `enter` was called, so that this program can be executed again as a supervisor.
pub(super) fn has_entered() -> bool {
    ENTERED.load(Ordering::Relaxed)
}

/// The path of this program, to execute it again. On Linux a path that still works if the file was replaced
/// by a newer one, or is in a directory that the command's user cannot read.
pub(super) fn this_program() -> std::io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}
