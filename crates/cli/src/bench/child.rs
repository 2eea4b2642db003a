//! The process of one measurement: the parent's side and the child's side.

use super::RunSpec;
use super::meter::Sample;
use anyhow::{Context as _, Result, anyhow, ensure};
use std::io::Read as _;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Maximum time of a measurement, in addition to the duration of its workload.
const TIME_MAX: Duration = Duration::from_secs(15 * 60);

/// The signals that interrupt a benchmark.
pub(super) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// Catches the signals, which would otherwise kill this process before it has removed its directories.
    pub(super) fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        let (interrupt, terminate) =
            (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// How a measurement ended.
pub(super) enum Ended {
    /// With a result.
    Measured(Box<Sample>),
    /// The whole benchmark was interrupted.
    Interrupted,
}

/// Runs `spec` in a separate process and returns its result.
pub(super) async fn run(spec: &RunSpec, interrupts: &mut Interrupts) -> Result<Ended> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut child = Command::new(program)
        .arg("bench-run")
        // The specification is sent to stdin, not as an argument: other users can read arguments, and a URL may
        // contain a password. Stdin stays open until the end: when it closes, the child knows that this process
        // has ended.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start a process for the measurement")?;
    let mut input = child.stdin.take().context("its stdin is missing")?;
    let line = serde_json::to_string(spec)? + "\n";
    input.write_all(line.as_bytes()).await.context("cannot send the specification to it")?;
    let time_max = TIME_MAX + Duration::from_millis(spec.workload.length_ms(&spec.profile));
    let ended = tokio::select! {
        // Checked first, because ctrl-c ends the child as well, which is not a failure.
        biased;
        () = interrupts.next() => Ok(Ended::Interrupted),
        answer = answer(&mut child) => answer.map(|sample| Ended::Measured(Box::new(sample))),
        () = tokio::time::sleep(time_max) => Err(anyhow!("it took more than {time_max:?}")),
    };
    // Also waits for its end: it must not write to a directory that is being removed. (Killing fails if it has
    // already ended, which is fine.)
    let _ = child.start_kill();
    child.wait().await.context("cannot wait for its end")?;
    drop(input);
    ended
}

async fn answer(child: &mut Child) -> Result<Sample> {
    let mut answer = String::new();
    let mut stdout = child.stdout.take().context("its stdout is missing")?;
    stdout.read_to_string(&mut answer).await?;
    let status = child.wait().await?;
    ensure!(status.success(), "its process exited with {status}");
    serde_json::from_str(&answer).with_context(|| format!("cannot parse its result {answer:?}"))
}

/// On the child's side: reads the specification from stdin.
pub(crate) fn received_spec() -> Result<RunSpec> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    serde_json::from_str(&line).context(
        "cannot read the specification of the run; this command is for `windlass bench` only",
    )
}

/// On the child's side: ends this process as soon as its parent has ended.
pub(crate) fn end_with_parent() {
    // A stopped process cannot notice this, but the kernel can. (If this call fails, the thread below is enough
    // in most cases.)
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    std::thread::spawn(|| {
        // No further input is ever sent: the read returns when the parent closes the pipe.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(1);
    });
}
