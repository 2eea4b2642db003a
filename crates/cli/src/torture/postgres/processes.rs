//! Kills a process together with its children. Only for processes that the run started.

use crate::torture::process::signal_process;
use anyhow::{Result, bail};
use rustix::process::Signal;
use std::fs;
use std::time::Duration;

/// Maximum number of polls until the killed children are gone.
const LOOKS: u32 = 1_000;
/// Polling interval.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Sends SIGKILL to a process and its children, and waits until the children are gone and have released their
/// resources. (Without `/proc`, the children must notice themselves that their parent has ended.)
pub(super) fn kill_with_children(pid: u32) -> Result<()> {
    // A stopped process cannot start further children.
    signal_process(Some(pid), Signal::STOP)?;
    let children = children(pid);
    signal_process(Some(pid), Signal::KILL)?;
    for child in &children {
        // A child that has already ended needs no signal.
        let _ = signal_process(Some(*child), Signal::KILL);
    }
    for _ in 0..LOOKS {
        if !children.iter().any(|child| is_alive(*child)) {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    bail!("a killed process still exists")
}

/// The state and the parent of a process, which follow its name in `/proc/PID/stat`.
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
    fn killing_a_process_kills_its_children() {
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
