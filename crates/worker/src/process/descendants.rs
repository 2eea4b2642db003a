//! All descendants of this process: everything that a command started, in its process group or not. A signal
//! to the group does not reach processes that left it (e.g. with `setsid`); but once their parents are dead
//! they become children of this process, which has no other children. Independent of commands.

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, waitid, waitpid,
};
use std::fs;
use std::io;
use std::time::Duration;

/// Maximum number of rounds. Each kills all current children; their orphaned children are found in the next.
const LOOKS_MAX: u32 = 1_000;
/// Time between two rounds, for the killed processes to die.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Makes this process the parent of all its orphaned descendants (subreaper).
pub(super) fn adopt() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// Whether a child is dead, without reaping it: until it is reaped, its process id is not reused.
pub(super) fn is_dead(child: Pid) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(child), look), Ok(None))
}

/// Reaps dead children, so that they no longer count as running; except `spared`.
pub(super) fn bury_but(spared: Option<Pid>) {
    for child in children().into_iter().filter(|child| Some(*child) != spared) {
        let _ = waitpid(Some(child), WaitOptions::NOHANG);
    }
}

/// Kills all descendants. Dead ones are reaped last: until then they count against the process limit, which
/// keeps the remaining ones from starting more.
pub(super) async fn end_all() {
    for _ in 0..LOOKS_MAX {
        let living = children().into_iter().filter(|child| !is_dead(*child));
        // A process that has changed its user cannot be killed and is not waited for.
        let killed = living.filter(|child| kill_process(*child, Signal::KILL).is_ok()).count();
        if killed == 0 {
            break;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    bury_but(None);
}

/// The children of this process, started by any of its threads.
fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|it| fs::read_to_string(it.path().join("children")).ok());
    let pids = lists.flat_map(|list| list.split_whitespace().map(str::parse).collect::<Vec<_>>());
    pids.filter_map(|pid| Pid::from_raw(pid.ok()?)).collect()
}
