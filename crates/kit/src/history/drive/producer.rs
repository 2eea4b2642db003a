//! A producer: enqueues batches, repeats unanswered ones, and changes some of its jobs.

use super::{OTHER, QUEUE, Stage, happens};
use crate::history::recorder::Recorded;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use windlass_core::engine::{Admin, Change, ChangeItem, Enqueue, Jobs};
use windlass_core::limits::MAX_CRASHES_MAX;
use windlass_core::model::{Dependency, NewJob, OnFailure, State};
use windlass_core::policy::{OnConflict, Unique};
use windlass_core::random::{Random, Seeded};
use windlass_core::{JobId, Timestamp};

/// Maximum number of jobs per batch.
const BATCH_MAX: u64 = 3;
/// If ended jobs are removed, a producer changes one of this many jobs that it enqueued last.
const RECENT: usize = 25;
/// How often an unanswered batch is sent before it is given up.
const TRIES_MAX: u32 = 4;

pub(super) struct Producer {
    stage: Arc<Stage>,
    engine: Recorded,
    random: Seeded,
    ids: Vec<JobId>,
    /// Batches without a reply, and how often they were sent.
    unanswered: Vec<(Enqueue, u32)>,
}

impl Producer {
    pub(super) fn new(stage: Arc<Stage>, number: u32) -> Self {
        let (engine, random) = (stage.client(), stage.random(number.into()));
        Self { stage, engine, random, ids: Vec::new(), unanswered: Vec::new() }
    }

    pub(super) async fn run(mut self) {
        for _ in 0..self.stage.load.batches {
            let now = self.engine.health().await.expect("health").now;
            let count = 1 + self.random.below(BATCH_MAX);
            let jobs: Vec<NewJob> = (0..count).map(|_| self.job(now)).collect();
            self.ids.extend(jobs.iter().filter_map(|job| job.id));
            self.enqueue(Enqueue::each(jobs), 1).await;
            if happens(&self.random, 300) {
                self.repeat().await;
            }
            let changes = match self.stage.load.retention_ms {
                Some(_) => 3,
                None => u32::from(happens(&self.random, 150)),
            };
            for _ in 0..changes {
                self.change().await;
            }
            // Workers keep up with some producers and fall behind others.
            for _ in 0..self.random.below(12) {
                tokio::task::yield_now().await;
            }
        }
        while !self.unanswered.is_empty() {
            self.repeat().await;
        }
        self.stage.producing.fetch_sub(1, Ordering::SeqCst);
    }

    fn job(&self, now: Timestamp) -> NewJob {
        let random = &self.random;
        let kind = if happens(random, 500) { "one" } else { "two" };
        let (keys, removed) = (self.stage.load.keys, self.stage.load.retention_ms.is_some());
        let max_crashes = random.below(5) as u32;
        // A job that was removed after too many lost leases leaves no trace. For half of the jobs that is
        // ruled out.
        let endless = removed && max_crashes.is_multiple_of(2);
        let mut job = NewJob::new(kind)
            .queue(QUEUE)
            .id(JobId::new(now, random))
            .priority(random.below(3) as i32)
            .max_attempts(1 + random.below(5) as u32)
            .max_crashes(if endless { MAX_CRASHES_MAX } else { max_crashes });
        if happens(random, 500) {
            job = job.key(format!("k{}", random.below(keys)));
        }
        if self.stage.load.limit.is_some() {
            job = job.group(format!("g{}", random.below(keys))).cost(1 + random.below(2) as u32);
        }
        if self.stage.load.dependencies && happens(random, 600) {
            return self.dependent(job);
        }
        if happens(random, 250) {
            let on = [OnConflict::Existing, OnConflict::Replace, OnConflict::Reject];
            let unique = Unique::by(format!("u{}", random.below(keys)));
            let on = on[random.below(3) as usize];
            // A replacement with an unknown outcome may have cancelled any job, which would excuse any loss.
            let on = if removed && on == OnConflict::Replace { OnConflict::Existing } else { on };
            job = job.unique(unique.on_conflict(on));
        }
        job
    }

    /// Lets a job run after some of those before it. A job that was refused or discarded is not there to wait for, and the
    /// enqueue is refused.
    fn dependent(&self, mut job: NewJob) -> NewJob {
        if self.stage.load.limit.is_none() && happens(&self.random, 300) {
            // Keys order the jobs of one queue.
            (job.queue, job.key) = (OTHER.into(), None);
        }
        let policies = OnFailure::ALL;
        let mut after = Vec::new();
        for _ in 0..=self.random.below(2) {
            let among = self.ids.len().min(RECENT);
            if among == 0 {
                break;
            }
            let id = self.ids[self.ids.len() - 1 - self.random.below(among as u64) as usize];
            if !after.contains(&id) {
                after.push(id);
                let policy = policies[self.random.below(3) as usize];
                job = job.after(Dependency::on(id).on_failure(policy));
            }
        }
        job
    }

    async fn enqueue(&mut self, batch: Enqueue, tries: u32) {
        let unanswered = self.engine.enqueue(batch.clone()).await.is_err();
        if unanswered && tries < TRIES_MAX {
            self.unanswered.push((batch, tries));
        }
    }

    /// Repeats the oldest unanswered batch.
    async fn repeat(&mut self) {
        if !self.unanswered.is_empty() {
            let (batch, tries) = self.unanswered.remove(0);
            self.enqueue(batch, tries + 1).await;
        }
    }

    /// Makes a random change to one of its jobs. Impossible ones are refused.
    async fn change(&self) {
        // If ended jobs are removed, most of the older ones no longer exist.
        let removed = self.stage.load.retention_ms.is_some();
        let among = self.ids.len().min(if removed { RECENT } else { usize::MAX });
        let back = 1 + self.random.below(among as u64) as usize;
        let id = self.ids[self.ids.len() - back];
        let item = |change| ChangeItem::new(id, change);
        let item = match self.random.below(if removed { 9 } else { 6 }) {
            0 | 1 => item(Change::Cancel),
            3 => item(Change::replay()).if_state(State::Dead),
            4 => item(Change::Discard).if_state(State::Dead),
            5 => item(Change::Discard),
            _ => item(Change::replay()),
        };
        // The result is in the history.
        let _ = self.engine.change(vec![item]).await;
    }
}
