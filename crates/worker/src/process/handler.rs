//! A command as a handler: payload on stdin, job in the environment, outcome from the exit code. Independent
//! of process handling.

use super::environment::TRACE_VARIABLE;
use super::line::Report;
use super::pipes::Tail;
use super::supervised::{Commands, Output, Supervised};
use super::{EXIT_FATAL, EXIT_SNOOZE, Process, USER_WAIT};
use crate::ctx::Ctx;
use crate::extract::{FromJob as _, Need, Raw};
use crate::handler::Handler;
use crate::stop::{Done, Ended, Stop};
use bytes::Bytes;
use std::sync::Arc;
use windlass_core::limits::{ERROR_BYTES_MAX, RESULT_BYTES_MAX};

/// The signal for a process that has used up its CPU time.
const SIGXCPU: i32 = rustix::process::Signal::XCPU.as_raw();
/// The signal for a process that exceeds the maximum file size.
const SIGXFSZ: i32 = rustix::process::Signal::XFSZ.as_raw();
/// Maximum number of bytes kept of the end of stderr, which becomes the error message after a short prefix.
const STDERR_BYTES_MAX: usize = ERROR_BYTES_MAX / 2;
/// Maximum number of stderr lines that a successful command adds to its job's log.
const LOG_LINES_MAX: usize = 20;

/// Runs a command for each job.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    process: Arc<Process>,
    commands: Commands,
}

impl Run {
    pub(crate) fn new(process: Process, commands: Commands) -> Self {
        Self { process: Arc::new(process), commands }
    }

    fn start(&self, ctx: &Ctx) -> Result<Supervised, Stop> {
        let (id, attempt) = (ctx.id().to_string(), ctx.attempt().to_string());
        let job = [
            ("WINDLASS_JOB_ID", id.as_str()),
            ("WINDLASS_JOB_KIND", ctx.kind()),
            ("WINDLASS_JOB_QUEUE", ctx.queue()),
            ("WINDLASS_JOB_ATTEMPT", &attempt),
        ];
        let trace = ctx.trace();
        let trace = trace.as_deref().map(|trace| (TRACE_VARIABLE, trace));
        let supervisor = self.process.supervisor(job.into_iter().chain(trace));
        let started = supervisor.and_then(|it| Supervised::start(it, self.commands.clone()));
        let place = self.process.dir.as_ref().map(|dir| format!(" in {}", dir.display()));
        let place = place.unwrap_or_default();
        started.map_err(|error| Stop::retry(format!("cannot start the command{place}: {error}")))
    }

    fn judge(&self, ctx: &Ctx, output: Output) -> Ended {
        let Output { end, stdout, stderr } = output;
        let report = end.map_err(|lost| Stop::retry(said(&lost.to_string(), &stderr)))?;
        Err(match report {
            Report::Exit(0) => {
                log_the_end_of(&stderr, ctx);
                if stdout.is_whole() {
                    return Ok(result(stdout.kept));
                }
                ctx.log(format!(
                    "stdout has {} bytes, a result at most {RESULT_BYTES_MAX}: it is not kept",
                    stdout.total
                ));
                return Ok(Done::NOTHING);
            }
            Report::Exit(EXIT_SNOOZE) => Stop::snooze(self.process.snooze),
            Report::Exit(code) => {
                let error = said(&format!("exit code {code}"), &stderr);
                let stop = if code == EXIT_FATAL { Stop::fatal } else { Stop::retry };
                stop(error).code(format!("exit_{code}"))
            }
            Report::Signal(signal) => {
                let why = match signal {
                    SIGXCPU => " (its CPU time is used up)",
                    SIGXFSZ => " (its file has grown too large)",
                    _ => "",
                };
                let error = said(&format!("killed by signal {signal}{why}"), &stderr);
                Stop::retry(error).code(format!("signal_{signal}"))
            }
            Report::NoUser => {
                tracing::warn!("no free user id for a command; snoozing the job");
                Stop::snooze(USER_WAIT)
            }
            Report::Failed(why) => Stop::retry(format!("cannot start the command: {why}")),
        })
    }
}

impl Handler<Raw, ()> for Run {
    type Output = Bytes;

    async fn call(self, ctx: Ctx) -> Ended {
        let Raw(payload) = Raw::from_job(&ctx)?;
        let bounds = (RESULT_BYTES_MAX, STDERR_BYTES_MAX);
        let output = self.start(&ctx)?.run(&payload, bounds, ctx.cancelled()).await;
        self.judge(&ctx, output)
    }

    fn needs() -> Vec<Need> {
        Vec::new()
    }
}

/// An error message: what happened, followed by the command's stderr.
fn said(what: &str, stderr: &Tail) -> String {
    match stderr.text() {
        text if text.is_empty() => what.to_owned(),
        text => format!("{what}: {text}"),
    }
}

fn log_the_end_of(stderr: &Tail, ctx: &Ctx) {
    let text = stderr.text();
    let lines: Vec<_> = text.lines().collect();
    let first = lines.len().saturating_sub(LOG_LINES_MAX);
    lines[first..].iter().for_each(|line| ctx.log(*line));
}

fn result(stdout: Vec<u8>) -> Done {
    if stdout.is_empty() { Done::NOTHING } else { Done::bytes(Bytes::from(stdout)) }
}
