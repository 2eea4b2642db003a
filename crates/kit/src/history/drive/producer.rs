//! A producer: enqueues in batches, repeats what was not answered, and changes its mind.

use super::{QUEUE, Stage, happens};
use crate::history::recorder::Recorded;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use windlass_core::engine::{Admin, Change, ChangeItem, Enqueue, Hot};
use windlass_core::limits::MAX_CRASHES_MAX;
use windlass_core::model::{NewJob, State};
use windlass_core::policy::{OnConflict, Unique};
use windlass_core::random::{Random, Seeded};
use windlass_core::{JobId, Timestamp};

/// Jobs in one batch.
const BATCH_MAX: u64 = 3;
/// Where jobs are removed, a producer changes its mind about one of so many that it enqueued last.
const RECENT: usize = 25;
/// A batch that is never answered is repeated so often, and then given up.
const TRIES_MAX: u32 = 4;

pub(super) struct Producer {
    stage: Arc<Stage>,
    engine: Recorded,
    random: Seeded,
    ids: Vec<JobId>,
    /// Batches without an answer, and how often they were tried.
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
        // A job that was removed after too many lost leases leaves no trace. Of half of them that is ruled out.
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
        if happens(random, 250) {
            let on = [OnConflict::Existing, OnConflict::Replace, OnConflict::Reject];
            let unique = Unique::by(format!("u{}", random.below(keys)));
            let on = on[random.below(3) as usize];
            // A replacement of unknown outcome may have cancelled any job, which would excuse any loss.
            let on = if removed && on == OnConflict::Replace { OnConflict::Existing } else { on };
            job = job.unique(unique.on_conflict(on));
        }
        job
    }

    async fn enqueue(&mut self, batch: Enqueue, tries: u32) {
        let unanswered = self.engine.enqueue(batch.clone()).await.is_err();
        if unanswered && tries < TRIES_MAX {
            self.unanswered.push((batch, tries));
        }
    }

    /// Sends the oldest batch that was not answered once more.
    async fn repeat(&mut self) {
        if !self.unanswered.is_empty() {
            let (batch, tries) = self.unanswered.remove(0);
            self.enqueue(batch, tries + 1).await;
        }
    }

    /// Changes its mind about some job of its own. Whatever is impossible is refused.
    async fn change(&self) {
        // Where jobs are removed, most of the older ones are gone.
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
        // An answer or none: the history has it.
        let _ = self.engine.change(vec![item]).await;
    }
}
