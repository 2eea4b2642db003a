//! Workers that want the same jobs.

use crate::support::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use windlass::{Client, Ctx, Data, Job as _, Stop};

type Runs = Arc<Mutex<HashMap<u32, u32>>>;
const JOBS: u32 = 300;

/// Some are given back once, and are fought for again.
const fn is_restless(number: u32) -> bool {
    number.is_multiple_of(10)
}

async fn count(job: Work, Data(runs): Data<Runs>, ctx: Ctx) -> Result<(), Stop> {
    *runs.lock().unwrap().entry(job.number).or_default() += 1;
    if is_restless(job.number) && ctx.attempt() == 1 {
        return Err(Stop::release());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_attempt_at_a_job_belongs_to_one_worker_however_many_want_it() {
    for (client, _dir) in stores().await {
        let runs = Runs::default();
        let worker = || {
            let worker = Client::new(client.engine().clone()).worker().data(runs.clone());
            // One at a time: a claim for every job.
            worker.handle_kind(Work::KIND, count).concurrency(1).build().unwrap().start()
        };
        let workers: Vec<_> = (0..4).map(|_| worker()).collect();
        let jobs = client.enqueue_all((0..JOBS).map(|number| Work { number })).await;
        for job in jobs {
            let finished = completes(&client, job.unwrap().id()).await;
            let header = &finished.job.header;
            assert_eq!((header.counters.failures, header.counters.crashes), (0, 0));
        }
        for worker in &workers {
            worker.drain().await;
            assert_eq!(worker.stats().leases_lost, 0);
        }
        let completed: u64 = workers.iter().map(|worker| worker.stats().completed).sum();
        assert_eq!(completed, u64::from(JOBS));
        for (number, runs) in &*runs.lock().unwrap() {
            let attempts = if is_restless(*number) { 2 } else { 1 };
            assert_eq!(*runs, attempts, "job {number}");
        }
    }
}
