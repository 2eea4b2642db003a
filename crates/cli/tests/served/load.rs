//! Producers and workers over HTTP, as applications have them: the producers repeat what was not
//! answered, the workers are those of `windlass-worker`. All of it is recorded.

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
use windlass_kit::history::{MemoryJournal, History, Recorded};
use windlass_worker::{Ctx, Raw, State, Stop, Worker, WorkerHandle};

/// The queue all of it happens on.
pub(crate) const QUEUE: &str = "kills";
const KIND: &str = "work";
const PRODUCERS: u32 = 4;
const WORKERS: u32 = 3;
/// Jobs a worker runs at a time.
const CONCURRENCY: u32 = 8;
/// Jobs in one batch.
const BATCH_MAX: u64 = 4;
/// Different ordering keys; and as many unique ones.
const KEYS: u64 = 8;
/// Producers pause while this many acknowledged jobs are not completed.
const BACKLOG_MAX: u64 = 300;
/// The longest a handler takes, and the longest delay it asks for.
const HANDLER_MAX_MS: u64 = 15;
/// Between two tries of a call without an answer.
const AGAIN: Duration = Duration::from_millis(20);

/// Counters of all clients.
#[derive(Default)]
struct Counts {
    acknowledged: AtomicU64,
    completed: AtomicU64,
    stop: AtomicBool,
}

/// The load, until it is stopped.
pub(crate) struct Load {
    counts: Arc<Counts>,
    diary: Arc<MemoryJournal>,
    producers: tokio::sync::Mutex<JoinSet<()>>,
    workers: Vec<WorkerHandle>,
}

impl Load {
    pub(crate) fn start(engine: Arc<dyn Engine>, seed: u64) -> Self {
        let (counts, diary) = (Arc::<Counts>::default(), Arc::<MemoryJournal>::default());
        let client = |number| Recorded::new(engine.clone(), diary.clone(), number);
        let producer = |number: u32| Producer {
            engine: client(number),
            random: Seeded::new(seed.wrapping_mul(1_000_003) + u64::from(number)),
            counts: counts.clone(),
            ids: Vec::new(),
        };
        let worker = |number: u32| {
            Worker::builder(Arc::new(client(PRODUCERS + number)))
                .name(format!("w{number}"))
                .queue(QUEUE)
                .concurrency(CONCURRENCY)
                .session(Duration::from_secs(20), Duration::from_millis(500))
                .state(counts.clone())
                .handle_kind(KIND, handle)
                .build()
                .unwrap()
                .start()
        };
        let producers = (0..PRODUCERS).map(|number| producer(number).run()).collect();
        let workers = (0..WORKERS).map(worker).collect();
        Self { producers: tokio::sync::Mutex::new(producers), workers, counts, diary }
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.counts.acknowledged.load(Ordering::Relaxed)
    }

    pub(crate) fn completed(&self) -> u64 {
        self.counts.completed.load(Ordering::Relaxed)
    }

    /// Waits until every producer has an answer to all it asked for.
    pub(crate) async fn stop_producing(&self) {
        self.counts.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.producers.lock().await.join_next().await {
            ended.unwrap();
        }
    }

    /// Ends the workers, which must all be alive, and returns the history of all clients.
    pub(crate) async fn end(self) -> History {
        for worker in &self.workers {
            assert!(worker.health().healthy, "a worker did not recover: {:?}", worker.health());
            let lost = worker.stats().sessions_lost;
            assert_eq!(lost, 0, "a server that restarts at once loses no session");
            assert_eq!(worker.drain().await.undelivered, 0);
        }
        self.diary.history()
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
        while !self.counts.stop.load(Ordering::Relaxed) {
            let count = 1 + self.random.below(BATCH_MAX);
            let jobs: Vec<NewJob> = (0..count).map(|_| self.job()).collect();
            self.ids.extend(jobs.iter().filter_map(|job| job.id));
            self.enqueue(Enqueue::each(jobs)).await;
            if happens(&self.random, 100) {
                self.change().await;
            }
            while self.is_full() && !self.counts.stop.load(Ordering::Relaxed) {
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    fn is_full(&self) -> bool {
        let done = self.counts.completed.load(Ordering::Relaxed);
        self.counts.acknowledged.load(Ordering::Relaxed) > done + BACKLOG_MAX
    }

    fn job(&self) -> NewJob {
        let random = &self.random;
        let id = JobId::new(SystemClock.now(), random);
        let mut job = NewJob::new(KIND).queue(QUEUE).id(id).priority(random.below(3) as i32);
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
            ctx.follow_up(NewJob::new(KIND).queue(QUEUE))?;
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
