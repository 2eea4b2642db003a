//! Other processes: this very test binary started again, with a part to play on the same database.

use crate::completions;
use crate::journal::Lines;
use crate::load::Clients;
use crate::services;
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use windlass_kit::history::LoadCounts;
use windlass_postgres::{Options, PostgresEngine};

/// Where a child finds its part.
const PART: &str = "WINDLASS_FAULTS_PART";
/// Prefix of messages from a child to its parent: the test harness writes to the same channel.
const MARK: char = '@';
/// Interval at which a child reports its progress.
const TELL_EVERY: Duration = Duration::from_millis(20);

/// The task of a child until it is killed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Part {
    /// Work on jobs, with all that is seen written down.
    Work { url: String, journal: PathBuf, client: u32, seed: u64, ttl_ms: u64 },
    /// Host the services and nothing else.
    Serve(services::Plan),
    /// Complete jobs in transactions of the handler's own.
    Complete(completions::Plan),
}

/// Not a test: plays its part, if this process was started with one.
#[test]
fn child() {
    let Ok(part) = std::env::var(PART) else { return };
    let part: Part = serde_json::from_str(&part).expect("a part");
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime");
    match part {
        Part::Serve(plan) => runtime.spawn(services::serve(plan)),
        Part::Complete(plan) => runtime.spawn(completions::work(plan)),
        Part::Work { url, journal, client, seed, ttl_ms } => {
            runtime.spawn(work(url, journal, client, seed, Duration::from_millis(ttl_ms)))
        }
    };
    // Until it is killed; and not for ever, if the parent is gone.
    let _ = std::io::stdin().read_line(&mut String::new());
    std::process::exit(0);
}

async fn work(url: String, journal: PathBuf, first: u32, seed: u64, ttl: Duration) {
    let engine = Arc::new(PostgresEngine::connect(Options::new(url)).await.expect("connects"));
    let (journal, counts) = (Arc::new(Lines::create(&journal)), Arc::<LoadCounts>::default());
    let clients = Clients { engine, journal, counts: counts.clone(), first, seed };
    let _worker = clients.work(0, ttl);
    let mut reported = 0;
    loop {
        tokio::time::sleep(TELL_EVERY).await;
        let done = counts.completed.load(Ordering::Relaxed);
        if done > reported {
            println!("\n{MARK}{}", done - reported);
            reported = done;
        }
    }
}

/// A process of its own. Killed when dropped.
pub(crate) struct Running {
    process: Child,
}

impl Running {
    /// Starts one; what it completes is counted here.
    pub(crate) fn start(part: &Part, counts: Arc<LoadCounts>) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command
            .args(["--exact", "child::child", "--nocapture", "--test-threads=1"])
            .env(PART, serde_json::to_string(part).expect("a part"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.spawn().expect("a child");
        let output = process.stdout.take().expect("its output is piped");
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            let reported = lines.filter_map(|line| line.strip_prefix(MARK)?.parse::<u64>().ok());
            reported.for_each(|done| {
                counts.completed.fetch_add(done, Ordering::Relaxed);
            });
        });
        Self { process }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
