//! The workloads of the peer benchmark for drivers written in Rust: those of Windlass and of the peers run the
//! same code. It knows no queue; a driver is an implementation of [`Queue`] and a call of [`drive`].
//!
//! `bench/peers/harness.mjs` and `bench/peers/harness.py` do the same for other languages. The three must stay
//! equivalent: figures are comparable only if they were measured in the same way.

mod order;
mod payload;
mod seen;
mod usage;
mod version;
mod workload;

pub use payload::Payload;
pub use seen::Seen;
pub use version::locked_version;

use anyhow::{Context as _, Result};
use order::{Answer, Order};
use std::future::Future;
use std::process::ExitCode;

/// Version, settings and batch sizes of a queue. Printed in the report.
#[derive(Clone, Debug)]
pub struct About {
    /// Version of the queue under measurement.
    pub version: String,
    /// All relevant settings that differ from the defaults.
    pub settings: String,
    /// Number of jobs per call of [`Queue::enqueue_many`].
    pub bulk: usize,
    /// Number of concurrent callers of [`Queue::enqueue_many`].
    pub bulk_callers: usize,
}

/// A queue under measurement, with exclusive use of its store. Cheap to clone; every caller has its own.
pub trait Queue: Clone + Send + Sync + 'static {
    /// Opens the empty store at `url` and creates what the queue needs there.
    fn open(url: &str) -> impl Future<Output = Result<Self>> + Send;

    /// Version and settings, for the report.
    fn about(&self) -> About;

    /// Stores a job; returns when the store has acknowledged it.
    fn enqueue(&self, job: Payload) -> impl Future<Output = Result<()>> + Send;

    /// Stores many jobs by the fastest path available.
    fn enqueue_many(&self, jobs: Vec<Payload>) -> impl Future<Output = Result<()>> + Send;

    /// Starts the queue's own worker in this process; its handler only calls [`Seen::start`]. The worker runs
    /// until the process ends.
    fn work(&self, seen: Seen) -> impl Future<Output = Result<()>> + Send;

    /// The number of jobs that are not completed in the store: those that would run again after a crash.
    fn left(&self) -> impl Future<Output = Result<u64>> + Send;
}

/// The `main` of a driver: runs the measurement given as the only argument and prints one line of JSON.
pub fn drive<Q: Queue>() -> ExitCode {
    match answer::<Q>() {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn answer<Q: Queue>() -> Result<String> {
    let argument = std::env::args().nth(1).context("the order is missing: one argument of JSON")?;
    let order: Order = serde_json::from_str(&argument).context("cannot read the order")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let answer: Result<Answer> = runtime.block_on(workload::run::<Q>(&order));
    // Workers do not end by themselves, and some runtimes would wait for them.
    runtime.shutdown_background();
    Ok(serde_json::to_string(&answer?)?)
}
