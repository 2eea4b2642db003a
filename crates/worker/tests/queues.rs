//! Which jobs a worker takes, in which order, and how many at a time.
#![allow(clippy::unwrap_used, reason = "unwrapping is how a test says that this must hold")]

mod support;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{enqueue_all, local, memory, reaches, until, worker};
use tokio::sync::Semaphore;
use windlass_core::engine::{Configure, Engine, StatsRequest};
use windlass_core::model::{NewJob, Order, QueuePatch, Rate, State as JobState};
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

/// Kinds, and the times at which their jobs started.
type Times = Arc<Mutex<Vec<(String, Instant)>>>;

#[expect(clippy::disallowed_methods, reason = "a worker's own rate goes by the real clock")]
fn now() -> Instant {
    Instant::now()
}

#[tokio::test]
async fn jobs_of_a_kind_start_at_its_rate_and_others_as_they_come() {
    let engine = memory();
    fill(&engine, "default", "slow", 20).await;
    fill(&engine, "default", "quick", 20).await;
    let starts = Times::default();
    async fn note(_: Raw, ctx: Ctx, Data(starts): Data<Times>) {
        starts.lock().unwrap().push((ctx.kind().to_owned(), now()));
    }
    // Two at once, and then one every 20 ms.
    let begun = now();
    let rate = Rate::Bucket { amount: 50, per_ms: 1_000, burst: 2 };
    let running = worker(&engine)
        .data(starts.clone())
        .handle_kind("slow", note)
        .handle_kind("quick", note)
        .kind_rate("slow", rate)
        .build()
        .unwrap()
        .start();
    until("all to end", || running.stats().completed == 40).await;
    running.drain().await;
    let starts = starts.lock().unwrap();
    let of = |kind: &str| -> Vec<Instant> {
        starts.iter().filter(|(of, _)| of == kind).map(|(_, at)| *at).collect()
    };
    let (slow, quick) = (of("slow"), of("quick"));
    for (n, at) in slow.iter().enumerate().skip(2) {
        // A handler begins after the worker has counted its start.
        let least = Duration::from_millis(20 * (n as u64 - 1));
        assert!(*at - begun >= least, "start {n} after {:?}", *at - begun);
    }
    assert!(*quick.last().unwrap() < slow[19], "they do not wait for each other");
}

#[tokio::test]
async fn no_more_jobs_of_a_kind_start_than_its_window_allows() {
    let engine = memory();
    fill(&engine, "default", "a", 20).await;
    fill(&engine, "default", "b", 20).await;
    let state = Watched::new(100);
    let running = watching(&engine, &state)
        .handle_kind("b", watched)
        .kind_rate("a", Rate::window(3, 3_600_000))
        .build()
        .unwrap()
        .start();
    until("three and twenty to end", || running.stats().completed == 23).await;
    running.drain().await;
    assert_eq!(state.starts().len(), 23);
    let left = engine.stats(StatsRequest::default()).await.unwrap().value;
    assert_eq!(left.iter().map(|lane| lane.available).collect::<Vec<_>>(), [17, 0]);
}

/// Starts jobs from a backlog of 600 urgent and 200 other jobs; returns the priorities of the first 300.
async fn first_starts(engine: &Arc<dyn Engine>, build: impl Fn(Builder) -> Builder) -> Vec<i32> {
    let job = |priority: i32| NewJob::new("p").priority(priority);
    enqueue_all(engine, (0..800).map(|n| job(if n < 600 { 0 } else { 10 }))).await;
    let starts: Arc<Mutex<Vec<i32>>> = Arc::default();
    async fn note(_: Raw, ctx: Ctx, Data(starts): Data<Arc<Mutex<Vec<i32>>>>) {
        starts.lock().unwrap().push(ctx.header().priority);
    }
    let builder = worker(engine).data(starts.clone()).handle_kind("p", note);
    let running = build(builder).build().unwrap().start();
    until("all to end", || running.stats().completed == 800).await;
    running.drain().await;
    let starts = starts.lock().unwrap();
    starts[..300].to_vec()
}

#[tokio::test]
async fn low_priorities_get_their_floor_beside_a_backlog_of_urgent_jobs() {
    let (local, _dir) = local();
    for engine in [memory(), local] {
        let without = first_starts(&engine, |builder| builder.concurrency(4)).await;
        assert!(without.iter().all(|priority| *priority == 0), "they starve");
        for concurrency in [1, 4, 50] {
            let floor = |builder: Builder| builder.concurrency(concurrency).floor(10, 20);
            let starts = first_starts(&engine, floor).await;
            let low = starts.iter().filter(|priority| **priority == 10).count();
            assert!((45..=75).contains(&low), "{low} of 300 with {concurrency} slots");
        }
    }
}

#[tokio::test]
async fn a_worker_goes_on_without_floors_where_the_order_does_not_allow_them() {
    let engine = memory();
    let order = QueuePatch::order(Order::Lifo);
    engine.configure(vec![Configure::queue("default", order)]).await.unwrap();
    let starts = first_starts(&engine, |builder| builder.concurrency(1).floor(10, 50)).await;
    assert_eq!(starts.len(), 300);
}
