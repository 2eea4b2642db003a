//! Single enqueues per second from many callers, with and without the coalesce layer.
//!
//! `cargo run --release -p windlass-layers --example callers [rounds]`
//!
//! Disks drift, so every round measures each setup once, in turn and on a fresh store, and setups are
//! compared within a round: the ratio is the median of the rounds' ratios, with its quartiles. Jobs per
//! synced commit beside it do not depend on the disk's mood.

use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::engine::{Engine, Enqueue};
use windlass_core::model::NewJob;
use windlass_layers::Coalesce;
use windlass_layers::coalesce::Options;
use windlass_local::LocalEngine;
use windlass_memory::MemoryEngine;

const CALLERS: usize = 64;
const ROUNDS_DEFAULT: usize = 11;
const LENGTH: Duration = Duration::from_millis(400);

/// How many calls may be on their way; `None` is without the layer.
const SETUPS: [Option<usize>; 4] = [None, Some(1), Some(2), Some(4)];

/// A store, and how many commits it has synced so far.
struct Store {
    engine: Arc<dyn Engine>,
    commits: Box<dyn Fn() -> u64>,
}

#[derive(Clone, Copy)]
struct Sample {
    rate: f64,
    /// `None` where nothing is synced.
    jobs_per_commit: Option<f64>,
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let rounds = rounds.unwrap_or(ROUNDS_DEFAULT);
    for callers in [1, CALLERS] {
        compare("memory", callers, rounds, memory).await;
        compare("local", callers, rounds, local).await;
    }
}

fn memory() -> Store {
    Store { engine: Arc::new(MemoryEngine::new()), commits: Box::new(|| 0) }
}

fn local() -> Store {
    let dir = tempfile::tempdir_in(".").expect("a directory");
    let options = windlass_local::Options::new(dir.path());
    let engine = LocalEngine::open(options).expect("an engine");
    let counted = engine.clone();
    let commits = Box::new(move || {
        let _kept_until_the_end = &dir;
        counted.counters().syncs
    });
    Store { engine: Arc::new(engine), commits }
}

async fn compare(name: &str, callers: usize, rounds: usize, open: fn() -> Store) {
    let mut samples: [Vec<Sample>; SETUPS.len()] = Default::default();
    for round in 0..rounds {
        for turn in 0..SETUPS.len() {
            let setup = (round + turn) % SETUPS.len();
            samples[setup].push(measure(open(), SETUPS[setup], callers).await);
        }
    }
    for (setup, own) in SETUPS.iter().zip(&samples) {
        let label = setup.map_or("plain".to_owned(), |calls| format!("{calls} in flight"));
        let rates = sorted(own.iter().map(|sample| sample.rate));
        let ratios = sorted(own.iter().zip(&samples[0]).map(|(own, plain)| own.rate / plain.rate));
        let per_commit = sorted(own.iter().filter_map(|sample| sample.jobs_per_commit));
        let per_commit = match per_commit.get(per_commit.len() / 2) {
            Some(median) => format!("{median:.1} jobs/commit"),
            None => String::new(),
        };
        println!(
            "{name:7} {callers:3} callers  {label:12} {:8.0}/s  {:.2}x ({:.2} to {:.2})  {per_commit}",
            rates[rates.len() / 2],
            ratios[ratios.len() / 2],
            ratios[ratios.len() / 4],
            ratios[ratios.len() * 3 / 4],
        );
    }
}

async fn measure(store: Store, in_flight: Option<usize>, callers: usize) -> Sample {
    let Store { engine, commits } = store;
    let engine: Arc<dyn Engine> = match in_flight {
        None => engine,
        Some(calls) => {
            let options = Options::default().in_flight_max(calls);
            Arc::new(Coalesce::with(engine, options).expect("options"))
        }
    };
    let (begun, synced) = (Instant::now(), commits());
    let tasks: Vec<_> = (0..callers).map(|_| tokio::spawn(enqueue_for(engine.clone()))).collect();
    let mut done = 0.0;
    for task in tasks {
        done += f64::from(task.await.expect("a caller"));
    }
    let rate = done / begun.elapsed().as_secs_f64();
    let synced = commits() - synced;
    Sample { rate, jobs_per_commit: (synced > 0).then(|| done / synced as f64) }
}

async fn enqueue_for(engine: Arc<dyn Engine>) -> u32 {
    let (begun, mut done) = (Instant::now(), 0);
    let job = NewJob::new("noop").json(r#"{"to":"ada@example.org","n":12345}"#);
    while begun.elapsed() < LENGTH {
        let reply = engine.enqueue(Enqueue::each([job.clone()])).await.expect("enqueue");
        assert!(reply.value[0].is_ok());
        done += 1;
        tokio::task::consume_budget().await;
    }
    done
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}
