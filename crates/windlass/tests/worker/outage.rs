//! A store that goes away under a worker and its services, and comes back.

use crate::store::Store;
use crate::support::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use windlass::engine::Filter;
use windlass::policy::Schedule;
use windlass::{Client, Data, Job as _};

/// How often each job ran.
type Runs = Arc<[AtomicU32; JOBS]>;
const JOBS: usize = 200;

async fn count(job: Work, Data(runs): Data<Runs>) {
    runs[job.number as usize].fetch_add(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(5)).await;
}

#[tokio::test]
async fn acknowledged_jobs_complete_once_although_the_store_becomes_unavailable() {
    let memory = windlass::connect("memory:").await.unwrap();
    let store = Store::called("memory", memory.engine().clone());
    let client = Client::new(store.clone());
    let runs: Runs = Arc::new([const { AtomicU32::new(0) }; JOBS]);
    let worker = client.worker().data(runs.clone()).handle_kind(Work::KIND, count).concurrency(10);
    let worker = worker.build().unwrap().start();

    let jobs = (0..JOBS as u32).map(|number| Work { number });
    let ids: Vec<_> =
        client.enqueue_all(jobs).await.into_iter().map(|job| job.unwrap().id()).collect();
    eventually("some to be done", async || (worker.stats().completed > 20).then_some(())).await;
    store.go_away();
    eventually("the outage to be felt", async || (!worker.health().consuming).then_some(())).await;
    eventually("handlers to end", async || (worker.health().in_flight == 0).then_some(())).await;
    // A fire that falls due in the outage comes after it.
    let every = Schedule::every_ms(1_000).limit(1);
    let tick =
        memory.schedule("tick", every, windlass::job_of("tick").queue("ticks")).await.unwrap();
    let due = tick.next.unwrap();
    let passed = async || (memory.engine().health().await.unwrap().now > due).then_some(());
    eventually("the fire to be overdue", passed).await;
    let fires = async || {
        let ticks = Filter::state(windlass::State::Available).queue("ticks");
        memory.jobs().matching(ticks).page().await.unwrap().rows.len()
    };
    assert_eq!(fires().await, 0, "it cannot have fired");
    store.come_back();

    for id in ids {
        completes(&client, id).await;
    }
    assert!(runs.iter().all(|runs| runs.load(Ordering::SeqCst) == 1), "no result was lost");
    eventually("the fire", async || (fires().await == 1).then_some(())).await;
    assert!(worker.health().consuming && worker.health().healthy);
    worker.drain().await;
}
