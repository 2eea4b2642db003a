//! Child processes: this test binary started again, in a role, with messages to its parent.

use crate::{load, permission, reopen, torn};
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Environment variable with the role of a child.
const ROLE: &str = "WINDLASS_FAULTS_ROLE";
/// Prefix of a child's messages. The test harness prints to the same pipe.
const MARK: char = '@';

/// The work of a child, until it is killed or done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Runs producers and workers on a directory.
    Load(load::Plan),
    /// Enqueues jobs one after the other and reports each acknowledgement.
    Enqueue { dir: PathBuf, jobs: u32 },
    /// Claims jobs, then waits to be killed.
    Claim { dir: PathBuf },
    /// Announces that it opens a directory, then reports the result.
    Open { dir: PathBuf },
}

/// Not a test: runs the role, if this process was started with one.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match serde_json::from_str(&role).expect("a role") {
        Role::Load(plan) => load::run(plan),
        Role::Enqueue { dir, jobs } => torn::enqueue(&dir, jobs),
        Role::Claim { dir } => reopen::claim_all(&dir),
        Role::Open { dir } => permission::open(&dir),
    }
}

/// Sends a message to the parent.
pub(crate) fn say(words: &str) {
    println!("\n{MARK}{words}");
}

/// Waits to be killed; returns if the parent has ended.
pub(crate) fn stay() {
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// A running child process. Killed on drop.
pub(crate) struct Running {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    /// Starts this binary in `role`.
    pub(crate) fn start(role: &Role) -> Self {
        Self::of(command(&std::env::current_exe().expect("this binary"), role)).expect("a child")
    }

    /// Starts a command made by [`command`].
    pub(crate) fn of(mut command: Command) -> std::io::Result<Self> {
        let mut process = command.spawn()?;
        let stdout = process.stdout.take().expect("its output is piped");
        Ok(Self { process, lines: BufReader::new(stdout).lines() })
    }

    /// Returns the next message; `None` when the child has ended.
    pub(crate) fn hear(&mut self) -> Option<String> {
        let lines = self.lines.by_ref().map_while(Result::ok);
        lines.filter_map(|line| line.strip_prefix(MARK).map(str::to_owned)).next()
    }

    /// Process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends SIGKILL; returns the messages that were not read yet.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.end();
        std::iter::from_fn(|| self.hear()).collect()
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// The command that starts `binary`, a copy of this one, in `role`.
pub(crate) fn command(binary: &Path, role: &Role) -> Command {
    let mut command = Command::new(binary);
    command
        .args(["--exact", "child::child", "--nocapture", "--test-threads=1"])
        .env(ROLE, serde_json::to_string(role).expect("a role"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}
