//! Starts a server for `bench` and `torture`: a separate process that serves a directory on loopback.

use crate::connect::Url;
use anyhow::{Context as _, Result};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// Name of the hidden command that runs the server.
pub(crate) const SERVE_COMMAND: &str = "bench-serve";
/// A depth limit that no workload reaches.
const NO_DEPTH: &str = "1000000000";
/// Maximum time until the server listens.
const START_MAX: Duration = Duration::from_secs(30);
/// The text before the URL in the server's output.
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

    /// Serves the store in `dir` with additional options of `serve`; its log goes to `log`.
    pub(crate) async fn start_with(dir: &Path, options: &[String], log: Stdio) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut process = Command::new(program)
            .args([SERVE_COMMAND, "--listen", "127.0.0.1:0", "--store"])
            .arg(Url::File(dir.to_owned()).to_string())
            // Disables the depth limits: the benchmark measures deep queues.
            .args(["--soft-depth", NO_DEPTH, "--hard-depth", NO_DEPTH])
            .args(options)
            // Kept open until the end: when it closes, the server knows that this process has ended.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            // A separate process group, so that ctrl-c reaches only the parent, which then stops the server.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a server")?;
        let output = process.stdout.take().context("the stdout of the server is missing")?;
        let url = tokio::time::timeout(START_MAX, address(output)).await;
        let url =
            url.with_context(|| format!("the server did not start within {START_MAX:?}"))??;
        Ok(Self { process, url })
    }

    /// Its URL.
    pub(crate) fn url(&self) -> Url {
        self.url.clone()
    }

    /// Its pid.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// Kills it and waits for its end: it must not write to a directory that is being removed.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.process.kill().await.context("cannot end the server")
    }
}

/// Reads its output up to the URL.
async fn address(output: impl tokio::io::AsyncRead + Send + Unpin + 'static) -> Result<Url> {
    let mut lines = BufReader::new(output).lines();
    while let Some(line) = lines.next_line().await? {
        if let Some(url) = line.strip_prefix(LISTENING) {
            let url = url.parse()?;
            // Keeps reading, because a closed pipe would kill the server.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Ok(url);
        }
    }
    anyhow::bail!("the server exited before it listened")
}
