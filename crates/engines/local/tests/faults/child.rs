//! Other processes: this very test binary started again, with a role to play and a parent to tell.

use crate::{load, permission, reopen, torn};
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Where a child finds its role.
const ROLE: &str = "WINDLASS_FAULTS_ROLE";
/// What a child's words to its parent begin with: the test harness talks on the same channel.
const MARK: char = '@';

/// What a child is to do, until it is killed or done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Producers and workers on a directory.
    Load(load::Plan),
    /// Jobs enqueued one after the other, each told when it is acknowledged.
    Enqueue { dir: PathBuf, jobs: u32 },
    /// Jobs claimed, and then nothing.
    Claim { dir: PathBuf },
    /// A directory opened, announced before, and what came of it.
    Open { dir: PathBuf },
}

/// Not a test: plays the role, if this process was started with one.
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

/// Tells the parent.
pub(crate) fn say(words: &str) {
    println!("\n{MARK}{words}");
}

/// Says nothing more, and stays until it is killed; not for ever, if the parent is gone.
pub(crate) fn stay() {
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// A child that runs. Killed when dropped.
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

    /// The next thing it says; `None` when it has ended.
    pub(crate) fn hear(&mut self) -> Option<String> {
        let lines = self.lines.by_ref().map_while(Result::ok);
        lines.filter_map(|line| line.strip_prefix(MARK).map(str::to_owned)).next()
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// SIGKILL, and what it had said that was not heard yet.
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

/// The command that starts `binary`, which is this one, in `role`.
pub(crate) fn command(binary: &Path, role: &Role) -> Command {
    let mut command = Command::new(binary);
    command
        .args(["--exact", "child::child", "--nocapture", "--test-threads=1"])
        .env(ROLE, serde_json::to_string(role).expect("a role"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}
