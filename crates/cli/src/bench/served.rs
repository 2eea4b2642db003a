//! A server of our own, for `bench` and `torture`: a process beside it, over a directory, on loopback.

use crate::connect::Url;
use anyhow::{Context as _, Result};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// The hidden command under which this program serves for itself.
pub(crate) const SERVE_COMMAND: &str = "bench-serve";
/// Jobs that no workload comes near.
const NO_DEPTH: &str = "1000000000";
/// How long a server may take to be there.
const START_MAX: Duration = Duration::from_secs(30);
/// What it says before its URL.
const LISTENING: &str = "listening on ";

/// A running server. Killed when dropped; it also ends when this process does.
pub(crate) struct Served {
    process: Child,
    url: Url,
}

impl Served {
    /// Serves a fresh store in `dir`.
    pub(super) async fn start(dir: &Path) -> Result<Self> {
        Self::start_with(dir, &[], Stdio::inherit()).await
    }

    /// Serves the store in `dir` with more options of `serve`; what it logs goes there.
    pub(crate) async fn start_with(dir: &Path, options: &[String], log: Stdio) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut process = Command::new(program)
            .args([SERVE_COMMAND, "--listen", "127.0.0.1:0", "--store"])
            .arg(Url::File(dir.to_owned()).to_string())
            // What is measured is how deep queues behave, not how they are kept from getting there.
            .args(["--soft-depth", NO_DEPTH, "--hard-depth", NO_DEPTH])
            .args(options)
            // Held open until the end: when it closes, the server knows that this process is gone.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            // A key on the keyboard is for whoever started it, who decides what becomes of the server.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a server")?;
        let output = process.stdout.take().context("the server's output is not there")?;
        let url = tokio::time::timeout(START_MAX, address(output)).await;
        let url = url.with_context(|| format!("the server did not start in {START_MAX:?}"))??;
        Ok(Self { process, url })
    }

    /// Where it is.
    pub(crate) fn url(&self) -> Url {
        self.url.clone()
    }

    /// Its process.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// Ends it, and waits: nothing must write to a directory that is being removed.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.process.kill().await.context("cannot end the server")
    }
}

/// Reads on until it says where it listens.
async fn address(output: impl tokio::io::AsyncRead + Send + Unpin + 'static) -> Result<Url> {
    let mut lines = BufReader::new(output).lines();
    while let Some(line) = lines.next_line().await? {
        if let Some(url) = line.strip_prefix(LISTENING) {
            let url = url.parse()?;
            // What it says later needs a reader, or it would be stopped by a broken pipe.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Ok(url);
        }
    }
    anyhow::bail!("the server ended before it listened")
}
