//! A producer in the child: single jobs and batches, ordering keys, unique keys, delays and later changes.

use crate::load::{Stage, expected, expected_items};
use crate::support::{QUEUE, happens};
use std::sync::Arc;
use std::time::Duration;
use windlass_core::JobId;
use windlass_core::engine::{Admin as _, Change, ChangeItem, Enqueue, Jobs as _};
use windlass_core::model::{Dependency, Due, NewJob, OnFailure};
use windlass_core::policy::{OnConflict, Unique, Until};
use windlass_core::random::{Random as _, Seeded};
use windlass_kit::history::Recorded;

/// Maximum number of jobs in one batch.
const BATCH_MAX: u64 = 20;
/// Number of different ordering keys, and of unique keys.
const KEYS: u64 = 32;
/// Maximum delay, on the child's clock.
const DELAY_MAX_MS: u64 = 4_000;
/// Maximum number of its own jobs that a producer remembers.
const IDS_MAX: usize = 1_000;

pub(crate) struct Producer {
    stage: Arc<Stage>,
    engine: Recorded,
    random: Seeded,
    ids: Vec<JobId>,
}

impl Producer {
    pub(crate) fn new(stage: Arc<Stage>, number: u64) -> Self {
        let (engine, random) = (stage.client(), stage.random(number));
        Self { stage, engine, random, ids: Vec::new() }
    }

    pub(crate) async fn run(mut self) {
        loop {
            if self.stage.is_full() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            } else {
                self.enqueue().await;
            }
            if happens(&self.random, 100) {
                self.change().await;
            }
            while let Some(id) = self.stage.waiting() {
                self.tell(id, Change::signal("go")).await;
            }
        }
    }

    async fn enqueue(&mut self) {
        let batch = happens(&self.random, 300);
        let count = if batch { 1 + self.random.below(BATCH_MAX) } else { 1 };
        let jobs: Vec<NewJob> = (0..count).map(|_| self.job()).collect();
        if self.ids.len() < IDS_MAX {
            self.ids.extend(jobs.iter().filter_map(|job| job.id));
        }
        let request = match happens(&self.random, 200) {
            true => Enqueue::all_or_nothing(jobs),
            false => Enqueue::each(jobs),
        };
        let answer = self.engine.enqueue(request.clone()).await;
        let items = expected("enqueue", answer, &[]).map(|answer| answer.value).unwrap_or_default();
        // A job to run after may not have been stored, or be discarded.
        expected_items("enqueue", &items, &["duplicate", "aborted", "invalid"]);
        self.stage.pile(items.iter().filter(|item| item.is_ok()).count() as i64);
        // Simulates a lost reply.
        if happens(&self.random, 50) {
            expected("enqueue again", self.engine.enqueue(request).await, &[]);
        }
    }

    fn job(&self) -> NewJob {
        let random = &self.random;
        let kind = if happens(random, 500) { "one" } else { "two" };
        let id = JobId::new(self.stage.clock.now(), random);
        let mut job = NewJob::new(kind)
            .queue(QUEUE)
            .id(id)
            .payload(payload(id, random))
            .priority(random.below(3) as i32)
            .max_attempts(1 + random.below(6) as u32)
            .max_crashes(random.below(6) as u32);
        if happens(random, 300) {
            job = job.key(format!("k{}", random.below(KEYS)));
        }
        if happens(random, 150) {
            job = job.unique(self.unique());
        }
        if happens(random, 200) && !self.ids.is_empty() {
            let upstream = self.ids[random.below(self.ids.len() as u64) as usize];
            let policy = OnFailure::ALL[random.below(3) as usize];
            job = job.after(Dependency::on(upstream).on_failure(policy));
        }
        if happens(random, 200) {
            job = job.due(Due::After(random.below(DELAY_MAX_MS)));
        }
        job
    }

    fn unique(&self) -> Unique {
        let random = &self.random;
        let unique = Unique::by(format!("u{}", random.below(KEYS)));
        let choices = if self.stage.plan.replacing { 5 } else { 3 };
        match random.below(choices) {
            0 => unique.on_conflict(OnConflict::Existing),
            1 => unique.on_conflict(OnConflict::Reject),
            2 => unique.on_conflict(OnConflict::Throttle).until(Until::window_ms(1_000)),
            3 => unique.on_conflict(OnConflict::Replace),
            _ => unique.on_conflict(OnConflict::Debounce),
        }
    }

    /// Makes a random change to one of its jobs. The engine refuses impossible ones.
    async fn change(&self) {
        if self.ids.is_empty() {
            return;
        }
        let id = self.ids[self.random.below(self.ids.len() as u64) as usize];
        let change = match self.random.below(6) {
            0 => Change::Cancel,
            1 => Change::replay(),
            2 => Change::Discard,
            3 => Change::Promote,
            4 => Change::Reprioritise(self.random.below(5) as i32),
            _ => Change::Reschedule(Due::After(self.random.below(DELAY_MAX_MS))),
        };
        self.tell(id, change).await;
    }

    async fn tell(&self, id: JobId, change: Change) {
        let answer = self.engine.change(vec![ChangeItem::new(id, change)]).await;
        let items = expected("change", answer, &[]).map(|answer| answer.value).unwrap_or_default();
        expected_items("change", &items, &["refused", "not_found", "duplicate"]);
    }
}

/// The id of the job, repeated 1 to 8 or 200 times, so that a reader can verify whose payload it is.
fn payload(id: JobId, random: &Seeded) -> Vec<u8> {
    let times = if happens(random, 30) { 200 } else { 1 + random.below(8) };
    id.as_bytes().repeat(times as usize)
}

/// Whether these bytes were made by [`payload`] for this job.
pub(crate) fn is_payload_of(id: JobId, bytes: &[u8]) -> bool {
    bytes.len().is_multiple_of(16) && bytes.chunks(16).all(|chunk| chunk == id.as_bytes())
}
