//! Killing a process together with those it has started. Only for processes that are ours.

use crate::torture::process::signal_process;
use anyhow::{Result, bail};
use rustix::process::Signal;
use std::fs;
use std::time::Duration;

/// How often, and how long each time, one that was killed is given to be gone.
const LOOKS: u32 = 1_000;
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// SIGKILL of a process and its children, and waits until the children are gone: what they hold is free
/// then. (Where there is no `/proc`, the children are left to notice that their parent is gone.)
pub(super) fn kill_with_children(pid: u32) -> Result<()> {
    // Standing still, it has no more children.
    signal_process(Some(pid), Signal::STOP)?;
    let children = children(pid);
    signal_process(Some(pid), Signal::KILL)?;
    for child in &children {
        // One that is gone already needs no signal.
        let _ = signal_process(Some(*child), Signal::KILL);
    }
    for _ in 0..LOOKS {
        if !children.iter().any(|child| is_alive(*child)) {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    bail!("a process that was killed is still there")
}

/// What the system says of a process behind its name: state, parent and more.
fn stat(pid: u32) -> Option<(String, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
}

fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != "Z")
}

fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| stat(*pid).is_some_and(|(_, its)| its == parent)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    #[test]
    #[cfg(target_os = "linux")]
    fn whoever_is_killed_takes_its_children_along() {
        let mut parent = Command::new("sh");
        parent.args(["-c", "sleep 600 & echo $!; wait"]).stdout(Stdio::piped());
        let mut parent = parent.spawn().unwrap();
        let mut said = [0; 16];
        let many = parent.stdout.take().unwrap().read(&mut said).unwrap();
        let child: u32 = String::from_utf8_lossy(&said[..many]).trim().parse().unwrap();
        assert!(is_alive(child));
        kill_with_children(parent.id()).unwrap();
        assert!(!is_alive(child));
        assert!(!parent.wait().unwrap().success());
    }
}
