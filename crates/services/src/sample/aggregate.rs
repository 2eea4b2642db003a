//! Aggregation of samples. Pure; independent of where they come from or go.

use super::flow::Flow;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use windlass_core::Timestamp;
use windlass_core::engine::LaneStats;

/// Maximum number of queues in one sample; the others are aggregated as [`OTHERS`]. A log entry has room for
/// this many queues, whatever their names and values.
pub(super) const QUEUES_MAX: usize = 100;
/// The name for all queues beyond [`QUEUES_MAX`]; no queue can have this name.
pub(super) const OTHERS: &str = "*";

/// Sum and maximum of a value that was sampled several times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gauge(u64, u64);

impl Gauge {
    pub(super) const fn once(value: u64) -> Self {
        Self(value, value)
    }

    /// The sum of all samples; divided by their number, it is the average.
    pub const fn sum(self) -> u64 {
        self.0
    }

    /// The highest sample.
    pub const fn max(self) -> u64 {
        self.1
    }

    fn merge(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
        self.1 = self.1.max(other.1);
    }

    /// Adds a value sampled at the same time for another part of the queue.
    fn join(&mut self, other: u64) {
        *self = Self::once(self.0.saturating_add(other));
    }
}

/// A queue over one period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QueueSample {
    /// The name of the queue; `*` means all queues beyond the first 100.
    pub queue: String,
    /// Number of samples.
    #[serde(rename = "n")]
    pub samples: u64,
    /// Jobs waiting to start, for any reason.
    pub depth: Gauge,
    /// Ready jobs.
    pub available: Gauge,
    /// Running jobs.
    pub running: Gauge,
    /// Dead jobs.
    pub dead: Gauge,
    /// How long the first ready job had been ready, in milliseconds.
    #[serde(rename = "oldest")]
    pub oldest_ms: Gauge,
    /// Enqueued, started and finished jobs, as far as servers counted them.
    #[serde(flatten)]
    pub flow: Flow,
}

impl QueueSample {
    /// The average of one of its gauges.
    ///
    /// ```
    /// # use windlass_services::QueueSample;
    /// # let sample = QueueSample::default();
    /// let depth = sample.average(sample.depth);
    /// ```
    pub fn average(&self, gauge: Gauge) -> f64 {
        gauge.sum() as f64 / self.samples.max(1) as f64
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.depth.merge(other.depth);
        self.available.merge(other.available);
        self.running.merge(other.running);
        self.dead.merge(other.dead);
        self.oldest_ms.merge(other.oldest_ms);
        self.flow.merge(other.flow);
    }

    /// Adds a lane of the queue, sampled at the same time.
    fn join(&mut self, lane: &LaneStats, now: Timestamp) {
        let oldest_ms = lane.head_ready_at.map_or(0, |since| now.since(since));
        self.depth.join(lane.depth());
        self.available.join(lane.available);
        self.running.join(lane.running);
        self.dead.join(lane.dead);
        self.oldest_ms = Gauge::once(self.oldest_ms.max().max(oldest_ms));
    }
}

/// Queues over one period, at most [`QUEUES_MAX`] and one for the remaining ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Aggregate {
    queues: BTreeMap<String, QueueSample>,
}

impl Aggregate {
    /// One sample of all lanes.
    pub(super) fn of(lanes: &[LaneStats], now: Timestamp) -> Self {
        let mut one = Self::default();
        for lane in lanes {
            let sample = one.slot(&lane.queue);
            sample.samples = 1;
            sample.join(lane, now);
        }
        one
    }

    /// Adds samples of other times.
    pub(super) fn merge<'a>(&mut self, samples: impl IntoIterator<Item = &'a QueueSample>) {
        for sample in samples {
            self.slot(&sample.queue).merge(sample);
        }
    }

    /// Adds flow counters of a queue.
    pub(super) fn merge_flow(&mut self, queue: &str, flow: Flow) {
        self.slot(queue).flow.merge(flow);
    }

    /// The queues, by name.
    pub(super) fn queues(&self) -> impl Iterator<Item = &QueueSample> {
        self.queues.values()
    }

    pub(super) fn into_queues(self) -> Vec<QueueSample> {
        self.queues.into_values().collect()
    }

    /// The entry of a queue, or the shared entry if there are too many queues.
    fn slot(&mut self, queue: &str) -> &mut QueueSample {
        let known = self.queues.contains_key(queue) || self.queues.len() < QUEUES_MAX;
        let name = if known { queue } else { OTHERS };
        self.queues
            .entry(name.to_owned())
            .or_insert_with(|| QueueSample { queue: name.to_owned(), ..QueueSample::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::limits::{NAME_BYTES_MAX, RECORD_BYTES_MAX};

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn lane(queue: &str, kind: &str, available: u64, waited_ms: u64) -> LaneStats {
        let mut lane = LaneStats::empty(queue.into(), kind.into());
        lane.available = available;
        lane.scheduled = 1;
        lane.head_ready_at = Some(NOW.minus(waited_ms));
        lane
    }

    #[test]
    fn lanes_of_a_queue_add_up_and_moments_average() {
        let mut sum = Aggregate::default();
        let quiet = [lane("mail", "a", 2, 50), lane("mail", "b", 3, 70), lane("web", "a", 1, 0)];
        let busy = [lane("mail", "a", 9, 900)];
        for lanes in [&quiet[..], &busy[..]] {
            sum.merge(Aggregate::of(lanes, NOW).queues());
        }
        let [mail, web] = &sum.into_queues()[..] else { panic!("two queues") };
        assert_eq!((mail.samples, mail.available, mail.depth), (2, Gauge(14, 9), Gauge(17, 10)));
        assert_eq!(mail.oldest_ms, Gauge(970, 900), "the longest wait of its lanes");
        assert_eq!(mail.average(mail.available), 7.0);
        assert_eq!((web.samples, web.available), (1, Gauge(1, 1)));
    }

    #[test]
    fn a_row_merged_with_itself_has_the_same_averages_and_maxima() {
        let once = Aggregate::of(&[lane("mail", "a", 4, 10)], NOW);
        let mut twice = once.clone();
        twice.merge(once.queues());
        let (one, two) = (&once.into_queues()[0], &twice.into_queues()[0]);
        assert_eq!(one.average(one.depth), two.average(two.depth));
        assert_eq!(one.depth.max(), two.depth.max());
    }

    #[test]
    fn queues_beyond_the_bound_are_summed_up_and_an_entry_always_fits() {
        let name = |n: usize| format!("{n:0>NAME_BYTES_MAX$}");
        let lanes: Vec<_> =
            (0..QUEUES_MAX + 5).map(|n| lane(&name(n), "a", 2, u64::MAX / 2)).collect();
        let mut sum = Aggregate::of(&lanes, NOW);
        sum.merge(Aggregate::of(&lanes, NOW).queues());
        let queues = sum.into_queues();
        assert_eq!(queues.len(), QUEUES_MAX + 1);
        let others = queues.iter().find(|queue| queue.queue == OTHERS).unwrap();
        assert_eq!((others.samples, others.available), (2, Gauge(20, 10)));

        let most = u64::MAX;
        let full = format!(r#"{{"in":{most},"out":{most},"ok":{most},"bad":{most},"ms":{most}}}"#);
        let widest = Gauge(most, most);
        let widest = |queue: QueueSample| QueueSample {
            samples: u64::MAX,
            depth: widest,
            available: widest,
            running: widest,
            dead: widest,
            oldest_ms: widest,
            flow: serde_json::from_str(&full).unwrap(),
            ..queue
        };
        let widest: Vec<_> = queues.into_iter().map(widest).collect();
        let bytes = serde_json::to_vec(&widest).unwrap().len();
        assert!(bytes + 64 <= RECORD_BYTES_MAX, "{bytes}");
    }
}
