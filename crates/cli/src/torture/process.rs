//! A client process as seen by its parent.

use super::CLIENT_COMMAND;
use super::client::{Counts, Message, Order, Spec};
use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use windlass_core::sync::lock;

/// Timeout for sending an order: a stopped process does not read its input.
const ORDER_MAX: Duration = Duration::from_secs(1);

/// A running process. Killed when dropped; it also ends when this process does.
pub(super) struct Running {
    child: Child,
    input: ChildStdin,
    latest: Arc<Latest>,
}

/// The latest messages of a process.
#[derive(Default)]
struct Latest {
    open: AtomicBool,
    counts: Mutex<Counts>,
}

/// Unexpected events of all processes of a run.
#[derive(Clone, Default)]
pub(super) struct Unexpected(Arc<Mutex<Vec<String>>>);

impl Unexpected {
    pub(super) fn add(&self, what: String) {
        lock(&self.0).push(what);
    }

    pub(super) fn all(&self) -> Vec<String> {
        lock(&self.0).clone()
    }
}

impl Running {
    /// Starts a process and sends its specification. Call it from a thread that outlives the process: the
    /// kernel treats the end of that thread as the end of the parent.
    pub(super) async fn start(spec: &Spec, unexpected: Unexpected) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let log = spec.evidence.join(format!("{}.log", spec.name));
        let log = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut child = Command::new(program)
            .arg(CLIENT_COMMAND)
            // Handlers panic on purpose; their backtraces would only fill the log.
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            // A separate process group, so that ctrl-c reaches only the parent.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a client")?;
        let mut input = child.stdin.take().context("the stdin of a client is missing")?;
        let output = child.stdout.take().context("the stdout of a client is missing")?;
        let latest = Arc::<Latest>::default();
        tokio::spawn(listen(output, latest.clone(), unexpected, spec.name.clone()));
        let line = serde_json::to_string(spec)? + "\n";
        input
            .write_all(line.as_bytes())
            .await
            .context("cannot send the specification to a client")?;
        Ok(Self { child, input, latest })
    }

    /// Whether it has opened its store.
    pub(super) fn is_open(&self) -> bool {
        self.latest.open.load(Ordering::Relaxed)
    }

    /// Its latest counts.
    pub(super) fn counts(&self) -> Counts {
        *lock(&self.latest.counts)
    }

    /// Its exit status, if it has ended.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("cannot wait for a client")
    }

    /// SIGSTOP or SIGCONT.
    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        signal_process(self.child.id(), signal)
    }

    /// Sends an order. Errors are ignored: an ended process is noticed elsewhere.
    pub(super) async fn order(&mut self, order: Order) -> Result<()> {
        let line = serde_json::to_string(&order)? + "\n";
        let _ = tokio::time::timeout(ORDER_MAX, self.input.write_all(line.as_bytes())).await;
        Ok(())
    }

    /// Sends SIGKILL and waits for the end of the process; returns its counts.
    pub(super) async fn kill(mut self) -> Result<Counts> {
        self.child.kill().await.context("cannot kill a client")?;
        Ok(self.counts())
    }
}

/// Sends a signal to a child process that has not been waited for yet.
pub(super) fn signal_process(pid: Option<u32>, signal: Signal) -> Result<()> {
    let pid = pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    let pid = pid.context("a process ended by itself")?;
    kill_process(pid, signal).with_context(|| format!("cannot send {signal:?} to a process"))
}

async fn listen(output: ChildStdout, latest: Arc<Latest>, unexpected: Unexpected, name: String) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(Message::Open) => latest.open.store(true, Ordering::Relaxed),
            Ok(Message::Counts(counts)) => {
                *lock(&latest.counts) = counts;
            }
            Ok(Message::Bad(what)) => unexpected.add(format!("{name}: {what}")),
            // An incomplete line of a killed process.
            Err(_) => {}
        }
    }
}
