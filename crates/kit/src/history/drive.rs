//! Producers and workers that create a history in one process: they lose replies, repeat calls, stall until
//! their leases expire, and die. Independent of real time, and bounded in everything.

mod lossy;
mod producer;
mod worker;

use super::CheckedLimit;
use super::checker::Options;
use super::record::History;
use super::recorder::{MemoryJournal, Recorded};
use super::snapshot::Snapshot;
use crate::subject::Subject;
use lossy::Lossy;
use producer::Producer;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tokio::task::JoinSet;
use windlass_core::engine::{
    Claim, Claimant, ClaimedJob, Configure, Jobs, MaintainRequest, OpenSession, Outcome, Settle,
    SettleItem, Work,
};
use windlass_core::limits::{CLAIM_BATCH_MAX, CRASH_BACKOFF_CAP_MS, MAINTAIN_BUDGET_MAX};
use windlass_core::model::{Limit, QueuePatch, Rule};
use windlass_core::policy::Retention;
use windlass_core::random::{Random, Seeded};
use windlass_core::sync::lock;
use windlass_core::time::{MINUTE_MS, SECOND_MS};
use worker::Worker;

/// The queue that all clients use.
const QUEUE: &str = "drive";
/// The queue of some of the jobs that run after others.
const OTHER: &str = "drive_other";
/// Session TTL without a heartbeat.
const TTL_MS: u64 = 12 * SECOND_MS;
/// How far the clock advances at a time while clients are running.
const TICK_MS: u64 = TTL_MS / 3;
/// The clock advances after this many rounds of all workers together.
const ROUNDS_PER_TICK: u64 = 8;
/// The clock stops after this many ticks: ids must stay close to the current time, and nothing may exceed its
/// retention.
const TICKS_MAX: u64 = 10_000;
/// Maximum number of rounds of the final drain.
const DRAIN_ROUNDS_MAX: u32 = 1_000;

/// The workload of a run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Load {
    /// Seed of all random decisions.
    pub seed: u64,
    /// Number of concurrent producers.
    pub producers: u32,
    /// Number of concurrent workers.
    pub workers: u32,
    /// Number of batches that each producer enqueues.
    pub batches: u32,
    /// Number of different ordering keys, and of unique keys.
    pub keys: u64,
    /// Calls without a reply, per mille: never sent, reply lost, or sent late.
    pub lost: u64,
    /// Rounds of a worker, per mille, in which it dies with everything it holds.
    pub deaths: u64,
    /// Rounds of a worker, per mille, that begin a stall that may outlast its leases.
    pub stalls: u64,
    /// How long ended jobs are kept; `None` means longer than the run.
    pub retention_ms: Option<u64>,
    /// The rule of a limit by group, for all jobs.
    pub limit: Option<Rule>,
    /// Whether some jobs run after others.
    pub dependencies: bool,
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
            limit: None,
            dependencies: false,
        }
    }

    /// Sets the number of batches per producer.
    #[must_use]
    pub const fn batches(mut self, batches: u32) -> Self {
        self.batches = batches;
        self
    }

    /// Sets the number of producers and workers.
    #[must_use]
    pub const fn clients(mut self, producers: u32, workers: u32) -> Self {
        self.producers = producers;
        self.workers = workers;
        self
    }

    /// Removes ended jobs after this time, while producers replay and discard them.
    #[must_use]
    pub const fn retention_ms(mut self, ms: u64) -> Self {
        self.retention_ms = Some(ms);
        self
    }

    /// Runs all jobs under a limit by group with this rule.
    #[must_use]
    pub const fn limit(mut self, rule: Rule) -> Self {
        self.limit = Some(rule);
        self
    }

    /// Lets some jobs run after others.
    #[must_use]
    pub const fn dependencies(mut self) -> Self {
        self.dependencies = true;
        self
    }

    /// The checker options for this workload.
    pub fn options(&self) -> Options {
        let limit = |rule| CheckedLimit::new(QUEUE, Limit::new(rule).by_group());
        let mut options = Options::new();
        options.limits.extend(self.limit.map(limit));
        if self.retention_ms.is_some() { options.retention() } else { options }
    }

    /// Sets the rates of faults, per mille: calls without a reply, deaths and stalls of workers.
    #[must_use]
    pub const fn faults(mut self, lost: u64, deaths: u64, stalls: u64) -> Self {
        (self.lost, self.deaths, self.stalls) = (lost, deaths, stalls);
        self
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Driven {
    /// What the clients observed.
    pub history: History,
    /// The final states of the jobs.
    pub end: Snapshot,
}

/// State shared by all clients of a run.
struct Stage {
    subject: Subject,
    load: Load,
    diary: Arc<MemoryJournal>,
    lossy: Arc<Lossy>,
    clients: AtomicU32,
    producing: AtomicU32,
    rounds: AtomicU64,
    /// Jobs held by dead workers. Reports under their leases are sent occasionally, and for all of them at
    /// the end.
    graves: Mutex<Vec<ClaimedJob>>,
}

impl Stage {
    /// The engine as seen by a new client, over a network that loses messages.
    fn client(&self) -> Recorded {
        let client = self.clients.fetch_add(1, Ordering::Relaxed);
        Recorded::new(self.lossy.clone(), self.diary.clone(), client)
    }

    fn random(&self, who: u64) -> Seeded {
        Seeded::new(self.load.seed.wrapping_mul(1_000_003).wrapping_add(who))
    }

    fn bury(&self, jobs: impl IntoIterator<Item = ClaimedJob>) {
        lock(&self.graves).extend(jobs);
    }

    /// A job of a dead worker, for a late report.
    fn ghost(&self, random: &dyn Random) -> Option<ClaimedJob> {
        let graves = lock(&self.graves);
        graves.get(random.below(graves.len() as u64) as usize).cloned()
    }

    /// Called at the start of a worker's round: time advances with the work done.
    async fn round(&self) {
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        if round.is_multiple_of(ROUNDS_PER_TICK) && round / ROUNDS_PER_TICK < TICKS_MAX {
            self.pass(TICK_MS).await;
        }
        tokio::task::yield_now().await;
    }

    /// Advances the clock and runs all due maintenance.
    async fn pass(&self, ms: u64) {
        self.subject.clock.advance(ms);
        for work in Work::ALL {
            let request = MaintainRequest::new(work, MAINTAIN_BUDGET_MAX);
            while self.subject.engine.maintain(request).await.expect("maintain").value.more {}
        }
    }

    /// Lets every lease expire and completes the remaining jobs until there are none.
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
                let claim = Claim::new(by, QUEUE, CLAIM_BATCH_MAX).queue(OTHER, CLAIM_BATCH_MAX);
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
        let ghosts = std::mem::take(&mut *lock(&self.graves));
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

/// Runs the workload on an empty engine and reads the final states. Panics if the engine refuses a call that
/// it must accept; use [`check`](super::check) to check the result.
pub async fn drive(subject: Subject, load: Load) -> Driven {
    let mut changes = Vec::new();
    if let Some(ms) = load.retention_ms {
        for queue in [QUEUE, OTHER] {
            let patch = QueuePatch::retention(Retention::uniform_ms(ms));
            changes.push(Configure::queue(queue, patch));
        }
    }
    if let Some(rule) = load.limit {
        changes.push(Configure::limit(QUEUE, Limit::new(rule).by_group()));
        changes.push(Configure::queue(QUEUE, QueuePatch::limits([QUEUE])));
    }
    let set = subject.engine.configure(changes).await;
    set.expect("configure").value.into_iter().for_each(|item| item.expect("configure"));
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
    for queue in [QUEUE, OTHER] {
        end.add_queue(engine, queue).await.expect("list");
    }
    Driven { history, end }
}

/// Decides randomly whether an event with this rate, per mille, happens now.
fn happens(random: &dyn Random, per_mille: u64) -> bool {
    random.below(1_000) < per_mille
}
