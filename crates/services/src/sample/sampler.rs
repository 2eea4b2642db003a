//! Samples queues every second: publishes gauges where no other part of the process does, and stores
//! aggregates per minute and per hour in logs. Independent of readers.

use super::aggregate::Aggregate;
use super::gauges::LaneGauges;
use super::series::{Resolution, Sample, SampleQuery, read};
use crate::board::ServiceName;
use crate::logs;
use crate::service::{NextRun, Service, Step, StepContext};
use std::collections::VecDeque;
use tracing::warn;
use windlass_core::engine::{Engine, StatsRequest};
use windlass_core::time::HOUR_MS;
use windlass_core::{Result, Timestamp};

/// Maximum number of minutes buffered while the store is down; older ones are dropped.
const PENDING_MAX: usize = 60;

/// The service that samples queues.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// The current minute.
    minute: Option<(Timestamp, Aggregate)>,
    /// Finished minutes that are not stored yet.
    pending: VecDeque<Sample>,
    /// The hour up to which hours are known to be aggregated.
    summed: Option<Timestamp>,
    /// `None` if another part of this process publishes the same values.
    gauges: Option<LaneGauges>,
}

impl Service for Sampler {
    fn name(&self) -> ServiceName {
        ServiceName::Sample
    }

    async fn step(&mut self, context: StepContext<'_>) -> Result<Step> {
        let stats = context.engine.stats(StatsRequest::default()).await?;
        let now = stats.now;
        if let Some(gauges) = &mut self.gauges {
            gauges.show(&stats.value, now);
        }
        self.add(&Aggregate::of(&stats.value, now), now);
        self.store_minutes(context.engine).await?;
        self.sum_up_hours(context.engine, now).await?;
        Ok(Step { now, items: stats.value.len() as u64, again: NextRun::Idle })
    }

    fn halt(&mut self) {
        // The samples of this minute are kept: they are stored in the next term and merged when read.
        if let Some(gauges) = &mut self.gauges {
            gauges.clear();
        }
    }
}

impl Sampler {
    pub(crate) fn new(gauges: bool) -> Self {
        let gauges = gauges.then(|| LaneGauges::new(true));
        Self { minute: None, pending: VecDeque::new(), summed: None, gauges }
    }

    /// Adds a sample to its minute; closes the previous minute.
    fn add(&mut self, measured: &Aggregate, now: Timestamp) {
        let start = Resolution::Minute.start(now);
        if let Some((minute, sum)) = self.minute.take_if(|(minute, _)| *minute != start) {
            self.close(minute, sum);
        }
        let (_, sum) = self.minute.get_or_insert_with(|| (start, Aggregate::default()));
        sum.merge(measured.queues());
    }

    fn close(&mut self, start: Timestamp, sum: Aggregate) {
        let queues = sum.into_queues();
        if queues.is_empty() {
            return;
        }
        if self.pending.len() == PENDING_MAX {
            warn!(minutes = 1, "dropping samples: the store has been down for too long");
            self.pending.pop_front();
        }
        self.pending.push_back(Sample::new(start, queues));
    }

    async fn store_minutes(&mut self, engine: &dyn Engine) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        append(engine, Resolution::Minute, &self.pending).await?;
        self.pending.clear();
        Ok(())
    }

    /// Aggregates finished hours from the minutes in the log, including those of other leaders.
    async fn sum_up_hours(&mut self, engine: &dyn Engine, now: Timestamp) -> Result<()> {
        let this_hour = Resolution::Hour.start(now);
        // Waits one minute, because samples of the last hour may still be written.
        if self.summed == Some(this_hour) || now.since(this_hour) < Resolution::Minute.length_ms() {
            return Ok(());
        }
        let kept = this_hour.minus(Resolution::Minute.kept_ms());
        let from = match logs::last(engine, Resolution::Hour.log(), Resolution::Hour.keep()).await?
        {
            Some(entry) => serde_json::from_slice::<Sample>(&entry.value)
                .map_or(kept, |last| last.start.plus(HOUR_MS).max(kept)),
            None => kept,
        };
        if from < this_hour {
            let query = SampleQuery::new(Resolution::Minute, from, this_hour);
            let hours = by_hour(read(engine, &query).await?);
            if !hours.is_empty() {
                append(engine, Resolution::Hour, &hours).await?;
            }
        }
        self.summed = Some(this_hour);
        Ok(())
    }
}

async fn append<'a>(
    engine: &dyn Engine,
    resolution: Resolution,
    samples: impl IntoIterator<Item = &'a Sample>,
) -> Result<()> {
    let rows = samples.into_iter().map(Sample::encode).collect::<Result<_>>()?;
    logs::append(engine, resolution.log(), rows, resolution.keep()).await
}

/// Aggregates minutes, oldest first, by hour.
fn by_hour(minutes: Vec<Sample>) -> Vec<Sample> {
    let mut hours: Vec<(Timestamp, Aggregate)> = Vec::new();
    for minute in minutes {
        let start = Resolution::Hour.start(minute.start);
        if hours.last().is_none_or(|(hour, _)| *hour != start) {
            hours.push((start, Aggregate::default()));
        }
        if let Some((_, sum)) = hours.last_mut() {
            sum.merge(&minute.queues);
        }
    }
    hours.into_iter().map(|(start, sum)| Sample::new(start, sum.into_queues())).collect()
}
