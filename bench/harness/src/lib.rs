//! The workloads of the peer benchmark for drivers written in Rust: ours and the peers' go through the same
//! code. It knows no queue; a driver is an implementation of [`Queue`] and a call of [`drive`].
//!
//! `bench/peers/harness.mjs` and `bench/peers/harness.py` do the same for other languages. The three must
//! stay alike: a figure is worth something only beside figures that were taken the same way.

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

/// How a queue wants to be called. Printed in the report.
#[derive(Clone, Debug)]
pub struct About {
    /// Of the queue under measurement.
    pub version: String,
    /// Everything that was set otherwise than by default, and that matters.
    pub settings: String,
    /// Jobs per call of [`Queue::enqueue_many`] where many are enqueued.
    pub bulk: usize,
    /// Callers of [`Queue::enqueue_many`] at a time.
    pub bulk_callers: usize,
}

/// A queue under measurement, in a store that nobody else uses. Cheap to clone; every caller has its own.
pub trait Queue: Clone + Send + Sync + 'static {
    /// Opens the empty store at `url` and makes what the queue needs there.
    fn open(url: &str) -> impl Future<Output = Result<Self>> + Send;

    /// What the report says about it.
    fn about(&self) -> About;

    /// Stores a job; returns when the store has acknowledged it.
    fn enqueue(&self, job: Payload) -> impl Future<Output = Result<()>> + Send;

    /// Stores many jobs by the fastest path there is.
    fn enqueue_many(&self, jobs: Vec<Payload>) -> impl Future<Output = Result<()>> + Send;

    /// Starts the queue's own worker, in this process; its handler does nothing but call [`Seen::start`].
    /// The worker goes on until the process ends.
    fn work(&self, seen: Seen) -> impl Future<Output = Result<()>> + Send;

    /// How many jobs the store still holds as not completed: what a crash now would run again.
    fn left(&self) -> impl Future<Output = Result<u64>> + Send;
}

/// The `main` of a driver: measures what the only argument orders and prints one line of JSON.
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
    // Workers have no end of their own, and some runtimes wait for theirs.
    runtime.shutdown_background();
    Ok(serde_json::to_string(&answer?)?)
}
