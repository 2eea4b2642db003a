//! The host's side of a command: a supervisor on the other end of a socket, which gets input, returns output
//! and can be asked to end. Independent of jobs.

use super::KILL_GRACE;
use super::line::{self, END, GREETING, Report};
use super::pipes::{Head, Tail};
use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// How long a re-executed program may take to reach `enter`, even on a busy machine.
const ENTER_WAIT: Duration = Duration::from_secs(30);
/// How long a supervisor that has finished may take to exit.
const EXIT_WAIT: Duration = Duration::from_secs(1);
/// How long to wait for the output of a command that has ended: a process that could not be killed may keep
/// the pipe open forever.
const OUTPUT_WAIT: Duration = Duration::from_secs(1);
/// How long the commands of a stopping worker may take to be terminated, killed and reaped.
const FINISH_MAX: Duration = KILL_GRACE.saturating_add(Duration::from_secs(3));

/// The commands of a kind, including those whose handler was dropped. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commands(TaskTracker);

impl Commands {
    /// Waits until all of them have ended, at most [`FINISH_MAX`].
    pub(crate) async fn finish(self) {
        self.0.close();
        if timeout(FINISH_MAX, self.0.wait()).await.is_err() {
            tracing::warn!("commands are left after {FINISH_MAX:?}; they end with this process");
        }
    }
}

/// The output of a command.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) end: Result<Report, Lost>,
    pub(super) stdout: Head,
    pub(super) stderr: Tail,
}

/// Why the end of a command is unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    #[error(
        "this program, started again to run the command, does not reach `process::enter()` ({}): \
         make that call the first line of main, before arguments are read",
        ended(.0)
    )]
    NotEntered(Option<ExitStatus>),
    #[error("the supervisor of the command exited without a report ({})", ended(.0))]
    Supervisor(Option<ExitStatus>),
}

fn ended(status: &Option<ExitStatus>) -> String {
    status.map_or_else(|| "it did not exit and was killed".to_owned(), |status| status.to_string())
}

/// A running command. Dropping it kills the command with all its descendants.
#[derive(Debug)]
pub(super) struct Supervised {
    /// `None` after the command has ended.
    life: Option<Life>,
    commands: Commands,
}

/// The resources of a running command.
#[derive(Debug)]
struct Life {
    supervisor: Child,
    /// The connection to the supervisor. Closing it makes the supervisor kill everything at once.
    line: UnixStream,
    /// Whether the payload was sent; the command starts only afterwards.
    fed: bool,
    /// Makes a stopping worker wait for this command.
    _token: TaskTrackerToken,
}

impl Supervised {
    /// Starts a supervisor.
    pub(super) fn start(mut supervisor: Command, commands: Commands) -> io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let line = UnixStream::from_std(ours)?;
        supervisor.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Own process group: ctrl-c drains the host and must not reach the command.
        let supervisor = supervisor.process_group(0).spawn()?;
        let life = Life { supervisor, line, fed: false, _token: commands.0.token() };
        Ok(Self { life: Some(life), commands })
    }

    /// Writes `input` to the command and waits for its end; asks it to end when `stop` resolves. Keeps at
    /// most `stdout_max` and `stderr_max` bytes of its output.
    pub(super) async fn run<T>(
        mut self,
        input: &[u8],
        (stdout_max, stderr_max): (usize, usize),
        stop: impl Future<Output = T>,
    ) -> Output {
        let (mut stdout, mut stderr) = (Head::new(stdout_max), Tail::new(stderr_max));
        let Some(life) = &mut self.life else {
            return Output { end: Err(Lost::Supervisor(None)), stdout, stderr };
        };
        let (out, err) = (life.supervisor.stdout.take(), life.supervisor.stderr.take());
        let end = {
            let reading = async { tokio::join!(stdout.read(out), stderr.read(err)) };
            let talking = life.talk(input, stop);
            tokio::pin!(reading, talking);
            let mut closed = false;
            let end = loop {
                tokio::select! {
                    _ = &mut reading, if !closed => closed = true,
                    end = &mut talking => break end,
                }
            };
            if !closed {
                let _ = timeout(OUTPUT_WAIT, reading).await;
            }
            end
        };
        self.life = None;
        Output { end, stdout, stderr }
    }
}

impl Life {
    async fn talk<T>(
        &mut self,
        input: &[u8],
        stop: impl Future<Output = T>,
    ) -> Result<Report, Lost> {
        if !matches!(timeout(ENTER_WAIT, self.line.read_u8()).await, Ok(Ok(GREETING))) {
            return Err(Lost::NotEntered(self.end_at_once().await));
        }
        if line::send_payload(&mut self.line, input).await.is_err() {
            return Err(Lost::Supervisor(self.end_at_once().await));
        }
        self.fed = true;
        let report = self.report(stop).await;
        let exited = self.end_at_once().await;
        report.ok_or(Lost::Supervisor(exited))
    }

    /// Waits for the supervisor's report; requests the end of the command when `stop` resolves.
    async fn report<T>(&mut self, stop: impl Future<Output = T>) -> Option<Report> {
        let (mut from, mut to) = self.line.split();
        let reporting = line::receive_report(&mut from);
        tokio::pin!(reporting, stop);
        let mut reported = false;
        loop {
            tokio::select! {
                report = &mut reporting => return report,
                _ = &mut stop, if !reported => {
                    reported = true;
                    // A write error means that the supervisor has already ended.
                    let _ = to.write_u8(END).await;
                }
            }
        }
    }

    /// Waits for a finished supervisor to exit; returns its exit status if it exited by itself.
    async fn end_at_once(&mut self) -> Option<ExitStatus> {
        if let Ok(Ok(status)) = timeout(EXIT_WAIT, self.supervisor.wait()).await {
            return Some(status);
        }
        let _ = self.supervisor.kill().await;
        None
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        let Some(mut life) = self.life.take() else { return };
        if !life.fed {
            // Perhaps it never reached `enter` and runs something else.
            let _ = life.supervisor.start_kill();
        }
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        self.commands.0.spawn(async move {
            let _ = life.line.write_u8(END).await;
            let _ = life.supervisor.wait().await;
        });
    }
}
