//! The process between a host and a command, one per command: all its descendants belong to that command. It
//! writes the command's stdin, ends the command when the host asks for it or dies, and kills and reaps all
//! descendants before it reports the end of the command to the host. Independent of jobs.

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

/// Runs a command for the host connected to stdin; returns the exit code.
pub(super) fn run(limits: Limits, words: Vec<OsString>) -> i32 {
    // `enter` may have been called inside a Tokio runtime; a new thread is outside of it.
    let supervising = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(supervise(limits, words))
    });
    // If the host is gone it needs no report; if it is not, it notices that there was none.
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

/// The connection to the host.
fn host() -> io::Result<UnixStream> {
    let line = std::os::unix::net::UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    line.set_nonblocking(true)?;
    UnixStream::from_std(line)
}

struct Supervisor {
    /// The command itself, leader of its process group. Reaped only after the group was signalled.
    leader: Pid,
    /// The command's stdin.
    input: ChildStdin,
    /// Notified when a child has died.
    deaths: Signals,
    /// Signals sent to all processes of a service are ignored here: the host decides when to end the command.
    _deaf_to: [Signals; 3],
    /// Reserves the user that the command runs as.
    _user: Option<Lent>,
}

impl Supervisor {
    /// Starts the command; `None` if no user is free to run it as.
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
                // Added to the number of processes that the user already has.
                *max = max.saturating_add(tasks_of(getuid().as_raw()));
            }
        }
        let (leader, input) = spawn(limits, user.as_ref(), words)?;
        Ok(Some(Self { leader, input, deaths, _deaf_to: deaf_to, _user: user }))
    }

    /// Runs the command to its end, and kills and reaps all its descendants.
    async fn see_to_the_end(mut self, host: &mut UnixStream, payload: Vec<u8>) -> Report {
        let (leader, mut input) = (self.leader, self.input);
        let feeding = async move {
            // A command need not read its input.
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
        // Processes that it left running must not outlive it.
        signal_group(leader, Signal::KILL);
        let report = bury(leader);
        descendants::end_all().await;
        report
    }
}

/// Executes this program once more, to become the command, in its own process group.
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

/// Sends a signal to the command's process group. An empty group is not an error.
fn signal_group(leader: Pid, signal: Signal) {
    let _ = kill_process_group(leader, signal);
}

/// Reaps the dead command and reports how it ended.
fn bury(leader: Pid) -> Report {
    let status = match waitpid(Some(leader), WaitOptions::NOHANG) {
        Ok(Some((_, status))) => status,
        Ok(None) => {
            return Report::Failed("the command is running, although it had ended".to_owned());
        }
        Err(error) => return Report::Failed(format!("cannot read its exit status: {error}")),
    };
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Report::Exit(code),
        (None, signal) => Report::Signal(signal.unwrap_or_default()),
    }
}
