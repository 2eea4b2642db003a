//! Producers and workers, as applications have them, with every call recorded.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use windlass_core::engine::Engine;
use windlass_core::model::NewJob;
use windlass_kit::history::{HandlerEnd, Journal, LoadCounts, Producers, Recorded};
use windlass_services::ServiceOptions;
use windlass_worker::{Ctx, Data, Raw, Stop, Worker, WorkerHandle};

/// The queue of all jobs.
pub(crate) const QUEUE: &str = "faults";
const KIND: &str = "work";
/// Jobs that a worker runs at a time.
const CONCURRENCY: u32 = 8;
/// Crashes of a job before it is dead: the workers here do not die of their jobs.
const CRASHES_MAX: u32 = 1_000;
/// How soon another process takes over the services.
const LEAD_TTL_MS: u64 = 2_000;

/// The clients of one engine, numbered from `first` on.
pub(crate) struct Clients {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) counts: Arc<LoadCounts>,
    pub(crate) first: u32,
    pub(crate) seed: u64,
}

impl Clients {
    fn client(&self, number: u32) -> Recorded {
        Recorded::new(self.engine.clone(), self.journal.clone(), self.first + number)
    }

    /// Starts this many producers.
    pub(crate) fn produce(&self, producers: u32) -> Producers {
        let clients = (0..producers).map(|number| self.client(number));
        Producers::start(clients, &job(), &self.counts, self.seed)
    }

    /// Starts a worker that hosts the services; its session expires after `ttl` without it.
    pub(crate) fn work(&self, number: u32, ttl: Duration) -> WorkerHandle {
        let mut services = ServiceOptions::default();
        services.lead_ttl = Duration::from_millis(LEAD_TTL_MS);
        services.reclaim.interval = Duration::from_millis(100);
        services.compact.interval = Duration::from_millis(500);
        let worker = Worker::builder(Arc::new(self.client(number)));
        let worker = worker.name(format!("w{}", self.first + number)).queue(QUEUE);
        let worker = worker.concurrency(CONCURRENCY).session(ttl, ttl / 8);
        let worker = worker.data(self.counts.clone()).service_options(services);
        worker.handle_kind(KIND, handle).build().expect("a worker").start()
    }
}

fn job() -> NewJob {
    NewJob::new(KIND).queue(QUEUE).max_crashes(CRASHES_MAX)
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
