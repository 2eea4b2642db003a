//! Measures the cost of the services on an idle store: `cargo run --release --example idle -p windlass-services -- 60`.
//!
//! Runs all services with their defaults on an empty local store for the given seconds, and prints the
//! processor time of the process (from `/proc`, so on Linux only) and what was written.

use std::sync::Arc;
use std::time::Duration;
use windlass_core::engine::{Enqueue, Jobs};
use windlass_core::model::{Due, NewJob};
use windlass_core::policy::Schedule;
use windlass_local::{LocalEngine, Options};
use windlass_services::{Schedules, Services};

/// Processor time so far, in clock ticks of 10 ms.
fn ticks() -> Result<u64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    // User and system time are fields 14 and 15 of all, 12 and 13 after the name.
    Ok(fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds: u64 = std::env::args().nth(1).map_or(Ok(20), |arg| arg.parse())?;
    let dir = tempfile::tempdir()?;
    let engine = Arc::new(LocalEngine::open(Options::new(dir.path()))?);
    // Idle, not empty: fifty lanes with a job for tomorrow each, and a hundred schedules.
    let tomorrow = Due::After(24 * 3_600_000);
    let jobs = (0..50).map(|n| NewJob::new("later").queue(format!("queue{n}")).due(tomorrow));
    engine.enqueue(Enqueue::each(jobs)).await?;
    let schedules = Schedules::new(engine.clone());
    for n in 0..100 {
        let yearly = Schedule::cron("0 0 1 1 *", "Europe/Berlin");
        schedules.put(&format!("s{n}"), yearly, NewJob::new("x")).await?;
    }
    let services = Services::builder(engine.clone()).start()?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (before, begun) = (engine.counters(), ticks()?);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (after, ended) = (engine.counters(), ticks()?);
    let percent = (ended - begun) as f64 / seconds as f64;
    println!("{percent:.2} % of one core over {seconds} s");
    let per_second = |count: u64| count as f64 / seconds as f64;
    println!("{:.2} calls/s", per_second(after.calls - before.calls));
    let durable = after.syncs - before.syncs;
    println!("{:.2} durable transactions/s, most of them empty", per_second(durable));
    services.stop().await;
    Ok(())
}
