//! The end of a worker.
#![allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use support::{enqueue, enqueue_all, get, local, memory, reaches, until, worker};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use windlass_core::model::{NewJob, State as JobState};
use windlass_worker::{Cause, Ctx, Data, Json, Raw, Stop};

type Gate = Arc<Semaphore>;

async fn gated(_: Raw, Data(gate): Data<Gate>) -> Result<(), Stop> {
    gate.acquire().await?.forget();
    Ok(())
}

#[tokio::test]
async fn a_drain_lets_handlers_finish_and_claims_nothing_more() {
    let (local, _dir) = local();
    for engine in [memory(), local] {
        let gate: Gate = Arc::new(Semaphore::new(0));
        let builder = worker(&engine).concurrency(2).data(gate.clone());
        let running = builder.handle_kind("gated", gated).build().unwrap().start();
        let ids = enqueue_all(&engine, (0..5).map(|_| NewJob::new("gated"))).await;
        until("two to run", || running.health().in_flight == 2).await;
        let draining = tokio::spawn({
            let running = running.clone();
            async move { running.drain().await }
        });
        until("it to stop consuming", || !running.health().consuming).await;
        gate.add_permits(5);
        let stopped = draining.await.unwrap();
        assert_eq!((stopped.undelivered, stopped.abandoned), (0, 0));
        let mut states = Vec::new();
        for id in ids {
            states.push(get(&engine, id).await.state);
        }
        let count = |state| states.iter().filter(|seen| **seen == state).count();
        assert_eq!((count(JobState::Completed), count(JobState::Available)), (2, 3));
        assert!(engine.sessions().await.unwrap().value.is_empty(), "the session is closed");
        // Draining what is drained is fine.
        assert_eq!(running.drain().await, stopped);
    }
}

#[tokio::test]
async fn handlers_that_do_not_finish_in_time_are_cancelled_dropped_and_released() {
    let engine = memory();
    let reported = Arc::new(AtomicU32::new(0));
    async fn stubborn(_: Raw, ctx: Ctx, Data(reported): Data<Arc<AtomicU32>>) {
        assert_eq!(ctx.cancelled().await, Cause::Shutdown);
        reported.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<()>().await;
    }
    fn deaf(_: Raw, ctx: Ctx) {
        while !ctx.is_draining() || ctx.is_cancelled().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_secs(2));
    }
    let running = worker(&engine)
        .grace(Duration::from_millis(100))
        .stop_grace(Duration::from_millis(100))
        .data(reported.clone())
        .handle_kind("stubborn", stubborn)
        .handle_kind_blocking("deaf", deaf)
        .build()
        .unwrap()
        .start();
    let ids = enqueue_all(&engine, [NewJob::new("stubborn"), NewJob::new("deaf")]).await;
    until("both to run", || running.health().in_flight == 2).await;
    let stopped = running.drain().await;
    assert_eq!((stopped.undelivered, reported.load(Ordering::SeqCst)), (0, 1));
    for id in ids {
        let job = get(&engine, id).await;
        let counters = job.header.counters;
        assert_eq!((job.state, counters.failures, counters.crashes), (JobState::Available, 0, 0));
    }
    assert_eq!((running.stats().released, running.health().leaked_threads), (2, 1));
}

#[tokio::test]
async fn a_long_handler_can_hand_over_when_the_worker_drains() {
    let engine = memory();
    async fn long(_: Raw, ctx: Ctx) -> Result<u32, Stop> {
        if let Some(page) = ctx.checkpoint().await? {
            return Ok(page);
        }
        ctx.draining().await;
        ctx.save_checkpoint(&7).await?;
        Err(Stop::release())
    }
    let first = worker(&engine).handle_kind("long", long).build().unwrap().start();
    let id = enqueue(&engine, NewJob::new("long")).await;
    until("it to run", || first.health().in_flight == 1).await;
    let start = Instant::now();
    first.drain().await;
    assert!(start.elapsed() < Duration::from_secs(5), "it did not wait for its grace time");
    let second = worker(&engine).handle_kind("long", long).build().unwrap().start();
    let job = reaches(&engine, id, JobState::Completed).await;
    assert_eq!((&*job.result.unwrap().bytes, job.header.counters.failures), (&b"7"[..], 0));
    second.drain().await;
}

#[tokio::test]
async fn an_abort_returns_at_once_and_drops_the_handlers() {
    struct Flag(Arc<AtomicBool>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let engine = memory();
    let dropped = Arc::new(AtomicBool::new(false));
    async fn hang(_: Raw, Data(dropped): Data<Arc<AtomicBool>>) {
        let _flag = Flag(dropped);
        std::future::pending::<()>().await;
    }
    let builder = worker(&engine).data(dropped.clone()).stop_grace(Duration::from_secs(60));
    let running = builder.handle_kind("hang", hang).build().unwrap().start();
    let id = enqueue(&engine, NewJob::new("hang")).await;
    until("it to run", || running.health().in_flight == 1).await;
    let start = Instant::now();
    let stopped = running.abort().await;
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(stopped.abandoned, 1);
    until("the handler to be dropped", || dropped.load(Ordering::SeqCst)).await;
    assert_eq!(get(&engine, id).await.state, JobState::Running, "until the session runs out");
}

#[tokio::test]
async fn a_task_beside_the_worker_lives_and_ends_with_it() {
    let engine = memory();
    let log: Arc<std::sync::Mutex<Vec<&str>>> = Arc::default();
    let (polite, stubborn) = (log.clone(), log.clone());
    let running = worker(&engine)
        .handle_kind("noop", |_: Raw| async {})
        .stop_grace(Duration::from_millis(50))
        .beside("polite", move |engine, mut until| async move {
            engine.health().await.unwrap();
            polite.lock().unwrap().push("started");
            until.stopped().await;
            assert!(until.is_stopped());
            polite.lock().unwrap().push("ended");
        })
        .beside("stubborn", move |_, _| async move {
            std::future::pending::<()>().await;
            stubborn.lock().unwrap().push("never");
        })
        .build()
        .unwrap()
        .start();
    until("it to start", || !log.lock().unwrap().is_empty()).await;
    tokio::time::timeout(support::PATIENCE, running.drain()).await.unwrap();
    assert_eq!(*log.lock().unwrap(), ["started", "ended"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_that_compute_do_not_hold_up_their_neighbours() {
    let engine = memory();
    // Both in one claim; the first one never awaits.
    let gate = Arc::new(AtomicBool::new(false));
    let compute = |_: Raw, Data(gate): Data<Arc<AtomicBool>>| async move {
        while !gate.load(Ordering::SeqCst) {
            std::hint::spin_loop();
        }
    };
    let open = |_: Raw, Data(gate): Data<Arc<AtomicBool>>| async move {
        gate.store(true, Ordering::SeqCst);
    };
    enqueue_all(&engine, [NewJob::new("compute"), NewJob::new("open")]).await;
    let running = worker(&engine)
        .data(gate)
        .handle_kind("compute", compute)
        .handle_kind("open", open)
        .build()
        .unwrap()
        .start();
    until("both to end", || running.stats().completed == 2).await;
    running.drain().await;
}

#[tokio::test]
async fn a_worker_that_runs_until_it_is_idle_sees_to_all_there_is_and_ends() {
    for concurrency in [1, 8] {
        let (local, _dir) = local();
        for engine in [memory(), local] {
            // Each leads to another until the number is used up, and says something on the way, so that
            // its outcome travels apart from claims.
            let chain = |Json(left): Json<u32>, ctx: Ctx| async move {
                ctx.log(format!("{left} left"));
                if left > 0 {
                    ctx.follow_up(NewJob::new("chain").json((left - 1).to_string()))?;
                }
                Ok::<_, Stop>(())
            };
            let jobs = (0..5).map(|_| NewJob::new("chain").json("9"));
            enqueue_all(&engine, jobs).await;
            let elsewhere = enqueue(&engine, NewJob::new("other")).await;
            let worker = worker(&engine).concurrency(concurrency);
            let worker = worker.handle_kind("chain", chain).build().unwrap().start_until_idle();
            let stopped = tokio::time::timeout(support::PATIENCE, worker.stopped()).await.unwrap();
            assert_eq!((stopped.undelivered, worker.stats().completed), (0, 50));
            let other = get(&engine, elsewhere).await;
            assert_eq!(other.state, JobState::Available);
        }
    }
}
