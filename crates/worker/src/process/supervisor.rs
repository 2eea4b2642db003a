//! The process between a host and a command, one for each: everybody below it belongs to that command. It
//! feeds it, ends it when the host asks for that or dies, and buries what is left before it tells the
//! host how the command ended. Knows nothing of jobs.

use super::enter::{NAME, this_program};
use super::limits::Limits;
use super::line::{self, END, GREETING, Report};
use super::role::{ROLE_VARIABLE, Role};
use super::users::{Lent, lend, tasks_of};
use super::{KILL_GRACE, descendants};
use rustix::process::{Pid, Signal, WaitOptions, geteuid, getuid, kill_process_group, waitpid};
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::ChildStdin;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

/// Runs a command for the host at the other end of stdin; the answer is what code to exit with.
pub(super) fn run(limits: Limits, words: Vec<OsString>) -> i32 {
    // Whoever called `enter` may be inside a runtime already; on another thread nobody is.
    let supervising = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(supervise(limits, words))
    });
    // A host that is gone needs no answer, and one that is there sees that there was none.
    i32::from(!matches!(supervising.join(), Ok(Ok(()))))
}

async fn supervise(limits: Limits, words: Vec<OsString>) -> io::Result<()> {
    let mut host = host()?;
    host.write_u8(GREETING).await?;
    let payload = line::receive_payload(&mut host).await?;
    let report = match Supervisor::start(limits, &words) {
        Ok(Some(supervisor)) => supervisor.see_to_the_end(&mut host, payload).await,
        Ok(None) => Report::NoUser,
        Err(error) => Report::Failed(error.to_string()),
    };
    host.write_all(report.to_string().as_bytes()).await
}

/// The line to the host.
fn host() -> io::Result<UnixStream> {
    let line = std::os::unix::net::UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    line.set_nonblocking(true)?;
    UnixStream::from_std(line)
}

struct Supervisor {
    /// The command itself, which leads a process group; not buried before the group is told.
    leader: Pid,
    /// The command's stdin.
    input: ChildStdin,
    /// Rings when a child has died.
    deaths: Signals,
    /// Whoever tells all processes of a service to end does not mean this one.
    _deaf_to: [Signals; 3],
    /// The user it runs as stays its own.
    _user: Option<Lent>,
}

impl Supervisor {
    /// Starts the command; `None` if there is nobody left to run it as.
    fn start(mut limits: Limits, words: &[OsString]) -> io::Result<Option<Self>> {
        descendants::adopt()?;
        let deaths = signal(SignalKind::child())?;
        let deaf_to = [
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::hangup())?,
        ];
        let mut user = None;
        if let Some(max) = &mut limits.processes {
            if geteuid().is_root() {
                let Some(lent) = lend() else { return Ok(None) };
                user = Some(lent);
            } else {
                // Counted together with what the user has already.
                *max = max.saturating_add(tasks_of(getuid().as_raw()));
            }
        }
        let (leader, input) = spawn(limits, user.as_ref(), words)?;
        Ok(Some(Self { leader, input, deaths, _deaf_to: deaf_to, _user: user }))
    }

    /// Sees the command to its end, and everybody it has started.
    async fn see_to_the_end(mut self, host: &mut UnixStream, payload: Vec<u8>) -> Report {
        let (leader, mut input) = (self.leader, self.input);
        let feeding = async move {
            // A command that does not read its input has its reasons.
            let _ = input.write_all(&payload).await;
        };
        tokio::pin!(feeding);
        let (mut fed, mut host_is_there, mut kill_at) = (false, true, None);
        while !descendants::is_dead(leader) {
            tokio::select! {
                () = &mut feeding, if !fed => fed = true,
                word = host.read_u8(), if host_is_there => match word {
                    Ok(END) => {
                        signal_group(leader, Signal::TERM);
                        kill_at.get_or_insert_with(|| Instant::now() + KILL_GRACE);
                    }
                    _ => {
                        host_is_there = false;
                        signal_group(leader, Signal::KILL);
                    }
                },
                () = sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => {
                    kill_at = None;
                    signal_group(leader, Signal::KILL);
                }
                _ = self.deaths.recv() => descendants::bury_but(Some(leader)),
            }
        }
        // What it left running must not outlive it.
        signal_group(leader, Signal::KILL);
        let report = bury(leader);
        descendants::end_all().await;
        report
    }
}

/// Starts this program once more, to become the command, in a process group of its own.
fn spawn(limits: Limits, user: Option<&Lent>, words: &[OsString]) -> io::Result<(Pid, ChildStdin)> {
    let role = Role::Command { supervisor: std::process::id().cast_signed(), limits };
    let mut command = Command::new(this_program()?);
    command.arg0(NAME).args(words).env(ROLE_VARIABLE, role.to_string());
    command.stdin(Stdio::piped()).process_group(0);
    if let Some(user) = user {
        command.uid(user.uid).gid(user.uid);
    }
    let mut child = command.spawn()?;
    let gone = || io::Error::other("it is gone already");
    let leader = Pid::from_raw(child.id().cast_signed()).ok_or_else(gone)?;
    let input = child.stdin.take().ok_or_else(gone)?;
    Ok((leader, ChildStdin::from_std(input)?))
}

/// Tells everybody in the command's group. That nobody is left is fine.
fn signal_group(leader: Pid, signal: Signal) {
    let _ = kill_process_group(leader, signal);
}

/// How the command ended that is dead.
fn bury(leader: Pid) -> Report {
    let status = match waitpid(Some(leader), WaitOptions::NOHANG) {
        Ok(Some((_, status))) => status,
        Ok(None) => return Report::Failed("the command lives, although it was dead".to_owned()),
        Err(error) => return Report::Failed(format!("it is not known how it ended: {error}")),
    };
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Report::Exit(code),
        (None, signal) => Report::Signal(signal.unwrap_or_default()),
    }
}
