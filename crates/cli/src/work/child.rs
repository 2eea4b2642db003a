//! The process of one command and everything it starts: one process group, fed, read, and ended as a
//! whole, with whoever left it. Knows nothing of jobs.

use super::orphans::{BURY_EVERY, Member, Orphanage};
use super::pipes::{Head, Tail};
use super::users::Lent;
use super::watcher::{Guard, Watcher};
use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process_group};
use std::future::Future;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// How long a command that was told to end has for it.
const KILL_GRACE: Duration = Duration::from_secs(2);
/// How long the output of a command that has ended is waited for: a process that left the group may
/// hold it open forever.
const OUTPUT_WAIT: Duration = Duration::from_secs(1);

/// How long the commands of a worker that stops may take to be gone: told, killed, read to the end.
const FINISH_MAX: Duration = Duration::from_secs(5);

/// Sees commands to their end, also those nobody waits for any more. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reaper(TaskTracker);

impl Reaper {
    /// Waits until all of them are gone, and no longer than that should take.
    pub(crate) async fn finish(&self) {
        self.0.close();
        if tokio::time::timeout(FINISH_MAX, self.0.wait()).await.is_err() {
            tracing::warn!("commands are left after {FINISH_MAX:?}; they are killed");
        }
    }
}

/// What a command left.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) status: ExitStatus,
    pub(super) stdout: Head,
    pub(super) stderr: Tail,
}

/// A running command. Dropped, it is ended with everything it has started.
#[derive(Debug)]
pub(super) struct Running {
    /// `None` once it has ended.
    life: Option<Life>,
    reaper: Reaper,
}

/// What a command holds while any of it lives. Dropped, all of it is killed: whatever becomes of the task
/// that was to end it gently, nothing is left.
#[derive(Debug)]
struct Life {
    child: Child,
    group: Group,
    /// The user it runs as stays its own.
    _user: Option<Lent>,
    /// Finds who left the group.
    member: Member,
    /// Should this process die.
    _guard: Guard,
    /// A worker that stops waits for this.
    _token: TaskTrackerToken,
}

impl Drop for Life {
    fn drop(&mut self) {
        // Before the fields, so that the watcher looks on until it is done.
        self.group.signal(Signal::KILL);
    }
}

impl Running {
    /// Starts `command` in a process group of its own.
    pub(super) fn start(
        mut command: Command,
        user: Option<Lent>,
        watcher: &Watcher,
        orphanage: &Orphanage,
        reaper: Reaper,
    ) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (child, member) = orphanage.start(command.process_group(0))?;
        let group = Group::of(&child)?;
        let (guard, token) = (watcher.guard(group.0), reaper.0.token());
        let life = Life { child, group, _user: user, member, _guard: guard, _token: token };
        Ok(Self { life: Some(life), reaper })
    }

    /// Feeds it `input` and waits for its end; tells it to end when `stop` says so. Keeps `stdout_max`
    /// and `stderr_max` bytes of what it writes.
    pub(super) async fn run<T>(
        mut self,
        input: Bytes,
        (stdout_max, stderr_max): (usize, usize),
        stop: impl Future<Output = T>,
    ) -> io::Result<Output> {
        let (mut stdout, mut stderr) = (Head::new(stdout_max), Tail::new(stderr_max));
        let Some(Life { child, group, member, .. }) = &mut self.life else {
            return Err(ended_already());
        };
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(feed), Some(out), Some(err)) = streams else { return Err(ended_already()) };
        let feeding = async move {
            let mut feed = feed;
            // A command that does not read its input has its reasons.
            let _ = feed.write_all(&input).await;
        };
        let status = {
            let streams = async { tokio::join!(feeding, stdout.read(out), stderr.read(err)) };
            tokio::pin!(streams, stop);
            let mut rounds = tokio::time::interval(BURY_EVERY);
            let (mut closed, mut told) = (false, false);
            let status = loop {
                tokio::select! {
                    _ = &mut streams, if !closed => closed = true,
                    _ = &mut stop, if !told => {
                        told = true;
                        group.signal(Signal::TERM);
                    }
                    _ = rounds.tick() => member.bury(),
                    status = child.wait() => break status?,
                }
            };
            // What it left running must not outlive it, nor hold its output open.
            group.signal(Signal::KILL);
            member.ended().await;
            if !closed {
                let _ = tokio::time::timeout(OUTPUT_WAIT, streams).await;
            }
            status
        };
        self.life = None;
        Ok(Output { status, stdout, stderr })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut life) = self.life.take() else { return };
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        life.group.signal(Signal::TERM);
        self.reaper.0.spawn(async move {
            let _ = tokio::time::timeout(KILL_GRACE, life.child.wait()).await;
            life.group.signal(Signal::KILL);
            let _ = life.child.wait().await;
            life.member.ended().await;
        });
    }
}

fn ended_already() -> io::Error {
    io::Error::other("the command has ended already")
}

/// A process group.
#[derive(Clone, Copy, Debug)]
struct Group(Pid);

impl Group {
    /// The group that a child was started to lead.
    fn of(child: &Child) -> io::Result<Self> {
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        pid.map(Self).ok_or_else(ended_already)
    }

    /// Tells everybody in it. That nobody is left is fine.
    fn signal(self, signal: Signal) {
        let _ = kill_process_group(self.0, signal);
    }
}
