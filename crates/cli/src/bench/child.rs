//! The process of one measurement, from both sides.

use super::RunSpec;
use super::meter::Sample;
use anyhow::{Context as _, Result, anyhow, ensure};
use std::io::Read as _;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// No measurement takes so long, beside the time that its workload is meant to take.
const TIME_MAX: Duration = Duration::from_secs(15 * 60);

/// The signals that end a benchmark before its time.
pub(super) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// From now on they no longer kill this process: it has directories to remove.
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
    /// With figures.
    Measured(Box<Sample>),
    /// Because somebody wants the whole benchmark to end.
    Interrupted,
}

/// Runs `spec` in a process of its own and returns what it measured.
pub(super) async fn run(spec: &RunSpec, interrupts: &mut Interrupts) -> Result<Ended> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut child = Command::new(program)
        .arg("bench-run")
        // Says what to measure, and not in an argument: everybody can read those, and a URL may hold a
        // password. Held open until the end: when it closes, the child knows that this process is gone.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start a process for the measurement")?;
    let mut input = child.stdin.take().context("its input is not there")?;
    let line = serde_json::to_string(spec)? + "\n";
    input.write_all(line.as_bytes()).await.context("cannot tell it what to measure")?;
    let time_max = TIME_MAX + Duration::from_millis(spec.workload.length_ms(&spec.profile));
    let ended = tokio::select! {
        // First, because the same key on the keyboard ends the child, and that is no failure.
        biased;
        () = interrupts.next() => Ok(Ended::Interrupted),
        answer = answer(&mut child) => answer.map(|sample| Ended::Measured(Box::new(sample))),
        () = tokio::time::sleep(time_max) => Err(anyhow!("it took more than {time_max:?}")),
    };
    // Waits for its end too: nothing must write to a directory that is being removed.
    // (Killing fails if it has ended already, which is fine.)
    let _ = child.start_kill();
    child.wait().await.context("cannot wait for its end")?;
    drop(input);
    ended
}

async fn answer(child: &mut Child) -> Result<Sample> {
    let mut answer = String::new();
    let mut stdout = child.stdout.take().context("its output is not there")?;
    stdout.read_to_string(&mut answer).await?;
    let status = child.wait().await?;
    ensure!(status.success(), "its process ended with {status}");
    serde_json::from_str(&answer).with_context(|| format!("cannot read its answer {answer:?}"))
}

/// On the child's side: what to measure.
pub(crate) fn told() -> Result<RunSpec> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    serde_json::from_str(&line).context(
        "cannot read the specification of the run; this command is for `windlass bench` alone",
    )
}

/// On the child's side: ends this process as soon as the one that started it is gone.
pub(crate) fn end_with_parent() {
    // A process that was stopped by a signal cannot notice; the system can. (If it cannot, the rest does.)
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    std::thread::spawn(|| {
        // Nothing more is ever sent: reading ends when the other side is closed.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(1);
    });
}
