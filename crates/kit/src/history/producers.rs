//! Load for tests that kill processes, until it is stopped: producers that repeat unanswered calls, and how handlers
//! end. The tests add the workers, because the kit knows none.

use super::recorder::Recorded;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use windlass_core::engine::{Admin, Change, ChangeItem, Enqueue, Jobs};
use windlass_core::model::NewJob;
use windlass_core::policy::{OnConflict, Unique};
use windlass_core::random::{Random, Seeded};
use windlass_core::time::{Clock, SystemClock};
use windlass_core::{Error, JobId};

/// Maximum number of jobs per batch.
const BATCH_MAX: u64 = 4;
/// Number of ordering keys, and of unique keys.
const KEYS: u64 = 8;
/// Producers pause while this many acknowledged jobs are not completed.
const BACKLOG_MAX: u64 = 300;
/// Maximum duration of a handler, and maximum delay that it requests.
const HANDLER_MAX_MS: u64 = 15;
/// Pause between two attempts of an unanswered call.
const BACKOFF: Duration = Duration::from_millis(20);

/// Counters of all producers and handlers of a test.
#[derive(Debug, Default)]
pub struct LoadCounts {
    /// Jobs whose enqueue was acknowledged.
    pub acknowledged: AtomicU64,
    /// Jobs that a handler completed.
    pub completed: AtomicU64,
    stop: AtomicBool,
}

/// Running producers.
#[derive(Debug)]
pub struct Producers {
    counts: Arc<LoadCounts>,
    tasks: JoinSet<()>,
}

impl Producers {
    /// Starts a producer for each of these clients. Their jobs are copies of `template` with ids, and some with keys.
    pub fn start(
        clients: impl IntoIterator<Item = Recorded>,
        template: &NewJob,
        counts: &Arc<LoadCounts>,
        seed: u64,
    ) -> Self {
        let producer = |(number, engine)| Producer {
            engine,
            template: template.clone(),
            random: Seeded::new(seed.wrapping_mul(1_000_003) + number),
            counts: counts.clone(),
            ids: Vec::new(),
        };
        let tasks = (0..).zip(clients).map(producer).map(Producer::run).collect();
        Self { counts: counts.clone(), tasks }
    }

    /// Stops the producers, after a reply to every call.
    pub async fn stop(&mut self) {
        self.counts.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("no producer panics");
        }
    }
}

struct Producer {
    engine: Recorded,
    template: NewJob,
    random: Seeded,
    counts: Arc<LoadCounts>,
    ids: Vec<JobId>,
}

impl Producer {
    async fn run(mut self) {
        while !self.is_stopped() {
            let count = 1 + self.random.below(BATCH_MAX);
            let jobs: Vec<NewJob> = (0..count).map(|_| self.job()).collect();
            self.ids.extend(jobs.iter().filter_map(|job| job.id));
            self.enqueue(Enqueue::each(jobs)).await;
            if happens(&self.random, 100) {
                self.change().await;
            }
            while self.is_full() && !self.is_stopped() {
                tokio::time::sleep(BACKOFF).await;
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.counts.stop.load(Ordering::Relaxed)
    }

    fn is_full(&self) -> bool {
        let done = self.counts.completed.load(Ordering::Relaxed);
        self.counts.acknowledged.load(Ordering::Relaxed) > done + BACKLOG_MAX
    }

    fn job(&self) -> NewJob {
        let random = &self.random;
        let id = JobId::new(SystemClock.now(), random);
        let mut job = self.template.clone().id(id).priority(random.below(3) as i32);
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
                Err(Error::Unavailable { .. }) => tokio::time::sleep(BACKOFF).await,
                Err(error) => panic!("enqueue: {error}"),
            }
        }
    }

    /// Cancels or replays one of its jobs. The result does not matter: the history records it.
    async fn change(&self) {
        let id = self.ids[self.random.below(self.ids.len() as u64) as usize];
        let change = [Change::Cancel, Change::replay()][self.random.below(2) as usize].clone();
        let _ = self.engine.change(vec![ChangeItem::new(id, change)]).await;
    }
}

/// How a handler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerEnd {
    /// It completes.
    Complete,
    /// It completes with a follow-up.
    FollowUp,
    /// It fails and is retried after the delay.
    Retry(Duration),
    /// It runs again after the delay, without a failure.
    Snooze(Duration),
    /// It releases the job.
    Release,
    /// It fails permanently.
    Fail,
}

impl HandlerEnd {
    /// The duration and the end of an attempt, from its id and number. Follow-ups have no follow-ups, or the load would
    /// not end.
    pub fn of_attempt(id: JobId, attempt: u32, is_follow_up: bool) -> (Duration, Self) {
        let seed = id.as_bytes().iter().fold(attempt.into(), |seed: u64, byte| {
            seed.wrapping_mul(31).wrapping_add((*byte).into())
        });
        let random = Seeded::new(seed);
        let duration = || Duration::from_millis(random.below(HANDLER_MAX_MS));
        let (runs_for, delay) = (duration(), duration());
        let end = match random.below(100) {
            0..10 => Self::Retry(delay),
            10..15 => Self::Snooze(delay),
            15..20 => Self::Release,
            20..30 if !is_follow_up => Self::FollowUp,
            30..33 => Self::Fail,
            _ => Self::Complete,
        };
        (runs_for, end)
    }
}

/// Decides at random, `per_mille` times in a thousand.
fn happens(random: &dyn Random, per_mille: u64) -> bool {
    random.below(1_000) < per_mille
}
