//! The latest measurement as gauges of the `metrics` facade. It must not know how they are exported.

use metrics::gauge;
use std::collections::BTreeSet;
use windlass_core::Timestamp;
use windlass_core::engine::LaneStats;

/// Lanes with gauges of their own: exporters keep every label they ever saw.
const LANES_MAX: usize = 1_000;

/// The lanes that have gauges.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    shown: BTreeSet<(String, String)>,
}

impl Gauges {
    /// Shows these lanes; those that are gone show zero.
    pub(super) fn show(&mut self, lanes: &[LaneStats], now: Timestamp) {
        let mut gone = self.shown.clone();
        for lane in lanes {
            let key = (lane.queue.to_string(), lane.kind.to_string());
            gone.remove(&key);
            if self.shown.contains(&key) || self.shown.len() < LANES_MAX {
                let oldest_ms = lane.head_ready_at.map_or(0, |since| now.since(since));
                set(&key, [lane.depth(), lane.available, lane.running, lane.dead], oldest_ms);
                self.shown.insert(key);
            }
        }
        gone.iter().for_each(|key| set(key, [0; 4], 0));
        // Once shown, a label costs nothing more; the set is bounded either way.
        gauge!("windlass_lanes").set(lanes.len() as f64);
    }

    /// Shows zero: another process measures from now on, and whoever adds up all processes must not
    /// count a lane twice.
    pub(super) fn clear(&mut self) {
        self.show(&[], Timestamp::EPOCH);
        self.shown.clear();
    }
}

fn set((queue, kind): &(String, String), counts: [u64; 4], oldest_ms: u64) {
    let names = [
        "windlass_queue_depth",
        "windlass_queue_available",
        "windlass_queue_running",
        "windlass_queue_dead",
    ];
    for (name, count) in names.into_iter().zip(counts) {
        gauge!(name, "queue" => queue.clone(), "kind" => kind.clone()).set(count as f64);
    }
    let oldest_s = oldest_ms as f64 / 1_000.0;
    gauge!("windlass_queue_oldest_seconds", "queue" => queue.clone(), "kind" => kind.clone())
        .set(oldest_s);
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::{
        Counter, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    };
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

    /// Remembers gauges by name and labels.
    #[derive(Default)]
    struct Shown(Mutex<BTreeMap<String, Arc<Cell>>>);

    #[derive(Default)]
    struct Cell(AtomicU64);

    impl GaugeFn for Cell {
        fn increment(&self, _: f64) {}
        fn decrement(&self, _: f64) {}
        fn set(&self, value: f64) {
            self.0.store(value.to_bits(), Ordering::SeqCst);
        }
    }

    impl Recorder for Shown {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::noop()
        }
        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            let labels: Vec<_> = key.labels().map(|label| label.value().to_owned()).collect();
            let name = format!("{} {}", key.name(), labels.join(" "));
            Gauge::from_arc(self.0.lock().unwrap().entry(name).or_default().clone())
        }
        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    impl Shown {
        fn value(&self, name: &str) -> f64 {
            f64::from_bits(self.0.lock().unwrap()[name].0.load(Ordering::SeqCst))
        }
    }

    #[test]
    fn lanes_show_their_numbers_and_zero_once_they_are_gone_or_measured_elsewhere() {
        let now = Timestamp::from_millis(10_000);
        let lane = |kind: &str| {
            let mut lane = LaneStats::empty("mail".into(), kind.into());
            (lane.available, lane.scheduled, lane.dead) = (2, 1, 7);
            lane.head_ready_at = Some(now.minus(2_500));
            lane
        };
        let (shown, mut gauges) = (Shown::default(), Gauges::default());
        metrics::with_local_recorder(&shown, || gauges.show(&[lane("a"), lane("b")], now));
        assert_eq!(shown.value("windlass_queue_depth mail a"), 3.0);
        assert_eq!(shown.value("windlass_queue_dead mail b"), 7.0);
        assert_eq!(shown.value("windlass_queue_oldest_seconds mail b"), 2.5);
        metrics::with_local_recorder(&shown, || gauges.show(&[lane("a")], now));
        assert_eq!(shown.value("windlass_queue_depth mail a"), 3.0);
        assert_eq!(shown.value("windlass_queue_depth mail b"), 0.0);
        metrics::with_local_recorder(&shown, || gauges.clear());
        assert_eq!(shown.value("windlass_queue_depth mail a"), 0.0);
    }
}
