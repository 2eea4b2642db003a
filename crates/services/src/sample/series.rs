//! Reads samples back. Independent of who took them.

use super::aggregate::{Aggregate, QueueSample};
use super::flow;
use crate::logs;
use crate::records::encode;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use windlass_core::engine::Engine;
use windlass_core::limits::PAGE_MAX;
use windlass_core::time::{DAY_MS, HOUR_MS, MINUTE_MS};
use windlass_core::{Error, Result, Timestamp};

/// The period that one sample covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resolution {
    /// A minute; kept for a week.
    Minute,
    /// An hour; kept for 90 days.
    Hour,
}

impl Resolution {
    /// The length of a sample.
    pub const fn length_ms(self) -> u64 {
        match self {
            Self::Minute => MINUTE_MS,
            Self::Hour => HOUR_MS,
        }
    }

    /// How long samples are kept.
    pub const fn kept_ms(self) -> u64 {
        match self {
            Self::Minute => 7 * DAY_MS,
            Self::Hour => 90 * DAY_MS,
        }
    }

    pub(super) const fn log(self) -> &'static str {
        match self {
            Self::Minute => "samples/minute",
            Self::Hour => "samples/hour",
        }
    }

    /// Entries that the log keeps: one per period.
    pub(super) const fn keep(self) -> u32 {
        (self.kept_ms() / self.length_ms()) as u32
    }

    /// The start of the period that contains `at`.
    pub fn start(self, at: Timestamp) -> Timestamp {
        let length = self.length_ms().cast_signed();
        Timestamp::from_millis(at.as_millis().div_euclid(length).saturating_mul(length))
    }
}

/// The queues over one minute or hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sample {
    /// Start of the period.
    pub start: Timestamp,
    /// The queues that had lanes then, by name.
    pub queues: Vec<QueueSample>,
}

impl Sample {
    pub(super) const fn new(start: Timestamp, queues: Vec<QueueSample>) -> Self {
        Self { start, queues }
    }

    /// The sample of one queue, if it had lanes.
    pub fn queue(&self, queue: &str) -> Option<&QueueSample> {
        self.queues.iter().find(|sample| sample.queue == queue)
    }

    pub(super) fn encode(&self) -> Result<Bytes> {
        encode(self)
    }
}

/// Selects samples.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SampleQuery {
    /// Minutes or hours.
    pub resolution: Resolution,
    /// Start of the range (inclusive).
    pub from: Timestamp,
    /// End of the range (exclusive).
    pub to: Timestamp,
    /// Only this queue.
    pub queue: Option<String>,
}

impl SampleQuery {
    /// All queues, from `from` until before `to`.
    pub const fn new(resolution: Resolution, from: Timestamp, to: Timestamp) -> Self {
        Self { resolution, from, to, queue: None }
    }

    /// Selects only this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Checks that the range is not longer than the retention.
    fn check(&self) -> Result<()> {
        let kept_ms = self.resolution.kept_ms();
        if self.to.since(self.from) <= kept_ms + self.resolution.length_ms() {
            return Ok(());
        }
        let expected = format!("ask for {} days at most: more is not kept", kept_ms / DAY_MS);
        Err(Error::invalid("from", self.from, expected))
    }
}

/// Reads the samples of a store.
#[derive(Clone)]
pub struct Samples {
    engine: Arc<dyn Engine>,
}

impl fmt::Debug for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Samples")
    }
}

impl Samples {
    /// The samples of this store.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    /// Returns the selected samples, oldest first. Periods without samples are missing; the current period is
    /// written when it is over.
    pub async fn read(&self, query: &SampleQuery) -> Result<Vec<Sample>> {
        read(&*self.engine, query).await
    }
}

/// Implementation of [`Samples::read`] for callers without a handle.
pub(super) async fn read(engine: &dyn Engine, query: &SampleQuery) -> Result<Vec<Sample>> {
    query.check()?;
    let (log, keep) = (query.resolution.log(), query.resolution.keep());
    let mut found: BTreeMap<Timestamp, Aggregate> = BTreeMap::new();
    // An entry is appended after its period, so none is missed.
    let mut after = logs::seek(engine, log, keep, query.from).await?;
    loop {
        let entries = logs::read(engine, log, after, PAGE_MAX).await?;
        let over = entries.len() < PAGE_MAX as usize;
        for entry in entries {
            after = entry.number;
            // Rows of a later version that cannot be parsed are skipped.
            let Ok(mut row) = serde_json::from_slice::<Sample>(&entry.value) else { continue };
            if let Some(queue) = &query.queue {
                row.queues.retain(|sample| sample.queue == *queue);
            }
            if row.start >= query.from && row.start < query.to && !row.queues.is_empty() {
                found.entry(row.start).or_default().merge(&row.queues);
            }
        }
        if over {
            break;
        }
    }
    if query.resolution == Resolution::Minute {
        for row in flow::read(engine, query.from, query.to).await? {
            let sum = found.entry(row.start).or_default();
            let requested = |name: &String| query.queue.as_ref().is_none_or(|queue| queue == name);
            let flows = row.queues.iter().filter(|(name, _)| requested(name));
            flows.for_each(|(name, flow)| sum.merge_flow(name, *flow));
        }
        found.retain(|_, sum| sum.queues().next().is_some());
    }
    Ok(found.into_iter().map(|(start, sum)| Sample::new(start, sum.into_queues())).collect())
}
