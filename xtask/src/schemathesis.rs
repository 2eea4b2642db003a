//! `cargo xtask schemathesis`: tests a server against its own OpenAPI document. Schemathesis reads the
//! document, generates valid and invalid requests, and compares the responses with it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::process;

/// Pinned; raise it deliberately: another version may find other problems.
const VERSION: &str = "4.32.5";
/// Its configuration.
const CONFIG: &str = "xtask/schemathesis.toml";
/// Additional checks, and hooks that shorten waits.
const HOOKS: &str = "xtask/schemathesis_hooks.py";
/// Timeout of a request; the consistency check of the store takes longest.
const REQUEST_SECONDS_MAX: &str = "30";
/// Default number of generated requests per operation.
const EXAMPLES: u32 = 50;
/// Default time limit in seconds.
const SECONDS: u32 = 600;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of generated requests per operation
    #[arg(long, default_value_t = EXAMPLES)]
    examples: u32,
    /// Time in seconds after which no more requests are generated
    #[arg(long, default_value_t = SECONDS)]
    seconds: u32,
    /// Seed of an earlier run, to repeat it [default: random]
    #[arg(long)]
    seed: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self { examples: EXAMPLES, seconds: SECONDS, seed: None }
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let target = process::target()?;
    let tool = installed(&target.join(format!("schemathesis-{VERSION}")))?;
    process::stream(&mut process::cargo_locked(&["build", "--package", "windlass-cli"])?)?;
    let place = target.join("schemathesis");
    let store = place.join("store");
    if store.exists() {
        fs::remove_dir_all(&store).context("cannot remove the store of an earlier run")?;
    }
    fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
    let server = Server::start(&target.join("debug/windlass"), &store)?;
    let mut test = Command::new(tool);
    test.current_dir(&place).arg("--config-file").arg(process::root()?.join(CONFIG));
    test.env("SCHEMATHESIS_HOOKS", process::root()?.join(HOOKS));
    test.arg("run").arg(format!("{}/openapi.json", server.url));
    test.arg("--continue-on-failure");
    test.args(["--request-timeout", REQUEST_SECONDS_MAX]);
    test.args(["--max-examples", &options.examples.to_string()]);
    test.args(["--max-time", &options.seconds.to_string()]);
    if let Some(seed) = options.seed {
        test.args(["--seed", &seed.to_string()]);
    }
    process::stream(&mut test)
}

/// The tool in a separate Python environment, installed on first use.
fn installed(environment: &Path) -> Result<PathBuf> {
    let tool = environment.join("bin/schemathesis");
    if !tool.exists() {
        process::stream(Command::new("python3").args(["-m", "venv"]).arg(environment))?;
        let mut install = Command::new(environment.join("bin/pip"));
        install.args(["install", "--quiet", &format!("schemathesis=={VERSION}")]);
        process::stream(&mut install).context("cannot install schemathesis from PyPI")?;
    }
    Ok(tool)
}

/// A server with its own store; killed on drop.
struct Server {
    child: Child,
    url: String,
    /// Kept open: a closed pipe would be an error for the server's output.
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start(program: &Path, store: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        command.arg("serve").arg("--store").arg(format!("file:{}", store.display()));
        command.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start `windlass serve`")?;
        let output = child.stdout.take().context("`windlass serve` has no output")?;
        let mut server = Self { child, url: String::new(), output: BufReader::new(output) };
        let mut line = String::new();
        while server.url.is_empty() {
            line.clear();
            let read = server.output.read_line(&mut line)?;
            ensure!(read > 0, "`windlass serve` exited before it listened");
            let said = line.trim().strip_prefix("listening on ");
            server.url = said.unwrap_or_default().to_owned();
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Killed, not stopped: its store is not needed any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
