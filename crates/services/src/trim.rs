//! Keeps the dead jobs of a queue within its byte limit by discarding the oldest. Uses only verbs that
//! operators have; independent of how an engine stores jobs.

use crate::board::ServiceName;
use crate::service::{NextRun, Service, Step, StepContext};
use std::collections::{HashMap, VecDeque};
use windlass_core::engine::{
    Change, ChangeItem, Cursor, Engine, Filter, Get, List, ListOrder, Stamped,
};
use windlass_core::model::{Job, Name, PartName, PartSet, State};
use windlass_core::{JobId, Result};

/// Maximum number of dead jobs examined per step.
const ROWS_STEP: u32 = 1_000;
/// Maximum number of dead jobs fetched at a time, because each may have dozens of MiB.
const FETCHED_MAX: usize = 8;
/// Maximum number of sizes cached between runs, so that a dead job is fetched once.
const SIZES_MAX: usize = 200_000;

/// The service that trims dead jobs.
#[derive(Debug)]
pub(crate) struct Trim {
    /// Cached sizes of dead jobs, which do not change.
    sizes: HashMap<JobId, u64>,
    /// Queues still to be walked in this run, with their limits.
    queues: VecDeque<(Name, u64)>,
    /// Position in the first of them.
    walk: Walk,
    is_running: bool,
}

/// A walk through the dead jobs of a queue, newest first.
#[derive(Debug, Default)]
struct Walk {
    after: Option<Cursor>,
    bytes: u64,
}

impl Trim {
    pub(crate) fn new() -> Self {
        Self {
            sizes: HashMap::new(),
            queues: VecDeque::new(),
            walk: Walk::default(),
            is_running: false,
        }
    }

    /// Examines the next dead jobs of a queue; discards those beyond its byte limit.
    async fn walk(&mut self, context: StepContext<'_>, queue: &Name, limit: u64) -> Result<u64> {
        let mut filter = Filter::state(State::Dead);
        filter.queue = Some(queue.clone());
        let list = List::new(filter).order(ListOrder::Newest).limit(ROWS_STEP);
        let page = context.engine.list(list.after(self.walk.after.clone())).await?.value;
        let ids: Vec<JobId> = page.rows.iter().map(|job| job.header.id).collect();
        self.measure(context.engine, &ids).await?;
        let mut surplus = Vec::new();
        for id in ids {
            self.walk.bytes =
                self.walk.bytes.saturating_add(self.sizes.get(&id).copied().unwrap_or(0));
            if self.walk.bytes > limit {
                surplus.push(id);
            }
        }
        let gone = self.discard(context.engine, &surplus).await?;
        self.walk.after = page.next;
        if self.walk.after.is_none() {
            self.queues.pop_front();
            self.walk = Walk::default();
        }
        Ok(gone)
    }

    /// Fetches the sizes of dead jobs that are not cached.
    async fn measure(&mut self, engine: &dyn Engine, ids: &[JobId]) -> Result<()> {
        if self.sizes.len() + ids.len() > SIZES_MAX {
            self.sizes.clear();
        }
        let unknown: Vec<JobId> =
            ids.iter().copied().filter(|id| !self.sizes.contains_key(id)).collect();
        for ids in unknown.chunks(FETCHED_MAX) {
            let get = Get::new(ids.iter().copied()).parts(PartSet::ALL);
            for job in engine.get(get).await?.value.into_iter().flatten() {
                self.sizes.insert(job.header.id, size(job));
            }
        }
        Ok(())
    }

    /// Discards dead jobs. Jobs that were replayed or removed since they were listed are skipped.
    async fn discard(&mut self, engine: &dyn Engine, ids: &[JobId]) -> Result<u64> {
        if ids.is_empty() {
            return Ok(0);
        }
        let discard = |id: &JobId| ChangeItem::new(*id, Change::Discard).if_state(State::Dead);
        let answers = engine.change(ids.iter().map(discard).collect()).await?.value;
        for id in ids {
            self.sizes.remove(id);
        }
        Ok(answers.iter().flatten().count() as u64)
    }
}

/// Size of a job in bytes.
fn size(mut job: Job) -> u64 {
    let parts = PartName::ALL.into_iter().filter_map(|name| job.parts.slot(name).take());
    let parts: u64 = parts.map(|part| part.bytes.len() as u64).sum();
    parts + job.result.map_or(0, |result| result.bytes.len() as u64)
}

impl Service for Trim {
    fn name(&self) -> ServiceName {
        ServiceName::Trim
    }

    async fn step(&mut self, context: StepContext<'_>) -> Result<Step> {
        let Stamped { now, value: settings, .. } = context.engine.settings().await?;
        if !self.is_running {
            let limited = settings.queues.into_iter();
            self.queues =
                limited.filter_map(|(name, it)| Some((name, it.dead_bytes_max?))).collect();
            self.walk = Walk::default();
            self.is_running = true;
        }
        let Some((queue, limit)) = self.queues.front().cloned() else {
            self.is_running = false;
            return Ok(Step { now, items: 0, again: NextRun::Idle });
        };
        let items = self.walk(context, &queue, limit).await?;
        Ok(Step { now, items, again: NextRun::Rested })
    }

    fn halt(&mut self) {
        self.is_running = false;
    }
}
