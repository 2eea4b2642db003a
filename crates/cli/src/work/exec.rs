//! A shell command as a handler: the payload on stdin, the job in the environment, the outcome in the
//! exit code.

use super::child::{Output, Reaper, Running};
use super::limits::Limits;
use super::orphans::Orphanage;
use super::users::{Lent, Users, tasks_of};
use super::watcher::Watcher;
use bytes::Bytes;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::Command;
use windlass_core::limits::{ERROR_BYTES_MAX, RESULT_BYTES_MAX};
use windlass_worker::{Ctx, Done, Ended, FromJob as _, Handler, Need, Raw, Stop};

/// The input is bad: no attempt can succeed (`EX_DATAERR`).
const EXIT_FATAL: i32 = 65;
/// Not now (`EX_TEMPFAIL`).
const EXIT_SNOOZE: i32 = 75;
/// What a process gets that has used up its CPU time.
const SIGXCPU: i32 = rustix::process::Signal::XCPU.as_raw();
/// How long a job is put off when there is no user to run it as.
const USER_WAIT: Duration = Duration::from_secs(1);
/// Bytes kept of the end of stderr: it becomes an error, with a few words before it.
const STDERR_BYTES_MAX: usize = ERROR_BYTES_MAX / 2;
/// Lines of stderr that a command which succeeds leaves in its job's log.
const LOG_LINES_MAX: usize = 20;

/// Runs a command for each job.
#[derive(Clone, Debug)]
pub(crate) struct Exec {
    /// What to run, for `sh -c`.
    pub(crate) command: Arc<str>,
    /// What it may use.
    pub(crate) limits: Arc<Limits>,
    /// How long a job waits that was put off.
    pub(crate) snooze: Duration,
    /// Whom it runs as.
    pub(crate) users: Users,
    /// Ends what is left should this process die.
    pub(crate) watcher: Watcher,
    /// Ends who left the command's group.
    pub(crate) orphanage: Orphanage,
    /// Ends what is left otherwise.
    pub(crate) reaper: Reaper,
}

impl Handler<Raw, ()> for Exec {
    async fn call(self, ctx: Ctx) -> Ended {
        let Raw(payload) = Raw::from_job(&ctx)?;
        let bounds = (RESULT_BYTES_MAX, STDERR_BYTES_MAX);
        let running = self.start(&ctx)?;
        let output = running.run(payload, bounds, ctx.cancelled()).await;
        let output = output.map_err(|error| failed(format!("cannot run the command: {error}")))?;
        self.judge(&ctx, output)
    }

    fn needs() -> Vec<Need> {
        Vec::new()
    }
}

impl Exec {
    fn start(&self, ctx: &Ctx) -> Result<Running, Stop> {
        let user = self.user()?;
        let program = super::this_program()
            .map_err(|error| failed(format!("cannot find this program's own file: {error}")))?;
        let mut command = Command::new(program);
        command.arg(crate::commands::SANDBOX_COMMAND);
        command.arg(format!("--parent={}", std::process::id()));
        command.args(self.limits(user.as_ref()).args());
        command.args(user.as_ref().map(|user| format!("--uid={}", user.uid)));
        command.arg("--").arg(&*self.command);
        command.env("WINDLASS_JOB_ID", ctx.id().to_string());
        command.env("WINDLASS_JOB_KIND", ctx.kind());
        command.env("WINDLASS_JOB_QUEUE", ctx.queue());
        command.env("WINDLASS_JOB_ATTEMPT", ctx.attempt().to_string());
        if let Some(trace) = &ctx.header().trace {
            command.env("TRACEPARENT", trace);
        }
        Running::start(command, user, &self.watcher, &self.orphanage, self.reaper.clone())
            .map_err(|error| failed(format!("cannot start the command: {error}")))
    }

    /// A user of its own, if that is what it takes to count its processes.
    fn user(&self) -> Result<Option<Lent>, Stop> {
        if self.limits.processes_max.is_none() || !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        self.users.lend().map(Some).ok_or_else(|| {
            tracing::warn!(
                "every user that can be lent to a command is in use; putting the job off"
            );
            Stop::snooze(USER_WAIT)
        })
    }

    /// The limits as the system counts: a user who has processes already may have so many more.
    fn limits(&self, user: Option<&Lent>) -> Limits {
        let mut limits = (*self.limits).clone();
        if user.is_none()
            && let Some(max) = &mut limits.processes_max
        {
            *max += tasks_of(rustix::process::getuid().as_raw());
        }
        limits
    }

    fn judge(&self, ctx: &Ctx, output: Output) -> Ended {
        let Output { status, stdout, stderr } = output;
        let said = |what: String| match stderr.text() {
            text if text.is_empty() => what,
            text => format!("{what}: {text}"),
        };
        match (status.code(), status.signal()) {
            (Some(0), _) => {
                let text = stderr.text();
                let lines: Vec<_> = text.lines().collect();
                let first = lines.len().saturating_sub(LOG_LINES_MAX);
                lines[first..].iter().for_each(|line| ctx.log(*line));
                if !stdout.is_whole() {
                    ctx.log(format!(
                        "stdout has {} bytes, a result at most {RESULT_BYTES_MAX}: it is not kept",
                        stdout.total
                    ));
                    return Ok(Done::NOTHING);
                }
                Ok(if stdout.kept.is_empty() {
                    Done::NOTHING
                } else {
                    Done::bytes(Bytes::from(stdout.kept))
                })
            }
            (Some(EXIT_FATAL), _) => {
                Err(Stop::fatal(said(format!("exit code {EXIT_FATAL}"))).code("exit_65"))
            }
            (Some(EXIT_SNOOZE), _) => Err(Stop::snooze(self.snooze)),
            (Some(code), _) => {
                Err(failed(said(format!("exit code {code}"))).code(format!("exit_{code}")))
            }
            (None, signal) => {
                let signal = signal.unwrap_or_default();
                let why = if signal == SIGXCPU { " (its CPU time is used up)" } else { "" };
                Err(failed(said(format!("killed by signal {signal}{why}")))
                    .code(format!("signal_{signal}")))
            }
        }
    }
}

fn failed(what: String) -> Stop {
    Stop::retry(what)
}
