//! A store in a temporary directory, and the command run on it.

use serde_json::Value;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let code = output.status.code().expect("it was not killed");
        Self { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Its stdout, if all went well.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }

    /// Its stderr, if it ended with `code` and has all `parts` in it.
    #[track_caller]
    pub(crate) fn refused(self, code: i32, parts: &[&str]) -> String {
        assert_eq!(self.code, code, "{self:?}");
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} in {self:?}");
        }
        self.stderr
    }
}

/// A store.
pub(crate) struct Store {
    pub(crate) dir: TempDir,
}

impl Store {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// A path beside the store.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn url(&self) -> String {
        format!("file:{}", self.path("store").display())
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(arguments).env("WINDLASS_STORE", self.url()).current_dir(self.dir.path());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::of(self.command(arguments).stdin(Stdio::null()).output().unwrap())
    }

    /// With this on stdin.
    pub(crate) fn run_with(&self, arguments: &[&str], input: &str) -> CommandOutput {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        CommandOutput::of(child.wait_with_output().unwrap())
    }

    /// Its output as JSON.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.push("--json");
        let text = self.run(&arguments).ok();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
    }

    /// Enqueues a job and returns its id.
    #[track_caller]
    pub(crate) fn enqueue(&self, arguments: &[&str]) -> String {
        let mut all = vec!["enqueue"];
        all.extend(arguments);
        self.run(&all).ok().trim().to_owned()
    }

    /// Everything known of a job.
    #[track_caller]
    pub(crate) fn job(&self, id: &str) -> Value {
        self.json(&["jobs", "show", id])
    }

    /// Works until nothing is left.
    #[track_caller]
    pub(crate) fn work(&self, arguments: &[&str]) -> String {
        let mut all = vec!["work", "--until-empty"];
        all.extend(arguments);
        self.run(&all).ok()
    }

    /// A worker in the background.
    pub(crate) fn start_work(&self, arguments: &[&str]) -> Working {
        let mut all = vec!["work"];
        all.extend(arguments);
        let mut command = self.command(&all);
        let log = self.path("work.log");
        let stderr = std::fs::File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        Working { child: Some(command.spawn().unwrap()), log }
    }
}

/// A worker in the background; killed if a test ends before it.
pub(crate) struct Working {
    child: Option<Child>,
    log: PathBuf,
}

impl Working {
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Asks it to end, and waits until it has heard.
    #[track_caller]
    pub(crate) fn ask_to_drain(&self) {
        self.signal(rustix::process::Signal::TERM);
        until("it drains", || std::fs::read_to_string(&self.log).unwrap().contains("draining"));
    }

    /// Asks it to end, and waits for that.
    pub(crate) fn drain(self) -> CommandOutput {
        self.signal(rustix::process::Signal::TERM);
        self.ended()
    }

    pub(crate) fn ended(mut self) -> CommandOutput {
        let mut output = self.child.take().unwrap().wait_with_output().unwrap();
        output.stderr = std::fs::read(&self.log).unwrap();
        CommandOutput::of(output)
    }

    pub(crate) fn kill(mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..PATIENCE.as_millis() / LOOK_EVERY.as_millis() {
        if is_so() {
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    panic!("{what}: not so after {PATIENCE:?}");
}

/// Whether a process runs; zombies do not count.
pub(crate) fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}
