//! Events while workers and servers are killed: none is lost, and no reader has seen one that a crash undid.

use crate::child::{Part, Running};
use crate::load::QUEUE;
use crate::trial::{Trial, seed, times};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use windlass_core::JobId;
use windlass_core::engine::{Admin as _, Configure, EventEntry, EventsFrom, EventsRequest, Get};
use windlass_core::limits::EVENTS_KEPT_MAX;
use windlass_core::model::{EventBounds, QueuePatch};
use windlass_core::random::{Random as _, Seeded};
use windlass_kit::history::Options;
use windlass_postgres::PostgresEngine;

/// Workers at a time.
const WORKERS: u32 = 2;
/// Rounds of an ordinary run, and of a long one. In each a worker is killed, and in every second one the server.
const ROUNDS: u32 = 4;
const ROUNDS_LONG: u32 = 30;
/// Upper bound of the delay before a kill.
const KILL_MAX_MS: u64 = 300;
/// How long the jobs of a dead worker wait for it.
const TTL_MS: u64 = 2_000;
/// Clients of this process have smaller numbers.
const FIRST: u32 = 1_000;
const PAUSE: Duration = Duration::from_millis(20);

/// The last number of each job.
type Seen = BTreeMap<JobId, u32>;

/// Follows the stream from its beginning, also while the server is down, until `stop` is set and no event is left.
async fn follow(engine: Arc<PostgresEngine>, stop: Arc<AtomicBool>) -> Seen {
    let mut request = EventsRequest::new(QUEUE).from(EventsFrom::Oldest).wait_ms(50);
    let mut seen = Seen::new();
    loop {
        let has_stopped = stop.load(Ordering::SeqCst);
        let Ok(page) = engine.events(request.clone()).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let page = page.value;
        assert!(!page.gap, "nothing is dropped");
        if page.events.is_empty() && has_stopped {
            return seen;
        }
        for EventEntry { event, .. } in page.events {
            // A job may have begun before events were switched on.
            let last = seen.insert(event.job, event.number);
            assert!(last.is_none_or(|last| event.number == last + 1), "after {last:?}: {event:?}");
        }
        request = request.after(page.next);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_is_lost_or_undone_when_workers_and_the_server_are_killed() {
    let (mut trial, random) = (Trial::start(0).await, Seeded::new(seed()));
    let (url, home) = (trial.server.url(), trial.home.path().to_owned());
    let counts = trial.counts.clone();
    let start = |number: u32| {
        let part = Part::Work {
            url: url.clone(),
            journal: home.join(format!("worker-{number}.ndjson")),
            client: FIRST + number,
            seed: seed(),
            ttl_ms: TTL_MS,
        };
        Running::start(&part, counts.clone())
    };
    let mut workers: Vec<Running> = (0..WORKERS).map(start).collect();
    trial.all_clients_work().await;
    let bounds = EventBounds::default().with_max(EVENTS_KEPT_MAX);
    let on = vec![Configure::queue(QUEUE, QueuePatch::events(Some(bounds)))];
    trial.engine.configure(on).await.expect("configures").value.remove(0).expect("switched on");
    let stop = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn(follow(trial.engine.clone(), Arc::clone(&stop)));
    for number in 0..times(ROUNDS, ROUNDS_LONG) {
        trial.all_clients_work().await;
        tokio::time::sleep(Duration::from_millis(random.below(KILL_MAX_MS))).await;
        if number % 2 == 1 {
            trial.server.kill();
            trial.server.start().await;
        }
        workers[(number % WORKERS) as usize] = start(WORKERS + number);
    }
    trial.all_clients_work().await;
    trial.finish_load().await;
    stop.store(true, Ordering::SeqCst);
    let seen = reader.await.expect("the reader");
    assert!(!seen.is_empty());
    let ids: Vec<JobId> = seen.keys().copied().collect();
    for some in ids.chunks(500) {
        let jobs = trial.engine.get(Get::new(some.to_vec())).await.expect("gets").value;
        for job in jobs.into_iter().flatten() {
            assert_eq!(seen[&job.header.id], job.transitions, "the last event of {job:?}");
        }
    }
    trial.judge(Options::default().claims_forgotten()).await.assert_clean();
    drop(workers);
}
