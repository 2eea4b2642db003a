//! Where a program that was started again finds out what for.

use super::role::{ROLE_VARIABLE, Role};
use super::{command, supervisor};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a process is called in lists that was started to run a command; the command follows.
pub(super) const NAME: &str = "windlass-process";
/// Somebody else has set the variable.
const EXIT_NO_ROLE: i32 = 126;

static ENTERED: AtomicBool = AtomicBool::new(false);

/// Makes commands as handlers possible: call it first in `main`, before arguments are read, anything is
/// printed or threads are started.
///
/// A job's command is started by the host's own program, run again, which sets limits, watches over the
/// command and ends all of it; this is where that second run finds out what it is there for, and it goes
/// no further. In any other process the function returns at once, having done nothing but note that it
/// was called: without that, [`Builder::build`](crate::Builder::build) refuses handlers of this sort.
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

/// Whether this program, run again, would find its way.
pub(super) fn has_entered() -> bool {
    ENTERED.load(Ordering::Relaxed)
}

/// This program's own file, to start it again. On Linux by a name that still works when the file was
/// replaced by a newer one, or lies where a user that was dropped to may not look.
pub(super) fn this_program() -> std::io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}
