//! Reading measurements back. It must not know who took them.

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

/// How long a stretch one sample stands for.
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

    /// Entries the log keeps: one for each stretch.
    pub(super) const fn keep(self) -> u32 {
        (self.kept_ms() / self.length_ms()) as u32
    }

    /// The beginning of the stretch that `at` lies in.
    pub fn start(self, at: Timestamp) -> Timestamp {
        let length = self.length_ms().cast_signed();
        Timestamp::from_millis(at.as_millis().div_euclid(length).saturating_mul(length))
    }
}

/// The queues over one minute or hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sample {
    /// When it begins.
    pub start: Timestamp,
    /// The queues that had lanes then, by name.
    pub queues: Vec<QueueSample>,
}

impl Sample {
    pub(super) const fn new(start: Timestamp, queues: Vec<QueueSample>) -> Self {
        Self { start, queues }
    }

    /// One queue, if it was there.
    pub fn queue(&self, queue: &str) -> Option<&QueueSample> {
        self.queues.iter().find(|sample| sample.queue == queue)
    }

    pub(super) fn encode(&self) -> Result<Bytes> {
        encode(self)
    }
}

/// Which samples to read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SampleQuery {
    /// Minutes or hours.
    pub resolution: Resolution,
    /// Those that begin at this time or later,
    pub from: Timestamp,
    /// and before this time.
    pub to: Timestamp,
    /// Of this queue only.
    pub queue: Option<String>,
}

impl SampleQuery {
    /// All queues from `from` until before `to`.
    pub const fn new(resolution: Resolution, from: Timestamp, to: Timestamp) -> Self {
        Self { resolution, from, to, queue: None }
    }

    /// Of this queue only.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Whether it is acceptable: no longer than what is kept.
    fn check(&self) -> Result<()> {
        let kept_ms = self.resolution.kept_ms();
        if self.to.since(self.from) <= kept_ms + self.resolution.length_ms() {
            return Ok(());
        }
        let expected = format!("ask for {} days at most: more is not kept", kept_ms / DAY_MS);
        Err(Error::invalid("from", self.from, expected))
    }
}

/// Reads the measurements of a store.
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
    /// The measurements of this store.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    /// The samples asked for, oldest first. A stretch in which nothing was measured is missing; the
    /// present one is written when it is over.
    pub async fn read(&self, query: &SampleQuery) -> Result<Vec<Sample>> {
        read(&*self.engine, query).await
    }
}

/// The same for whoever has no handle of its own.
pub(super) async fn read(engine: &dyn Engine, query: &SampleQuery) -> Result<Vec<Sample>> {
    query.check()?;
    let (log, keep) = (query.resolution.log(), query.resolution.keep());
    let mut found: BTreeMap<Timestamp, Aggregate> = BTreeMap::new();
    // An entry is added after the stretch it stands for, so that none is missed.
    let mut after = logs::seek(engine, log, keep, query.from).await?;
    loop {
        let entries = logs::read(engine, log, after, PAGE_MAX).await?;
        let over = entries.len() < PAGE_MAX as usize;
        for entry in entries {
            after = entry.number;
            // A row of a later version that says something else is not for us.
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
            let asked = |name: &String| query.queue.as_ref().is_none_or(|queue| queue == name);
            let flows = row.queues.iter().filter(|(name, _)| asked(name));
            flows.for_each(|(name, flow)| sum.merge_flow(name, *flow));
        }
        found.retain(|_, sum| sum.queues().next().is_some());
    }
    Ok(found.into_iter().map(|(start, sum)| Sample::new(start, sum.into_queues())).collect())
}
