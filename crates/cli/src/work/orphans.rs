//! Processes that left the group of their command, as `setsid` does. A signal to the group does not reach
//! them; but once their parents are dead they become children of this process, and are found among them.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::process::{Child, Command};

/// Names the run that a process belongs to, in its environment.
const RUN_VARIABLE: &str = "WINDLASS_RUN";
/// Looks for orphans of one run: each kills all that are there, and theirs come with the next.
const LOOKS_MAX: u32 = 100;
/// How often a command that runs on is looked after: what it has orphaned and has died is buried.
pub(super) const BURY_EVERY: Duration = Duration::from_secs(1);
/// Between two looks: time to die.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The children of this process that are commands, so that the others can be told from them. Cheap to
/// clone; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orphanage(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// The children this process has started, with the run of each; `None` once it has ended.
    children: HashMap<i32, Option<u64>>,
    /// Orphans that hide whose they are, with the runs that each may belong to: those there were when it
    /// was first seen.
    strangers: HashMap<i32, HashSet<u64>>,
    /// Runs so far.
    runs: u64,
}

impl Known {
    fn is_running(&self, run: u64) -> bool {
        self.children.values().flatten().any(|it| *it == run)
    }

    /// Whether an orphan may belong to a run that has not ended.
    fn may_be_wanted(&mut self, pid: Pid) -> bool {
        if let Some(run) = run_of(pid) {
            return self.is_running(run);
        }
        let running: HashSet<u64> = self.children.values().flatten().copied().collect();
        let its_own = self.strangers.entry(pid.as_raw_pid()).or_insert_with(|| running.clone());
        !its_own.is_disjoint(&running)
    }
}

/// A command among the children of this process, known until dropped.
#[derive(Debug)]
pub(super) struct Member {
    pid: i32,
    orphanage: Orphanage,
}

impl Orphanage {
    /// From now on whoever loses its parent below this process becomes its child.
    pub(crate) fn open() -> Self {
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
            tracing::warn!(%error, "processes that leave their group will outlive their command");
        }
        Self::default()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a child alone that is no command.
    pub(super) fn adopt(&self, pid: u32) {
        self.known().children.insert(pid.cast_signed(), None);
    }

    /// Starts a command. Nobody looks for orphans meanwhile, or it might be taken for one.
    pub(super) fn start(&self, command: &mut Command) -> io::Result<(Child, Member)> {
        let mut known = self.known();
        known.runs += 1;
        let run = known.runs;
        let child = command.env(RUN_VARIABLE, run_name(run)).spawn()?;
        let pid = child.id().unwrap_or_default().cast_signed();
        known.children.insert(pid, Some(run));
        Ok((child, Member { pid, orphanage: self.clone() }))
    }

    /// Kills the orphans of runs that have ended, and buries the dead; whether there were any.
    fn look(&self) -> bool {
        let mut known = self.known();
        let mut orphans = children();
        orphans.retain(|pid| !known.children.contains_key(&pid.as_raw_pid()));
        // The dead are buried, and only those are left who live.
        orphans.retain(|pid| matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(None)));
        let alive: HashSet<i32> = orphans.iter().map(|pid| pid.as_raw_pid()).collect();
        known.strangers.retain(|pid, _| alive.contains(pid));
        orphans.retain(|pid| !known.may_be_wanted(*pid));
        // One that has made itself somebody else's cannot be killed, and is not waited for.
        orphans.retain(|pid| kill_process(*pid, Signal::KILL).is_ok());
        !orphans.is_empty()
    }
}

impl Member {
    /// Buries the dead, so that they do not count as living.
    pub(super) fn bury(&self) {
        self.orphanage.look();
    }

    /// Says that the command has ended, and ends what has left it.
    pub(super) async fn ended(&self) {
        self.orphanage.known().children.insert(self.pid, None);
        for _ in 0..LOOKS_MAX {
            if !self.orphanage.look() {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        tracing::warn!("processes are left that were started by a command and cannot be killed");
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.orphanage.known().children.remove(&self.pid);
        self.orphanage.look();
    }
}

/// The children of this process, by whichever thread.
fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|it| fs::read_to_string(it.path().join("children")).ok());
    let pids = lists.flat_map(|list| list.split_whitespace().map(str::parse).collect::<Vec<_>>());
    pids.filter_map(|pid| Pid::from_raw(pid.ok()?)).collect()
}

/// Ends what is left of all runs of a worker that is dead, wherever it went. What hides whose it is cannot
/// be found any more.
pub(super) fn end_all_of(worker: Pid) {
    let prefix = format!("{}-", worker.as_raw_pid());
    let is_left = |pid: &Pid| name_of(*pid).is_some_and(|name| name.starts_with(&prefix));
    for _ in 0..LOOKS_MAX {
        let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = numbers.filter_map(|it| it.file_name().to_str()?.parse().ok());
        let left: Vec<Pid> = pids.filter_map(Pid::from_raw).filter(is_left).collect();
        let killed = left.iter().filter(|pid| kill_process(**pid, Signal::KILL).is_ok()).count();
        if killed == 0 {
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The name of a run in the environment: other workers have runs too.
fn run_name(run: u64) -> String {
    format!("{}-{run}", std::process::id())
}

/// The name of the run that a process says it belongs to.
fn name_of(pid: Pid) -> Option<String> {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_pid())).ok()?;
    let mut variables =
        environment.split(|byte| *byte == 0).filter_map(|it| str::from_utf8(it).ok());
    variables.find_map(|it| it.strip_prefix(RUN_VARIABLE)?.strip_prefix('=').map(str::to_owned))
}

/// The same, if it is a run of this process.
fn run_of(pid: Pid) -> Option<u64> {
    let name = name_of(pid)?;
    let run = name.strip_prefix(&format!("{}-", std::process::id()))?;
    run.parse().ok()
}
