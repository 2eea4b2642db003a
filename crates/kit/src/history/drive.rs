//! Producers and workers that make a history in one process: they lose replies, repeat themselves,
//! stall until their leases are over, and die. No clock on the wall, and bounded in everything.

mod lossy;
mod producer;
mod worker;

use super::checker::Options;
use super::record::History;
use super::recorder::{Diary, Recorded};
use super::snapshot::Snapshot;
use crate::subject::Subject;
use lossy::Lossy;
use producer::Producer;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tokio::task::JoinSet;
use windlass_core::engine::{
    Claim, Claimant, ClaimedJob, Configure, Hot, MaintainRequest, OpenSession, Outcome, Settle,
    SettleItem, Work,
};
use windlass_core::limits::{CLAIM_BATCH_MAX, CRASH_BACKOFF_CAP_MS, MAINTAIN_BUDGET_MAX};
use windlass_core::model::QueuePatch;
use windlass_core::policy::Retention;
use windlass_core::random::{Random, Seeded};
use windlass_core::time::{MINUTE_MS, SECOND_MS};
use worker::Worker;

/// The queue all of it happens on.
const QUEUE: &str = "drive";
/// How long a session lives without a heartbeat.
const TTL_MS: u64 = 12 * SECOND_MS;
/// How far the clock goes at once while work is going on.
const TICK_MS: u64 = TTL_MS / 3;
/// The clock goes on after so many rounds of all workers together.
const ROUNDS_PER_TICK: u64 = 8;
/// The clock stops after so many ticks: ids must stay near now, and nothing may pass its retention.
const TICKS_MAX: u64 = 10_000;
/// Draining gives up after so many rounds.
const DRAIN_ROUNDS_MAX: u32 = 1_000;

/// What to do to an engine.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Load {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// Producers at the same time.
    pub producers: u32,
    /// Workers at the same time.
    pub workers: u32,
    /// Batches each producer enqueues.
    pub batches: u32,
    /// Different ordering keys; and as many unique keys.
    pub keys: u64,
    /// Of a thousand calls, so many get no answer: never sent, answer lost, or sent late.
    pub lost: u64,
    /// Of a thousand rounds of a worker, so many are its last: it dies with all it holds.
    pub deaths: u64,
    /// Of a thousand rounds of a worker, so many begin a stall that may outlast its leases.
    pub stalls: u64,
    /// How long ended jobs are kept; `None` for longer than the run takes.
    pub retention_ms: Option<u64>,
}

impl Load {
    /// A small mix of everything.
    pub const fn new(seed: u64) -> Self {
        Self {
            seed,
            producers: 3,
            workers: 4,
            batches: 40,
            keys: 4,
            lost: 100,
            deaths: 30,
            stalls: 40,
            retention_ms: None,
        }
    }

    /// With so many batches by each producer.
    #[must_use]
    pub const fn batches(mut self, batches: u32) -> Self {
        self.batches = batches;
        self
    }

    /// With so many producers and workers.
    #[must_use]
    pub const fn clients(mut self, producers: u32, workers: u32) -> Self {
        self.producers = producers;
        self.workers = workers;
        self
    }

    /// With ended jobs removed after this time, while producers replay and discard them.
    #[must_use]
    pub const fn retention_ms(mut self, ms: u64) -> Self {
        self.retention_ms = Some(ms);
        self
    }

    /// What a judge of this load must know.
    pub const fn options(&self) -> Options {
        let options = Options::new();
        if self.retention_ms.is_some() { options.retention() } else { options }
    }

    /// With faults so often, in a thousand: calls without an answer, deaths and stalls of workers.
    #[must_use]
    pub const fn faults(mut self, lost: u64, deaths: u64, stalls: u64) -> Self {
        (self.lost, self.deaths, self.stalls) = (lost, deaths, stalls);
        self
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Driven {
    /// What the clients saw.
    pub history: History,
    /// Where the jobs stand at the end.
    pub end: Snapshot,
}

/// What all clients of a run share.
struct Stage {
    subject: Subject,
    load: Load,
    diary: Arc<Diary>,
    lossy: Arc<Lossy>,
    clients: AtomicU32,
    producing: AtomicU32,
    rounds: AtomicU64,
    /// What the dead held. Their ghosts report now and then, and all of them in the end.
    graves: Mutex<Vec<ClaimedJob>>,
}

impl Stage {
    /// The engine as a new client sees it, over a network that loses things.
    fn client(&self) -> Recorded {
        let client = self.clients.fetch_add(1, Ordering::Relaxed);
        Recorded::new(self.lossy.clone(), self.diary.clone(), client)
    }

    fn random(&self, who: u64) -> Seeded {
        Seeded::new(self.load.seed.wrapping_mul(1_000_003).wrapping_add(who))
    }

    fn bury(&self, jobs: impl IntoIterator<Item = ClaimedJob>) {
        self.graves.lock().unwrap_or_else(PoisonError::into_inner).extend(jobs);
    }

    /// Some job of some dead worker that may yet stir.
    fn ghost(&self, random: &dyn Random) -> Option<ClaimedJob> {
        let graves = self.graves.lock().unwrap_or_else(PoisonError::into_inner);
        graves.get(random.below(graves.len() as u64) as usize).cloned()
    }

    /// A worker begins a round: time goes on by the work that is done.
    async fn round(&self) {
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        if round.is_multiple_of(ROUNDS_PER_TICK) && round / ROUNDS_PER_TICK < TICKS_MAX {
            self.pass(TICK_MS).await;
        }
        tokio::task::yield_now().await;
    }

    /// Moves the clock and does everything that fell due.
    async fn pass(&self, ms: u64) {
        self.subject.clock.advance(ms);
        for work in Work::ALL {
            let request = MaintainRequest::new(work, MAINTAIN_BUDGET_MAX);
            while self.subject.engine.maintain(request).await.expect("maintain").value.more {}
        }
    }

    /// Lets every lease run out and completes what is left, until nothing is.
    async fn drain(&self) {
        let client = self.clients.fetch_add(1, Ordering::Relaxed);
        let engine = Recorded::new(self.subject.engine.clone(), self.diary.clone(), client);
        let mut idle = 0;
        for _ in 0..DRAIN_ROUNDS_MAX {
            self.pass(TTL_MS.max(CRASH_BACKOFF_CAP_MS) + MINUTE_MS).await;
            let opened = engine.open_session(OpenSession::new("drain")).await;
            let session = opened.expect("open_session").value.id;
            let mut done = 0;
            for claim_no in 1.. {
                let by = Claimant::Session { session: session.clone(), claim_no };
                let claim = Claim::new(by, QUEUE, CLAIM_BATCH_MAX);
                let jobs = engine.claim(claim).await.expect("claim").value.jobs;
                if jobs.is_empty() || claim_no > u64::from(DRAIN_ROUNDS_MAX) {
                    break;
                }
                done += jobs.len();
                complete(&engine, jobs).await;
            }
            engine.close_session(session).await.expect("close_session");
            idle = if done == 0 { idle + 1 } else { 0 };
            if idle == 2 {
                break;
            }
        }
        let ghosts =
            std::mem::take(&mut *self.graves.lock().unwrap_or_else(PoisonError::into_inner));
        for jobs in ghosts.chunks(CLAIM_BATCH_MAX as usize) {
            complete(&engine, jobs.to_vec()).await;
        }
    }
}

async fn complete(engine: &Recorded, jobs: Vec<ClaimedJob>) {
    let items = jobs.into_iter();
    let items = items.map(|job| SettleItem::new(job.header.id, job.lease, Outcome::DONE));
    engine.settle(Settle::new(items)).await.expect("settle");
}

/// Works an empty engine over and reads what came of it. Panics if the engine refuses what it must
/// do; whether it did it well is for [`check`](super::check) to say.
pub async fn drive(subject: Subject, load: Load) -> Driven {
    if let Some(ms) = load.retention_ms {
        let patch = QueuePatch::retention(Retention::uniform(ms));
        let set = subject.engine.configure(vec![Configure::queue(QUEUE, patch)]).await;
        set.expect("configure").value.into_iter().for_each(|item| item.expect("configure"));
    }
    let seeded = Arc::new(Seeded::new(load.seed));
    let lossy = Arc::new(Lossy::new(subject.engine.clone(), seeded, load.lost));
    let stage = Arc::new(Stage {
        subject,
        load,
        diary: Arc::default(),
        lossy,
        clients: AtomicU32::new(1),
        producing: AtomicU32::new(load.producers),
        rounds: AtomicU64::new(0),
        graves: Mutex::default(),
    });
    let mut tasks = JoinSet::new();
    for number in 0..load.producers {
        let producer = Producer::new(stage.clone(), number);
        tasks.spawn(producer.run());
    }
    for number in 0..load.workers {
        let worker = Worker::new(stage.clone(), load.producers + number);
        tasks.spawn(worker.run());
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("a client panicked");
    }
    stage.lossy.settle_down().await;
    stage.drain().await;
    let history = stage.diary.history();
    let engine = &*stage.subject.engine;
    let mut end = Snapshot::read(engine, history.wanted()).await.expect("get");
    end.add_queue(engine, QUEUE).await.expect("list");
    Driven { history, end }
}

/// Whether something that happens so often in a thousand happens now.
fn happens(random: &dyn Random, per_mille: u64) -> bool {
    random.below(1_000) < per_mille
}
