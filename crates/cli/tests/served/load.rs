//! Producers and workers over HTTP, as applications have them, with every call recorded.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use windlass_core::engine::Engine;
use windlass_core::model::NewJob;
use windlass_kit::history::{HandlerEnd, History, LoadCounts, MemoryJournal, Producers, Recorded};
use windlass_worker::{Ctx, Data, Raw, Stop, Worker, WorkerHandle};

/// The queue of all jobs.
pub(crate) const QUEUE: &str = "kills";
const KIND: &str = "work";
const PRODUCERS: u32 = 4;
const WORKERS: u32 = 3;
/// Jobs that a worker runs at a time.
const CONCURRENCY: u32 = 8;

/// The load, until it is stopped.
pub(crate) struct Load {
    counts: Arc<LoadCounts>,
    journal: Arc<MemoryJournal>,
    producers: tokio::sync::Mutex<Producers>,
    workers: Vec<WorkerHandle>,
}

impl Load {
    pub(crate) fn start(engine: Arc<dyn Engine>, seed: u64) -> Self {
        let (counts, journal) = (Arc::<LoadCounts>::default(), Arc::<MemoryJournal>::default());
        let client = |number| Recorded::new(engine.clone(), journal.clone(), number);
        let worker = |number: u32| {
            Worker::builder(Arc::new(client(PRODUCERS + number)))
                .name(format!("w{number}"))
                .queue(QUEUE)
                .concurrency(CONCURRENCY)
                .session(Duration::from_secs(20), Duration::from_millis(500))
                .data(counts.clone())
                .handle_kind(KIND, handle)
                .build()
                .unwrap()
                .start()
        };
        let producers = Producers::start((0..PRODUCERS).map(client), &job(), &counts, seed);
        let workers = (0..WORKERS).map(worker).collect();
        Self { producers: tokio::sync::Mutex::new(producers), workers, counts, journal }
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.counts.acknowledged.load(Ordering::Relaxed)
    }

    pub(crate) fn completed(&self) -> u64 {
        self.counts.completed.load(Ordering::Relaxed)
    }

    /// Waits until every producer has a reply to all its calls.
    pub(crate) async fn stop_producing(&self) {
        self.producers.lock().await.stop().await;
    }

    /// Ends the workers, which must all be alive, and returns the history of all clients.
    pub(crate) async fn end(self) -> History {
        for worker in &self.workers {
            assert!(worker.health().healthy, "a worker did not recover: {:?}", worker.health());
            let lost = worker.stats().sessions_lost;
            assert_eq!(lost, 0, "a server that restarts at once loses no session");
            assert_eq!(worker.drain().await.undelivered, 0);
        }
        self.journal.history()
    }
}

fn job() -> NewJob {
    NewJob::new(KIND).queue(QUEUE)
}

/// Ends as the kit decides, mostly well.
async fn handle(_: Raw, ctx: Ctx, Data(counts): Data<Arc<LoadCounts>>) -> Result<(), Stop> {
    let is_follow_up = ctx.header().parent.is_some();
    let (runs_for, end) = HandlerEnd::of_attempt(ctx.id(), ctx.attempt(), is_follow_up);
    ctx.set_progress(1, Some(2), "half");
    tokio::time::sleep(runs_for).await;
    match end {
        HandlerEnd::Retry(delay) => return Err(Stop::retry("by chance").after(delay)),
        HandlerEnd::Snooze(delay) => return Err(Stop::snooze(delay)),
        HandlerEnd::Release => return Err(Stop::release()),
        HandlerEnd::Fail => return Err(Stop::fatal("by chance")),
        HandlerEnd::FollowUp => ctx.follow_up(job())?,
        HandlerEnd::Complete => {}
    }
    counts.completed.fetch_add(1, Ordering::Relaxed);
    Ok(())
}
