//! Workers that are killed in the middle of their jobs, as processes of their own.

use crate::child::{Part, Running};
use crate::trial::{Trial, seed, times};
use std::time::Duration;
use windlass_core::random::{Random as _, Seeded};
use windlass_kit::history::Options;

/// Workers at a time.
const WORKERS: usize = 3;
/// Kills of an ordinary run, and of a long one.
const KILLS: u32 = 8;
const KILLS_LONG: u32 = 50;
/// Upper bound of the delay before a kill, from the time that all clients work again.
const KILL_MAX_MS: u64 = 300;
/// How long the jobs of a dead worker wait for it.
const TTL_MS: u64 = 2_000;
/// Clients of this process have smaller numbers.
const FIRST: u32 = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_killed_workers_are_done_by_others() {
    let (trial, random) = (Trial::start(0).await, Seeded::new(seed()));
    let start = |number: u32| {
        let part = Part::Work {
            url: trial.server.url(),
            journal: trial.home.path().join(format!("worker-{number}.ndjson")),
            client: FIRST + number,
            seed: seed(),
            ttl_ms: TTL_MS,
        };
        Running::start(&part, trial.counts.clone())
    };
    let mut workers: Vec<Running> = (0..WORKERS as u32).map(start).collect();
    let kills = times(KILLS, KILLS_LONG);
    for number in 0..kills {
        trial.all_clients_work().await;
        tokio::time::sleep(Duration::from_millis(random.below(KILL_MAX_MS))).await;
        let victim = random.below(WORKERS as u64) as usize;
        workers[victim] = start(WORKERS as u32 + number);
    }
    trial.all_clients_work().await;
    let verdict = trial.judge(Options::default()).await;
    verdict.assert_clean();
    assert!(verdict.counts.unanswered > 0, "no call was under way at any kill");
    drop(workers);
}
