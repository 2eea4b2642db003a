//! A producer: enqueues batches with ordering keys, unique keys and delays, retries unanswered calls, and
//! cancels or changes some of its jobs.

use super::client::Order;
use super::graph;
use super::limits;
use super::stage::{Stage, left, payload};
use super::{BACKOFF, CHANGE_CODES, KINDS, happens};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use windlass_core::engine::{
    Admin as _, Change, ChangeItem, Enqueue, Enqueued, Item, Jobs as _, Mode,
};
use windlass_core::limits::MAX_CRASHES_MAX;
use windlass_core::model::{Due, NewJob};
use windlass_core::policy::{OnConflict, Unique};
use windlass_core::random::{Random as _, Seeded};
use windlass_core::time::{Clock as _, SystemClock};
use windlass_core::{Error, JobId};
use windlass_kit::history::Recorded;

/// Maximum number of jobs in a batch.
const BATCH_MAX: u64 = 8;
/// Maximum pause between two batches.
const PAUSE_MAX_MS: u64 = 50;
/// Probability that a batch is a graph, in thousandths.
const GRAPHS: u64 = 100;
/// Number of distinct ordering keys, and of unique keys.
const KEYS: u64 = 24;
/// Maximum delay of a job.
const DELAY_MAX_MS: u64 = 1_500;
/// Producers pause while there are more unfinished jobs than this.
const BACKLOG_MAX: u64 = 400;
/// Number of batches between two checks of the backlog.
const LOOK_EVERY: u64 = 8;
/// Interval between checks of the backlog while producers pause.
const LOOK_AGAIN_MS: u64 = 200;
/// Delay before an unanswered call is retried.
const AGAIN_MS: u64 = 40;
/// Maximum number of attempts for an unanswered batch after the faults have ended.
const TRIES_MAX: u32 = 100;
/// Maximum number of its jobs that a producer remembers.
const IDS_MAX: usize = 500;

pub(super) struct Producer {
    stage: Arc<Stage>,
    engine: Recorded,
    random: Seeded,
    ids: Vec<JobId>,
}

impl Producer {
    pub(super) fn new(stage: Arc<Stage>, number: u64) -> Self {
        let (engine, random) = (stage.client(), stage.random(number));
        Self { stage, engine, random, ids: Vec::new() }
    }

    pub(super) async fn run(mut self) {
        let mut batches = 0;
        while self.stage.order() == Order::Work {
            let jobs = match self.stage.spec.limits && !happens(&self.random, 100) {
                true => self.missing_jobs().await,
                false if self.stage.spec.flows && happens(&self.random, GRAPHS) => {
                    let jobs = 2 + self.random.below(graph::JOBS_MAX - 1);
                    graph::random((0..jobs).map(|_| self.plain_job()), &self.random)
                }
                false => self.some_jobs(),
            };
            self.enqueue(jobs).await;
            if happens(&self.random, 150) {
                self.change().await;
            }
            batches += 1;
            if batches % LOOK_EVERY == 0 && !self.stage.spec.limits {
                self.wait_for_room().await;
            }
            self.stage.rest(self.random.below(PAUSE_MAX_MS), Order::Rest).await;
        }
    }

    /// Pauses while workers cannot keep up.
    async fn wait_for_room(&self) {
        let full = || async {
            left(&*self.stage.engine, &self.stage.spec.queue).await.unwrap_or(u64::MAX)
                > BACKLOG_MAX
        };
        while self.stage.order() == Order::Work && full().await {
            self.stage.rest(LOOK_AGAIN_MS, Order::Rest).await;
        }
    }

    fn some_jobs(&self) -> Vec<NewJob> {
        let count = 1 + self.random.below(BATCH_MAX);
        (0..count).map(|_| self.job()).collect()
    }

    /// The jobs that the groups of all limits lack, so that each is always busy.
    async fn missing_jobs(&self) -> Vec<NewJob> {
        let call = self.stage.engine.limits();
        let stats = self.stage.ask("limits", call, &[]).await.unwrap_or_default();
        let missing = limits::missing(&self.stage.spec.queue, &stats);
        let job = |(kind, group): (String, &str)| {
            let id = JobId::new(SystemClock.now(), &self.random);
            NewJob::new(kind)
                .queue(self.stage.spec.queue.clone())
                .id(id)
                .payload(payload(id, &self.random))
                .group(group)
                .max_attempts(5)
                .max_crashes(MAX_CRASHES_MAX)
                .backoff(BACKOFF)
        };
        missing.into_iter().map(job).collect()
    }

    /// Enqueues a batch, and retries it while it is unanswered or busy.
    async fn enqueue(&mut self, jobs: Vec<NewJob>) {
        if jobs.is_empty() {
            return;
        }
        for id in jobs.iter().filter_map(|job| job.id) {
            if self.ids.len() == IDS_MAX {
                self.ids.swap_remove(self.random.below(IDS_MAX as u64) as usize);
            }
            self.ids.push(id);
        }
        let is_graph = jobs.iter().any(|job| !job.after.is_empty());
        let mut batch = match is_graph || happens(&self.random, 200) {
            true => Enqueue::all_or_nothing(jobs),
            false => Enqueue::each(jobs),
        };
        let mut tries = 0;
        loop {
            let call = self.engine.enqueue(batch.clone());
            if let Some(items) = self.stage.ask("enqueue", call, &[]).await {
                self.enqueued(&items);
                keep_busy(&mut batch, &items);
                if batch.jobs.is_empty() {
                    return;
                }
            }
            tries += u32::from(self.stage.order() != Order::Work);
            if tries > TRIES_MAX {
                return self.stage.bad("enqueue", "no answer, although the faults are over");
            }
            self.stage.rest(AGAIN_MS, Order::Stop).await;
        }
    }

    fn enqueued(&self, items: &[Item<Enqueued>]) {
        for item in items {
            let stored = self.stage.expected("enqueue", item.clone(), &["duplicate", "aborted"]);
            self.stage.acknowledged.fetch_add(u64::from(stored.is_some()), Ordering::Relaxed);
        }
    }

    /// Maximum number of lost leases. A job that died of lost leases and was then removed leaves nothing to
    /// judge, so in runs with short retention most jobs get a limit that they never reach.
    fn max_crashes(&self) -> u32 {
        let few = self.random.below(4) as u32;
        let endless = self.stage.spec.retention_ms.is_some() && happens(&self.random, 700);
        if endless { MAX_CRASHES_MAX } else { few }
    }

    fn job(&self) -> NewJob {
        let random = &self.random;
        let mut job = self.plain_job();
        if happens(random, 350) {
            job = job.key(format!("k{}", random.below(KEYS)));
        }
        if happens(random, 100) {
            let on = [OnConflict::Existing, OnConflict::Reject][random.below(2) as usize];
            job = job.unique(Unique::by(format!("u{}", random.below(KEYS))).on_conflict(on));
        }
        if happens(random, 150) {
            job = job.due(Due::After(random.below(DELAY_MAX_MS)));
        }
        job
    }

    /// A job without a key and a delay.
    fn plain_job(&self) -> NewJob {
        let random = &self.random;
        let kind = KINDS[random.below(KINDS.len() as u64) as usize];
        let id = JobId::new(SystemClock.now(), random);
        NewJob::new(kind)
            .queue(self.stage.spec.queue.clone())
            .id(id)
            .payload(payload(id, random))
            .priority(random.below(3) as i32)
            .max_attempts(2 + random.below(4) as u32)
            .max_crashes(self.max_crashes())
            .backoff(BACKOFF)
    }

    /// Cancels, replays, reprioritises or promotes one of its jobs. Impossible changes are refused; the history
    /// records the result, or its absence.
    async fn change(&self) {
        if self.ids.is_empty() {
            return;
        }
        let id = self.ids[self.random.below(self.ids.len() as u64) as usize];
        let change = match self.random.below(4) {
            0 => Change::Cancel,
            1 => Change::replay(),
            2 => Change::Reprioritise(self.random.below(5) as i32),
            _ => Change::Promote,
        };
        let call = self.engine.change(vec![ChangeItem::new(id, change)]);
        for item in self.stage.ask("change", call, &[]).await.into_iter().flatten() {
            self.stage.expected("change", item, &CHANGE_CODES);
        }
    }
}

/// Keeps only the jobs of a batch that must be retried because they were busy.
fn keep_busy(batch: &mut Enqueue, items: &[Item<Enqueued>]) {
    let is_busy = |item: &Item<Enqueued>| matches!(item, Err(Error::Busy { .. }));
    let whole = batch.mode == Mode::AllOrNothing && items.iter().any(is_busy);
    let mut items = items.iter();
    batch.jobs.retain(|_| items.next().is_some_and(is_busy) || whole);
}
