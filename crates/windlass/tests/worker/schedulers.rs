//! Many processes on one store, all of which fire its schedules.

use crate::support::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use windlass::policy::Schedule;
use windlass::services::ServiceOptions;
use windlass::{Client, Ctx, Data, JobId, Raw};

type Runs = Arc<Mutex<HashMap<JobId, u32>>>;
const FIRES: usize = 2;

async fn tick(_: Raw, Data(runs): Data<Runs>, ctx: Ctx) {
    *runs.lock().unwrap().entry(ctx.id()).or_default() += 1;
}

#[tokio::test]
async fn ten_workers_that_all_schedule_run_each_fire_once() {
    for (client, _dir) in stores().await {
        let runs = Runs::default();
        let every = Schedule::every_ms(1_000).limit(FIRES as u64);
        client.schedule("tick", every, windlass::job_of("tick")).await.unwrap();
        let worker = || {
            // As if all of them had found themselves leading.
            let mut options = ServiceOptions::default();
            options.leadership = false;
            let process = Client::new(client.engine().clone());
            let worker = process.worker().service_options(options).data(runs.clone());
            worker.handle_kind("tick", tick).build().unwrap().start()
        };
        let workers: Vec<_> = (0..10).map(|_| worker()).collect();
        let over = async || {
            let schedule = client.schedules().get("tick").await.unwrap().unwrap();
            let completed = workers.iter().map(|worker| worker.stats().completed).sum::<u64>();
            (schedule.next.is_none() && completed >= FIRES as u64).then_some(())
        };
        eventually("all fires", over).await;
        for worker in &workers {
            worker.drain().await;
        }
        let runs = runs.lock().unwrap();
        assert!(runs.len() == FIRES && runs.values().all(|runs| *runs == 1), "{runs:?}");
    }
}

#[tokio::test]
async fn runs_after_completion_never_overlap_with_ten_schedulers() {
    for (client, _dir) in stores().await {
        let runs = Runs::default();
        let after = Schedule::after_completion_ms(1_000).limit(FIRES as u64);
        client.schedule("tick", after, windlass::job_of("tick")).await.unwrap();
        let worker = || {
            let mut options = ServiceOptions::default();
            options.leadership = false;
            let process = Client::new(client.engine().clone());
            let worker = process.worker().service_options(options).data(runs.clone());
            worker.handle_kind("tick", tick).build().unwrap().start()
        };
        let workers: Vec<_> = (0..10).map(|_| worker()).collect();
        let over = async || {
            let schedule = client.schedules().get("tick").await.unwrap().unwrap();
            let completed = workers.iter().map(|worker| worker.stats().completed).sum::<u64>();
            (schedule.fired == FIRES as u64 && completed >= FIRES as u64).then_some(())
        };
        eventually("all fires", over).await;
        for worker in &workers {
            worker.drain().await;
        }
        let runs = runs.lock().unwrap().clone();
        assert!(runs.len() == FIRES && runs.values().all(|runs| *runs == 1), "{runs:?}");
        let mut ids: Vec<_> = runs.into_keys().collect();
        ids.sort_unstable_by_key(|id| id.time());
        let first = client.get(ids[0]).await.unwrap().unwrap();
        let gap_ms = ids[1].time().since(first.finished_at.unwrap());
        assert_eq!(gap_ms, 1_000, "counted from the end of the first");
    }
}
