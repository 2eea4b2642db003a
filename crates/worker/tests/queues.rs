//! Which jobs a worker takes, in which order, and how many at a time.
#![allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]

mod support;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{enqueue_all, memory, reaches, until, worker};
use tokio::sync::Semaphore;
use windlass_core::engine::Engine;
use windlass_core::model::{NewJob, State as JobState};
use windlass_worker::{Builder, Ctx, Data, Raw, Stop};

/// Every start in order, and the concurrency by queue and kind.
#[derive(Default)]
struct Seen {
    starts: Vec<String>,
    now: HashMap<String, u32>,
    most: HashMap<String, u32>,
}

/// A gate that handlers pass one permit at a time, and what they were seen doing.
#[derive(Clone)]
struct Watched {
    seen: Arc<Mutex<Seen>>,
    gate: Arc<Semaphore>,
}

impl Watched {
    fn new(permits: usize) -> Self {
        Self { seen: Arc::default(), gate: Arc::new(Semaphore::new(permits)) }
    }

    fn enter(&self, ctx: &Ctx) {
        let mut seen = self.seen.lock().unwrap();
        seen.starts.push(ctx.queue().to_owned());
        for name in [ctx.queue(), ctx.kind(), "all"] {
            let now = seen.now.entry(name.to_owned()).or_default();
            *now += 1;
            let now = *now;
            let most = seen.most.entry(name.to_owned()).or_default();
            *most = now.max(*most);
        }
    }

    fn leave(&self, ctx: &Ctx) {
        let mut seen = self.seen.lock().unwrap();
        for name in [ctx.queue(), ctx.kind(), "all"] {
            *seen.now.get_mut(name).unwrap() -= 1;
        }
    }

    fn now(&self, name: &str) -> u32 {
        self.seen.lock().unwrap().now.get(name).copied().unwrap_or(0)
    }

    fn most(&self, name: &str) -> u32 {
        self.seen.lock().unwrap().most.get(name).copied().unwrap_or(0)
    }

    fn starts(&self) -> Vec<String> {
        self.seen.lock().unwrap().starts.clone()
    }
}

async fn watched(_: Raw, ctx: Ctx, Data(watched): Data<Watched>) -> Result<(), Stop> {
    watched.enter(&ctx);
    watched.gate.acquire().await?.forget();
    watched.leave(&ctx);
    Ok(())
}

fn watching(engine: &Arc<dyn Engine>, state: &Watched) -> Builder {
    worker(engine).data(state.clone()).handle_kind("a", watched)
}

async fn fill(engine: &Arc<dyn Engine>, queue: &str, kind: &str, jobs: usize) {
    enqueue_all(engine, (0..jobs).map(|_| NewJob::new(kind.to_owned()).queue(queue.to_owned())))
        .await;
}

#[tokio::test]
async fn a_worker_runs_as_many_at_a_time_as_it_may_and_refills_as_soon_as_one_ends() {
    let engine = memory();
    let state = Watched::new(0);
    fill(&engine, "default", "a", 20).await;
    let running = watching(&engine, &state).concurrency(3).build().unwrap().start();
    until("three to run", || state.now("all") == 3).await;
    for ended in 1..=17 {
        state.gate.add_permits(1);
        until("the next to start", || state.starts().len() == 3 + ended).await;
    }
    state.gate.add_permits(3);
    until("all to end", || running.stats().completed == 20).await;
    assert_eq!(state.most("all"), 3);
    running.drain().await;
}

#[tokio::test]
async fn limits_of_queues_and_kinds_hold_together() {
    let engine = memory();
    let state = Watched::new(0);
    fill(&engine, "slow", "a", 10).await;
    fill(&engine, "fast", "b", 10).await;
    fill(&engine, "fast", "a", 10).await;
    let running = watching(&engine, &state)
        .handle_kind("b", watched)
        .queue("slow")
        .queue("fast")
        .concurrency(8)
        .queue_limit("slow", 1)
        .kind_limit("b", 2)
        .build()
        .unwrap()
        .start();
    until("the worker to be full", || state.now("all") == 8).await;
    assert_eq!((state.now("slow"), state.now("b"), state.now("a")), (1, 2, 6));
    state.gate.add_permits(30);
    until("all to end", || running.stats().completed == 30).await;
    assert_eq!((state.most("slow"), state.most("b"), state.most("all")), (1, 2, 8));
    running.drain().await;
}

#[tokio::test]
async fn a_full_kind_does_not_keep_others_out() {
    let engine = memory();
    let state = Watched::new(0);
    fill(&engine, "default", "a", 5).await;
    let running = watching(&engine, &state)
        .handle_kind("b", |_: Raw| async {})
        .kind_limit("a", 1)
        .build()
        .unwrap()
        .start();
    until("the first to run", || state.now("a") == 1).await;
    let ids = enqueue_all(&engine, [NewJob::new("b")]).await;
    reaches(&engine, ids[0], JobState::Completed).await;
    assert_eq!(state.most("a"), 1);
    state.gate.add_permits(5);
    until("all to end", || running.stats().completed == 6).await;
    running.drain().await;
}

#[tokio::test]
async fn queues_in_order_are_served_strictly() {
    let engine = memory();
    let state = Watched::new(1_000);
    fill(&engine, "low", "a", 20).await;
    fill(&engine, "high", "a", 20).await;
    let builder = watching(&engine, &state).queue("high").queue("low").concurrency(1);
    let running = builder.build().unwrap().start();
    until("all to end", || running.stats().completed == 40).await;
    let starts = state.starts();
    assert!(starts[..20].iter().all(|queue| queue == "high"), "{starts:?}");
    running.drain().await;
}

#[tokio::test]
async fn weighted_queues_get_their_share_and_the_rest_is_not_idle() {
    let engine = memory();
    let state = Watched::new(1_000);
    fill(&engine, "mail", "a", 60).await;
    fill(&engine, "bulk", "a", 60).await;
    let builder = watching(&engine, &state).weighted([("mail", 3), ("bulk", 1)]).concurrency(1);
    let running = builder.build().unwrap().start();
    until("all to end", || running.stats().completed == 120).await;
    let starts = state.starts();
    // While both have jobs, three of mail come with each of bulk.
    for four in starts[..80].chunks(4) {
        assert_eq!(four.iter().filter(|queue| *queue == "mail").count(), 3, "{starts:?}");
    }
    running.drain().await;
}

#[tokio::test]
async fn two_workers_in_one_process_share_a_queue() {
    let engine = memory();
    let state = Watched::new(0);
    fill(&engine, "default", "a", 8).await;
    let one = watching(&engine, &state).concurrency(4).build().unwrap().start();
    let two = watching(&engine, &state).concurrency(4).build().unwrap().start();
    until("both to be full", || state.now("all") == 8).await;
    state.gate.add_permits(8);
    until("all to end", || one.stats().completed + two.stats().completed == 8).await;
    assert_eq!((one.stats().claimed, two.stats().claimed), (4, 4));
    one.drain().await;
    two.drain().await;
}

#[tokio::test]
async fn an_idle_worker_is_woken_and_asks_for_nothing_meanwhile() {
    let flaky = support::flaky::Flaky::new(memory());
    let engine: Arc<dyn Engine> = flaky.clone();
    // No heartbeat comes in between.
    let (ttl, beat) = (Duration::from_secs(120), Duration::from_secs(60));
    let builder = worker(&engine).session(ttl, beat).handle_kind("a", |_: Raw| async {});
    let running = builder.build().unwrap().start();
    until("it to be consuming", || running.health().consuming).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let calls = || flaky.calls.load(std::sync::atomic::Ordering::SeqCst);
    let before = calls();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(calls(), before, "an idle worker keeps quiet");
    let started = tokio::time::Instant::now();
    let ids = enqueue_all(&engine, [NewJob::new("a")]).await;
    reaches(&engine, ids[0], JobState::Completed).await;
    running.drain().await;
    assert!(started.elapsed() < Duration::from_secs(3), "woken, not polled, and drained at once");
}
