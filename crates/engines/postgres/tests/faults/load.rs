//! Producers and workers, as applications have them: the producers repeat what was not answered, the
//! workers are those of `windlass-worker`. All of it is recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use windlass_core::engine::{Admin as _, Change, ChangeItem, Engine, Enqueue, Jobs as _};
use windlass_core::model::NewJob;
use windlass_core::policy::{OnConflict, Unique};
use windlass_core::random::{Random, Seeded};
use windlass_core::time::{Clock as _, SystemClock};
use windlass_core::{Error, JobId};
use windlass_kit::history::{Journal, Recorded};
use windlass_services::ServiceOptions;
use windlass_worker::{Ctx, Raw, State, Stop, Worker, WorkerHandle};

/// The queue all of it happens on.
pub(crate) const QUEUE: &str = "faults";
const KIND: &str = "work";
/// Jobs a worker runs at a time.
const CONCURRENCY: u32 = 8;
/// Jobs in one batch.
const BATCH_MAX: u64 = 4;
/// Different ordering keys; and as many unique ones.
const KEYS: u64 = 8;
/// Crashes a job may cause: workers die here of other things than their jobs.
const CRASHES_MAX: u32 = 1_000;
/// Producers pause while this many acknowledged jobs are not completed.
const BACKLOG_MAX: u64 = 300;
/// The longest a handler takes, and the longest delay it asks for.
const HANDLER_MAX_MS: u64 = 15;
/// Between two tries of a call without an answer.
const AGAIN: Duration = Duration::from_millis(20);
/// How soon another process takes the services over.
const LEAD_TTL_MS: u64 = 2_000;

/// Counters of all clients.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) acknowledged: AtomicU64,
    pub(crate) completed: AtomicU64,
    stop: AtomicBool,
}

/// Those who work on one engine, each a client with a number of its own from `first` on.
pub(crate) struct Clients {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) first: u32,
    pub(crate) seed: u64,
}

impl Clients {
    fn client(&self, number: u32) -> Recorded {
        Recorded::new(self.engine.clone(), self.journal.clone(), self.first + number)
    }

    /// Starts this many producers.
    pub(crate) fn produce(&self, producers: u32) -> Producers {
        let producer = |number: u32| Producer {
            engine: self.client(number),
            random: Seeded::new(self.seed.wrapping_mul(1_000_003) + u64::from(number)),
            counts: self.counts.clone(),
            ids: Vec::new(),
        };
        let tasks = (0..producers).map(|number| producer(number).run()).collect();
        Producers { counts: self.counts.clone(), tasks }
    }

    /// Starts a worker, the services inside, whose session lives so long without it.
    pub(crate) fn work(&self, number: u32, ttl: Duration) -> WorkerHandle {
        let mut services = ServiceOptions::default();
        services.lead_ttl_ms = LEAD_TTL_MS;
        services.reclaim.interval_ms = 100;
        services.compact.interval_ms = 500;
        let worker = Worker::builder(Arc::new(self.client(number)));
        let worker = worker.name(format!("w{}", self.first + number)).queue(QUEUE);
        let worker = worker.concurrency(CONCURRENCY).session(ttl, ttl / 8);
        let worker = worker.state(self.counts.clone()).service_options(services);
        worker.handle_kind(KIND, handle).build().expect("a worker").start()
    }
}

/// The producers, until they are stopped.
pub(crate) struct Producers {
    counts: Arc<Counts>,
    tasks: JoinSet<()>,
}

impl Producers {
    /// Waits until every producer has an answer to all it asked for.
    pub(crate) async fn stop(&mut self) {
        self.counts.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("no producer panics");
        }
    }
}

struct Producer {
    engine: Recorded,
    random: Seeded,
    counts: Arc<Counts>,
    ids: Vec<JobId>,
}

impl Producer {
    async fn run(mut self) {
        while !self.stopped() {
            let count = 1 + self.random.below(BATCH_MAX);
            let jobs: Vec<NewJob> = (0..count).map(|_| self.job()).collect();
            self.ids.extend(jobs.iter().filter_map(|job| job.id));
            self.enqueue(Enqueue::each(jobs)).await;
            if happens(&self.random, 100) {
                self.change().await;
            }
            while self.is_full() && !self.stopped() {
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    fn stopped(&self) -> bool {
        self.counts.stop.load(Ordering::Relaxed)
    }

    fn is_full(&self) -> bool {
        let done = self.counts.completed.load(Ordering::Relaxed);
        self.counts.acknowledged.load(Ordering::Relaxed) > done + BACKLOG_MAX
    }

    fn job(&self) -> NewJob {
        let random = &self.random;
        let id = JobId::new(SystemClock.now(), random);
        let mut job = NewJob::new(KIND).queue(QUEUE).id(id).priority(random.below(3) as i32);
        job = job.max_crashes(CRASHES_MAX);
        if happens(random, 300) {
            job = job.key(format!("k{}", random.below(KEYS)));
        }
        if happens(random, 150) {
            let on = [OnConflict::Existing, OnConflict::Reject][random.below(2) as usize];
            job = job.unique(Unique::by(format!("u{}", random.below(KEYS))).on_conflict(on));
        }
        job
    }

    /// Enqueues a batch, and repeats the call until it is answered.
    async fn enqueue(&self, batch: Enqueue) {
        loop {
            match self.engine.enqueue(batch.clone()).await {
                Ok(reply) => {
                    let stored = reply.value.iter().filter(|item| item.is_ok()).count() as u64;
                    self.counts.acknowledged.fetch_add(stored, Ordering::Relaxed);
                    return;
                }
                Err(Error::Unavailable { .. }) => tokio::time::sleep(AGAIN).await,
                Err(error) => panic!("enqueue: {error}"),
            }
        }
    }

    /// Changes its mind about some job of its own. Whatever is impossible is refused, and an answer or
    /// none: the history has it.
    async fn change(&self) {
        let id = self.ids[self.random.below(self.ids.len() as u64) as usize];
        let change = [Change::Cancel, Change::replay()][self.random.below(2) as usize].clone();
        let _ = self.engine.change(vec![ChangeItem::new(id, change)]).await;
    }
}

/// Ends in every way a handler can end, mostly well.
async fn handle(_: Raw, ctx: Ctx, State(counts): State<Arc<Counts>>) -> Result<(), Stop> {
    let seed = ctx.id().as_bytes().iter().fold(ctx.attempt().into(), |seed: u64, byte| {
        seed.wrapping_mul(31).wrapping_add((*byte).into())
    });
    let random = Seeded::new(seed);
    ctx.progress(1, Some(2), "half");
    tokio::time::sleep(Duration::from_millis(random.below(HANDLER_MAX_MS))).await;
    let delay = Duration::from_millis(random.below(HANDLER_MAX_MS));
    match random.below(100) {
        0..10 => return Err(Stop::retry("by chance").after(delay)),
        10..15 => return Err(Stop::snooze(delay)),
        15..20 => return Err(Stop::release()),
        // Follow-ups have none of their own, or there would be no end to it.
        20..30 if ctx.header().parent.is_none() => {
            ctx.follow_up(NewJob::new(KIND).queue(QUEUE).max_crashes(CRASHES_MAX))?;
        }
        30..33 => return Err(Stop::fatal("by chance")),
        _ => {}
    }
    counts.completed.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Whether something that happens so often in a thousand happens now.
fn happens(random: &dyn Random, per_mille: u64) -> bool {
    random.below(1_000) < per_mille
}
