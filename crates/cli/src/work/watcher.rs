//! A process beside the worker that outlives it for an instant: if the worker is killed, it ends what
//! the worker's commands have started. The parent-death signal reaches only a command itself, and not
//! what that has started.

use super::orphans::{Orphanage, end_all_of};
use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, getppid, kill_process_group};
use std::collections::HashSet;
use std::io::{BufRead, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// The worker's end. Cheap to clone; the process ends with the last clone.
#[derive(Clone, Debug)]
pub(crate) struct Watcher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// `None` when it is being dropped.
    told: Mutex<Option<ChildStdin>>,
    process: Mutex<Child>,
}

impl Watcher {
    /// Starts the process: this program, under the hidden name of [`watch`].
    pub(crate) fn start(orphanage: &Orphanage) -> Result<Self> {
        let program = super::this_program().context("cannot find this program's own file")?;
        let mut process = Command::new(program)
            .arg(crate::commands::WATCH_COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // A key on the keyboard ends the worker in good order, and must leave this one to it.
            .process_group(0)
            .spawn()
            .context("cannot start the process that watches commands")?;
        orphanage.adopt(process.id());
        let told = Mutex::new(process.stdin.take());
        Ok(Self(Arc::new(Inner { told, process: Mutex::new(process) })))
    }

    /// Has a process group ended should this process die, until the answer is dropped.
    pub(super) fn guard(&self, group: Pid) -> Guard {
        self.tell('+', group);
        Guard { group, watcher: self.clone() }
    }

    fn tell(&self, sign: char, group: Pid) {
        let mut told = self.0.told.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pipe) = told.as_mut() else { return };
        // One write, so that it reads whole lines only.
        let line = format!("{sign}{}\n", group.as_raw_pid());
        if let Err(error) = pipe.write_all(line.as_bytes()) {
            tracing::warn!(%error, "the watcher is gone: if this worker is killed, its commands may go on");
            *told = None;
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.told.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // It ends by itself now; nobody is interested in how.
        let _ = self.process.get_mut().unwrap_or_else(PoisonError::into_inner).wait();
    }
}

/// A process group under watch.
#[derive(Debug)]
pub(super) struct Guard {
    group: Pid,
    watcher: Watcher,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.watcher.tell('-', self.group);
    }
}

/// The watcher's end: listens until the worker is gone, and ends what is left.
pub(crate) fn watch(worker: impl BufRead) {
    let parent = getppid();
    let left = left(worker);
    for group in &left {
        // It may have ended by itself.
        let _ = kill_process_group(*group, Signal::KILL);
    }
    if let Some(parent) = parent.filter(|_| !left.is_empty()) {
        end_all_of(parent);
    }
}

fn left(worker: impl BufRead) -> HashSet<Pid> {
    let mut groups = HashSet::new();
    for line in worker.lines().map_while(Result::ok) {
        // Half a line is what a worker that was killed has left; its command dies by itself.
        let Some((sign, number)) = line.split_at_checked(1) else { continue };
        let Some(group) = number.parse().ok().and_then(Pid::from_raw) else { continue };
        match sign {
            "+" => groups.insert(group),
            _ => groups.remove(&group),
        };
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_is_not_ended_again() {
        let left = left(&b"+5\n+6\n-5\n+7\nx\n+"[..]);
        let mut left: Vec<_> = left.into_iter().map(Pid::as_raw_pid).collect();
        left.sort_unstable();
        assert_eq!(left, [6, 7]);
    }
}
