//! Flow of jobs through queues: each server counts enqueued, started and finished jobs, writes its counts
//! once per minute, and readers add up the counts of all servers. Independent of who counts.

use super::aggregate::{OTHERS, QUEUES_MAX};
use super::series::Resolution;
use crate::logs;
use crate::records::encode;
use crate::runner::answered;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use windlass_core::engine::Engine;
use windlass_core::limits::PAGE_MAX;
use windlass_core::random::{Random, SystemRandom};
use windlass_core::sync::lock;
use windlass_core::time::MINUTE_MS;
use windlass_core::{Result, Timestamp};

/// The name of the log.
const LOG: &str = "samples/flow";
/// Entries that the log keeps, one per process and active minute: a week for four busy servers,
/// proportionally less for more. The hourly samples, kept for 90 days, include the same counts.
const KEEP: u32 = 40_320;
/// Maximum number of minutes buffered while the store is down; older ones are dropped.
const PENDING_MAX: usize = 60;
/// Interval at which finished minutes are written.
const WRITE_EVERY: Duration = Duration::from_secs(2);
/// Timeout of a write.
const WRITE_MAX: Duration = Duration::from_secs(10);

/// Counts of job events of a queue over one period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Flow {
    /// Jobs enqueued.
    #[serde(rename = "in", default, skip_serializing_if = "is_zero")]
    pub enqueued: u64,
    /// Jobs claimed by workers.
    #[serde(rename = "out", default, skip_serializing_if = "is_zero")]
    pub started: u64,
    /// Jobs reported as completed.
    #[serde(rename = "ok", default, skip_serializing_if = "is_zero")]
    pub completed: u64,
    /// Attempts reported as failed.
    #[serde(rename = "bad", default, skip_serializing_if = "is_zero")]
    pub failed: u64,
    /// Total run time of the reported attempts, in milliseconds.
    #[serde(rename = "ms", default, skip_serializing_if = "is_zero")]
    pub run_ms: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Flow {
    pub(crate) const fn merge(&mut self, other: Self) {
        self.enqueued = self.enqueued.saturating_add(other.enqueued);
        self.started = self.started.saturating_add(other.started);
        self.completed = self.completed.saturating_add(other.completed);
        self.failed = self.failed.saturating_add(other.failed);
        self.run_ms = self.run_ms.saturating_add(other.run_ms);
    }

    /// The sum of both.
    #[must_use]
    pub const fn plus(mut self, other: Self) -> Self {
        self.merge(other);
        self
    }

    /// Average run time of an attempt; `None` if none was reported.
    pub const fn run_average_ms(self) -> Option<u64> {
        self.run_ms.checked_div(self.completed.saturating_add(self.failed))
    }
}

/// The counts of one process for one minute.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FlowRow {
    pub(super) start: Timestamp,
    /// Id of the writer, to ignore rows that were written twice.
    by: u64,
    pub(super) queues: BTreeMap<String, Flow>,
}

#[derive(Debug, Default)]
struct Book {
    open: Option<(Timestamp, BTreeMap<String, Flow>)>,
    over: VecDeque<(Timestamp, BTreeMap<String, Flow>)>,
}

impl Book {
    /// Starts the minute of `now` and closes the previous one. If the clock goes back, the open minute
    /// continues.
    fn context(&mut self, now: Timestamp) {
        let start = Resolution::Minute.start(now);
        if let Some((minute, flows)) = self.open.take_if(|(minute, _)| *minute < start)
            && !flows.is_empty()
        {
            if self.over.len() == PENDING_MAX {
                warn!(minutes = 1, "dropping flow counts: the store has been down for too long");
                self.over.pop_front();
            }
            self.over.push_back((minute, flows));
        }
        self.open.get_or_insert_with(|| (start, BTreeMap::new()));
    }
}

/// Counts the flow of jobs through this process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Flows {
    book: Arc<Mutex<Book>>,
    by: u64,
}

impl Default for Flows {
    fn default() -> Self {
        Self { book: Arc::default(), by: SystemRandom.next_u64() }
    }
}

impl Flows {
    fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }

    /// Counts an event of jobs of a queue at `now`, by the store's clock.
    pub fn count(&self, now: Timestamp, queue: &str, change: impl FnOnce(&mut Flow)) {
        let mut book = self.book();
        book.context(now);
        let Some((_, queues)) = &mut book.open else { return };
        if let Some(flow) = queues.get_mut(queue) {
            return change(flow);
        }
        let name = if queues.len() < QUEUES_MAX { queue } else { OTHERS };
        change(queues.entry(name.to_owned()).or_default());
    }

    /// Writes each minute when it is over, until stopped.
    pub async fn write(self, engine: Arc<dyn Engine>, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(WRITE_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            // Errors are ignored: the write is repeated, and outages are already logged by the services.
            let _ = answered(WRITE_MAX, self.write_over(&*engine)).await;
        }
    }

    async fn write_over(&self, engine: &dyn Engine) -> Result<()> {
        // Whether the minute is over depends on the store's clock, which may not have been read since.
        if self.book().open.is_some() {
            let now = engine.health().await?.now;
            self.book().context(now);
        }
        loop {
            let Some((start, queues)) = self.book().over.front().cloned() else { return Ok(()) };
            let row = encode(&FlowRow { start, by: self.by, queues })?;
            logs::append(engine, LOG, vec![row], KEEP).await?;
            self.book().over.pop_front();
        }
    }

    /// Counts of a queue that are not written yet, and so are known only to this process.
    pub fn unwritten(&self, queue: &str, since: Timestamp) -> Flow {
        let book = self.book();
        let mut sum = Flow::default();
        for (start, queues) in book.over.iter().chain(&book.open) {
            if let Some(flow) = queues.get(queue).filter(|_| *start >= since) {
                sum.merge(*flow);
            }
        }
        sum
    }
}

/// The counts of all processes for the minutes from `from` until before `to`.
pub(super) async fn read(
    engine: &dyn Engine,
    from: Timestamp,
    to: Timestamp,
) -> Result<Vec<FlowRow>> {
    let mut found: BTreeMap<(Timestamp, u64), FlowRow> = BTreeMap::new();
    // A row is appended after its minute, so none is missed.
    let mut after = logs::seek(engine, LOG, KEEP, from).await?;
    loop {
        let entries = logs::read(engine, LOG, after, PAGE_MAX).await?;
        let mut over = entries.len() < PAGE_MAX as usize;
        for entry in entries {
            after = entry.number;
            // Entries appended long after the end cannot belong to the period, however late they were
            // written.
            over |= entry.at > to.plus(PENDING_MAX as u64 * 2 * MINUTE_MS);
            // Rows of a later version that cannot be parsed are skipped.
            let Ok(row) = serde_json::from_slice::<FlowRow>(&entry.value) else { continue };
            if row.start >= from && row.start < to {
                found.insert((row.start, row.by), row);
            }
        }
        if over {
            return Ok(found.into_values().collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::limits::{NAME_BYTES_MAX, RECORD_BYTES_MAX};

    #[test]
    fn a_row_fits_into_a_log_whatever_it_counts() {
        let flow = Flow {
            enqueued: u64::MAX,
            started: u64::MAX,
            completed: u64::MAX,
            failed: u64::MAX,
            run_ms: u64::MAX,
        };
        let (flows, now) = (Flows::default(), Timestamp::from_millis(1_800_000_000_000));
        for n in 0..2 * QUEUES_MAX {
            flows.count(now, &format!("{n:0>NAME_BYTES_MAX$}"), |it| *it = flow);
        }
        let (start, queues) = flows.book().open.clone().unwrap();
        assert_eq!(queues.len(), QUEUES_MAX + 1);
        let row = encode(&FlowRow { start, by: u64::MAX, queues }).unwrap();
        assert!(row.len() <= RECORD_BYTES_MAX, "{}", row.len());
    }
}
