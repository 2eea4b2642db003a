//! Everybody below this process: whoever a command started, in its group or not. A signal to the group
//! does not reach those who left it, as `setsid` does; but once their parents are dead they become
//! children of this process, which has no others. Knows nothing of commands.

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, waitid, waitpid,
};
use std::fs;
use std::io;
use std::time::Duration;

/// Looks for those who are left: each kills all that are there, and theirs come with the next.
const LOOKS_MAX: u32 = 1_000;
/// Between two looks: time to die.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// From now on whoever loses its parent below this process becomes its child.
pub(super) fn adopt() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// Whether a child is dead, without burying it: until then, nobody else gets its number.
pub(super) fn is_dead(child: Pid) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(child), look), Ok(None))
}

/// Buries the dead, so that they do not count as living; but not `spared`.
pub(super) fn bury_but(spared: Option<Pid>) {
    for child in children().into_iter().filter(|child| Some(*child) != spared) {
        let _ = waitpid(Some(child), WaitOptions::NOHANG);
    }
}

/// Ends all of them. The dead are buried last: they still count against the limit on processes, and so
/// keep those who are left from having more.
pub(super) async fn end_all() {
    for _ in 0..LOOKS_MAX {
        let living = children().into_iter().filter(|child| !is_dead(*child));
        // One that has made itself somebody else's cannot be killed, and is not waited for.
        let killed = living.filter(|child| kill_process(*child, Signal::KILL).is_ok()).count();
        if killed == 0 {
            break;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    bury_but(None);
}

/// The children of this process, by whichever thread.
fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|it| fs::read_to_string(it.path().join("children")).ok());
    let pids = lists.flat_map(|list| list.split_whitespace().map(str::parse).collect::<Vec<_>>());
    pids.filter_map(|pid| Pid::from_raw(pid.ok()?)).collect()
}
