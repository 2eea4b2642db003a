//! Everything at once on the local engine, with real threads, files and time.

use crate::support::*;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use windlass_core::engine::*;
use windlass_core::model::{Due, NewJob, QueuePatch, State};
use windlass_core::policy::{Missed, Retention, Schedule};
use windlass_local::{LocalEngine, Options};
use windlass_services::{Schedules, ServiceOptions};

fn local() -> (Arc<LocalEngine>, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = LocalEngine::open(Options::new(dir.path())).expect("opens");
    (Arc::new(engine), dir)
}

fn brisk() -> ServiceOptions {
    let mut options = ServiceOptions::default();
    options.lead_ttl = Duration::from_millis(2_000);
    options.retain.interval = Duration::from_millis(50);
    options.expire.interval = Duration::from_millis(50);
    options.compact.interval = Duration::from_millis(50);
    options
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_local_store_is_kept_in_order() {
    let (engine, _dir) = local();
    let retention = QueuePatch::retention(Retention::uniform_ms(0));
    engine.configure(vec![Configure::queue("default", retention)]).await.unwrap();
    let services = start(&engine, brisk());
    let done = enqueue(&*engine, NewJob::new("x")).await;
    complete(&*engine, "claim").await;
    let due = enqueue(&*engine, NewJob::new("x").queue("due").due(Due::After(100))).await;
    let late = enqueue(&*engine, NewJob::new("x").queue("late").max_wait_ms(1)).await;
    let lost = enqueue(&*engine, NewJob::new("x").queue("lost").max_crashes(0)).await;
    let session = engine.open_session(OpenSession::new("w").ttl_ms(1_000)).await.unwrap().value.id;
    let claim = Claim::new(Claimant::Session { session, claim_no: 1 }, "lost", 1);
    assert_eq!(engine.claim(claim).await.unwrap().value.jobs.len(), 1);

    reaches(&*engine, done, None).await;
    reaches(&*engine, due, Some(State::Available)).await;
    reaches(&*engine, late, Some(State::Expired)).await;
    reaches(&*engine, lost, Some(State::Dead)).await;
    let rows = engine.removed(RemovedQuery::default()).await.unwrap().value.rows;
    assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 1);
    let status = services.status();
    assert!(status.services.iter().all(|service| service.failures == 0), "{status:?}");
    services.stop().await;
    let report = engine.check(false).await.unwrap().value;
    assert_eq!(report.findings, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_schedulers_on_threads_fire_once() {
    let (engine, _dir) = local();
    let schedules = Schedules::new(engine.clone());
    let schedule = Schedule::every_ms(1_000).missed(Missed::All).limit(3);
    for name in ["a", "b", "c"] {
        schedules.put(name, schedule.clone(), NewJob::new("x").queue(name)).await.unwrap();
    }
    let mut options = only(|o| o.schedule.enabled = true);
    options.leadership = false;
    options.schedule.interval = Duration::from_millis(20);
    let services: Vec<_> = (0..10).map(|_| start(&engine, options.clone())).collect();
    for name in ["a", "b", "c"] {
        until("fires three times", || async {
            let view = schedules.get(name).await.unwrap().unwrap();
            (view.fired == 3).then_some(())
        })
        .await;
    }
    for services in &services {
        services.stop().await;
        assert_eq!(services.status().services[0].failures, 0);
    }
    let all = jobs(&*engine).await;
    assert_eq!(all.len(), 9);
}

/// A runtime of its own is a process of its own, as far as tasks go: shut down, nothing of it says
/// goodbye.
#[test]
fn a_leader_killed_mid_way_is_succeeded() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().expect("a runtime")
    };
    let (first, second) = (runtime(), runtime());
    let (engine, _dir) = local();
    let leads = async |services: &windlass_services::ServicesHandle| {
        until("leads", || async { services.leads().then_some(()) }).await;
        services.status().leader.expect("leads")
    };
    let killed = first.block_on(async { start(&engine, brisk()) });
    let token = first.block_on(leads(&killed));
    let successor = second.block_on(async { start(&engine, brisk()) });
    std::thread::sleep(Duration::from_millis(100));
    assert!(!successor.leads(), "one is enough");
    first.shutdown_background();
    let next = second.block_on(leads(&successor));
    assert!(next > token, "{next} after {token}");
    second.block_on(async {
        let id = enqueue(&*engine, NewJob::new("x").due(Due::After(1))).await;
        reaches(&*engine, id, Some(State::Available)).await;
        successor.stop().await;
    });
}

#[test]
fn a_leader_that_died_with_its_store_delays_no_successor() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime");
    let (engine, dir) = local();
    let killed = runtime.block_on(async { start(&engine, ServiceOptions::default()) });
    runtime.block_on(until("leads", || async { killed.leads().then_some(()) }));
    runtime.shutdown_timeout(Duration::from_secs(5));
    drop((killed, engine));

    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let engine = until("the directory is free", || async {
            LocalEngine::open(Options::new(dir.path())).ok().map(Arc::new)
        })
        .await;
        let services = start(&engine, ServiceOptions::default());
        let began = tokio::time::Instant::now();
        until("leads", || async { services.leads().then_some(()) }).await;
        assert!(began.elapsed() < Duration::from_secs(10), "a dead leader's time is 15 s");
        services.stop().await;
    });
}
