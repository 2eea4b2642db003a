//! Rates and curves of queues, the same on every page: rates per second over the last minute, and
//! curves of the last hour by the minute, of all servers of the store.

use super::format::Rate;
use super::spark::Spark;
use crate::app::App;
use crate::meter::{QueueRates, RatesNow};
use std::collections::BTreeSet;
use std::sync::Arc;
use windlass_core::Timestamp;
use windlass_core::time::{HOUR_MS, MINUTE_MS, SECOND_MS};
use windlass_services::{Flow, QueueSample, Resolution, Sample, SampleQuery, Samples};

/// The name under which samples count queues beyond their limit together.
const OTHERS: &str = "*";
/// Points of a curve.
const MINUTES: usize = (HOUR_MS / MINUTE_MS) as usize;

/// The throughput at one time.
///
/// A rate is the higher one of two values of the last minute: this server's current rate, and the
/// stored rate over all servers. Servers store their counts after each minute.
pub(super) struct Throughput {
    now: Timestamp,
    here: RatesNow,
    /// The minutes of the last hour, oldest first.
    hour: Arc<Vec<Sample>>,
}

/// Rates over all queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Totals {
    pub(super) enqueued: Rate,
    pub(super) started: Rate,
    pub(super) completed: Rate,
    pub(super) failed: Rate,
}

impl Throughput {
    /// Of all queues.
    pub(super) async fn read(app: &App, now: Timestamp) -> Self {
        Self { now, here: app.rates.now(now), hour: app.hour.samples(now).await }
    }

    /// Of one queue. Finds it also in a store with more queues than samples count by name.
    pub(super) async fn of_queue(app: &App, queue: &str, now: Timestamp) -> Self {
        let query = SampleQuery::new(Resolution::Minute, now.minus(HOUR_MS), now).queue(queue);
        // A chart must not fail a whole page.
        let hour = Samples::new(app.engine.clone()).read(&query).await.unwrap_or_default();
        Self { now, here: app.rates.now(now), hour: Arc::new(hour) }
    }

    /// The last complete minute, if it is stored.
    fn latest(&self) -> Option<&Sample> {
        self.hour.last().filter(|sample| self.now.since(sample.start) < 2 * MINUTE_MS)
    }

    fn stored(&self, queue: &str) -> QueueRates {
        let sample = self.latest().and_then(|sample| sample.queue(queue));
        sample.map_or_else(QueueRates::default, |sample| QueueRates {
            enqueued: per_second(sample.flow.enqueued),
            started: per_second(sample.flow.started),
        })
    }

    fn rates(&self, queue: &str) -> QueueRates {
        let here = match queue {
            OTHERS => self.here.others,
            queue => self.here.queues.get(queue).copied().unwrap_or_default(),
        };
        let stored = self.stored(queue);
        QueueRates {
            enqueued: here.enqueued.max(stored.enqueued),
            started: here.started.max(stored.started),
        }
    }

    /// Jobs of a queue enqueued per second.
    pub(super) fn enqueued(&self, queue: &str) -> Rate {
        Rate(self.rates(queue).enqueued)
    }

    /// Jobs of a queue started per second.
    pub(super) fn started(&self, queue: &str) -> Rate {
        Rate(self.rates(queue).started)
    }

    /// Rates over all queues: the sums of the queues' rates, so that the rows of a table add up.
    pub(super) fn totals(&self) -> Totals {
        let stored = self.latest().map_or(&[][..], |sample| &sample.queues);
        let by_name: BTreeSet<&str> = self.here.queues.keys().map(|name| &**name).collect();
        let names: BTreeSet<&str> = stored.iter().map(|sample| &*sample.queue).collect();
        let sum = |names: &mut dyn Iterator<Item = &str>, of: &dyn Fn(&str) -> QueueRates| {
            names.map(of).fold(QueueRates::default(), |sum, rates| QueueRates {
                enqueued: sum.enqueued + rates.enqueued,
                started: sum.started + rates.started,
            })
        };
        let total = if names.contains(OTHERS) {
            // A queue with its own rate here may be one of the others there: never count it twice.
            let here = |name: &str| self.here.queues.get(name).copied().unwrap_or_default();
            let here = sum(&mut by_name.iter().copied(), &here);
            let there = sum(&mut names.iter().copied(), &|name| self.stored(name));
            QueueRates {
                enqueued: (here.enqueued + self.here.others.enqueued).max(there.enqueued),
                started: (here.started + self.here.others.started).max(there.started),
            }
        } else {
            let all = by_name.union(&names).copied();
            sum(&mut all.chain([OTHERS]), &|name| self.rates(name))
        };
        let all = |count: fn(&Flow) -> u64| {
            per_second(stored.iter().map(|sample| count(&sample.flow)).sum())
        };
        Totals {
            enqueued: Rate(total.enqueued),
            started: Rate(total.started),
            completed: Rate(self.here.completed.max(all(|flow| flow.completed))),
            failed: Rate(self.here.failed.max(all(|flow| flow.failed))),
        }
    }

    /// A count of each minute; zero if it is not stored. `queue: None` adds all queues up.
    pub(super) fn curve(&self, queue: Option<&str>, count: fn(&Flow) -> u64) -> Spark {
        Spark::new(self.minutes(queue, |sample| count(&sample.flow)))
    }

    /// The highest depth of each minute of a queue.
    pub(super) fn depth(&self, queue: &str) -> Vec<f64> {
        self.minutes(Some(queue), |sample| sample.depth.max())
    }

    fn minutes(&self, queue: Option<&str>, value: impl Fn(&QueueSample) -> u64) -> Vec<f64> {
        let mut minutes = vec![0.0; MINUTES];
        for sample in self.hour.iter() {
            let back = (self.now.since(sample.start) / MINUTE_MS) as usize;
            let place = MINUTES.checked_sub(back.max(1));
            let Some(minute) = place.and_then(|place| minutes.get_mut(place)) else { continue };
            let is_meant = |it: &&QueueSample| queue.is_none_or(|queue| it.queue == queue);
            let sum: u64 = sample.queues.iter().filter(is_meant).map(&value).sum();
            *minute += sum as f64;
        }
        minutes
    }
}

/// The rate of a count of one minute.
fn per_second(count: u64) -> f64 {
    count as f64 * SECOND_MS as f64 / MINUTE_MS as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    /// A stored minute with counts of enqueued jobs by queue.
    fn minute(back_ms: u64, queues: &[(&str, u64)]) -> Sample {
        let start = NOW.minus(back_ms);
        let queue = |(queue, count): &(&str, u64)| {
            serde_json::json!({
                "queue": queue, "n": 1, "depth": [3, 3], "available": [0, 0], "running": [0, 0],
                "dead": [0, 0], "oldest": [0, 0], "in": count,
            })
        };
        let queues: Vec<_> = queues.iter().map(queue).collect();
        serde_json::from_value(serde_json::json!({"start": start, "queues": queues})).unwrap()
    }

    fn here(queues: &[(&str, f64)]) -> RatesNow {
        let rates = |enqueued: f64| QueueRates { enqueued, started: 0.0 };
        let queues: HashMap<_, _> =
            queues.iter().map(|(name, rate)| ((*name).into(), rates(*rate))).collect();
        RatesNow { queues, ..RatesNow::default() }
    }

    fn throughput(here: RatesNow, hour: Vec<Sample>) -> Throughput {
        Throughput { now: NOW, here, hour: Arc::new(hour) }
    }

    #[test]
    fn the_total_is_the_sum_of_the_rows_whichever_server_counted_them() {
        let stored = minute(MINUTE_MS, &[("a", 160_000), ("b", 60)]);
        let all = throughput(here(&[("b", 3.0), ("c", 0.5)]), vec![stored]);
        let rows: f64 = ["a", "b", "c"].map(|name| all.enqueued(name).0).iter().sum();
        assert_eq!(all.totals().enqueued.0, rows);
        assert_eq!((all.enqueued("b").0, all.enqueued("c").0), (3.0, 0.5));
        let old = minute(2 * MINUTE_MS, &[("a", 60)]);
        assert_eq!(throughput(here(&[]), vec![old]).totals().enqueued.0, 0.0, "not the last one");
    }

    #[test]
    fn queues_that_samples_count_together_are_not_counted_twice() {
        let stored = minute(MINUTE_MS, &[("a", 60), ("*", 600)]);
        let all = throughput(here(&[("a", 1.0), ("z", 10.0)]), vec![stored]);
        assert_eq!(all.totals().enqueued.0, 11.0);
    }

    #[test]
    fn a_curve_has_a_point_for_each_minute() {
        let hour = vec![minute(30 * MINUTE_MS, &[("a", 7)]), minute(MINUTE_MS, &[("a", 5)])];
        let all = throughput(here(&[]), hour);
        let depth = all.depth("a");
        assert_eq!((depth.len(), depth[MINUTES - 1], depth[MINUTES - 2]), (MINUTES, 3.0, 0.0));
        assert_eq!(depth[MINUTES - 30], 3.0);
        assert!(!all.curve(None, |flow| flow.enqueued).is_flat());
        assert!(all.curve(Some("b"), |flow| flow.enqueued).is_flat());
    }
}
