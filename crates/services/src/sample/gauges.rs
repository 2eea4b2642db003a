//! The latest sample as gauges of the `metrics` facade. Independent of exporters.

use super::lanes::{LabelledLanes, LaneLabels};
use super::priorities::PriorityGauges;
use metrics::{describe_gauge, gauge};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::Timestamp;
use windlass_core::engine::LaneStats;

/// Sums over lanes with the same labels.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    depth: u64,
    scheduled: u64,
    blocked: u64,
    available: u64,
    paused: u64,
    running: u64,
    completed: u64,
    dead: u64,
    cancelled: u64,
    expired: u64,
    /// The longest wait among them.
    oldest_ms: u64,
    /// When the first of them is due.
    next_due_at: Option<Timestamp>,
}

/// Number of gauges per lane.
const GAUGES: usize = 12;

impl Numbers {
    fn add(&mut self, lane: &LaneStats, now: Timestamp) {
        self.depth += lane.depth();
        self.scheduled += lane.scheduled;
        self.blocked += lane.blocked;
        self.available += lane.available;
        self.paused += lane.paused;
        self.running += lane.running;
        self.completed += lane.completed;
        self.dead += lane.dead;
        self.cancelled += lane.cancelled;
        self.expired += lane.expired;
        self.next_due_at = [self.next_due_at, lane.next_due_at].into_iter().flatten().min();
        let oldest_ms = lane.head_ready_at.map_or(0, |since| now.since(since));
        self.oldest_ms = self.oldest_ms.max(oldest_ms);
    }

    fn named(self) -> [(&'static str, f64); GAUGES] {
        let next_due_ms = self.next_due_at.map_or(0, Timestamp::as_millis);
        [
            ("windlass_queue_depth", self.depth as f64),
            ("windlass_queue_scheduled", self.scheduled as f64),
            ("windlass_queue_blocked", self.blocked as f64),
            ("windlass_queue_available", self.available as f64),
            ("windlass_queue_paused", self.paused as f64),
            ("windlass_queue_running", self.running as f64),
            ("windlass_queue_completed", self.completed as f64),
            ("windlass_queue_dead", self.dead as f64),
            ("windlass_queue_cancelled", self.cancelled as f64),
            ("windlass_queue_expired", self.expired as f64),
            ("windlass_queue_oldest_seconds", self.oldest_ms as f64 / 1_000.0),
            ("windlass_queue_next_due_timestamp_seconds", next_due_ms as f64 / 1_000.0),
        ]
    }
}

/// Publishes lane statistics as gauges: `windlass_queue_depth` and related ones.
///
/// Every process that samples a store publishes the same values; aggregate them with the maximum per lane,
/// not with the sum.
#[derive(Debug)]
pub struct LaneGauges {
    lanes: LabelledLanes,
    /// Labels that have gauges.
    shown: BTreeSet<LaneLabels>,
    /// Gauges by priority, if enabled.
    priorities: Option<PriorityGauges>,
}

impl LaneGauges {
    /// Gauges by queue and, with `by_kind`, by kind.
    pub fn new(by_kind: bool) -> Self {
        describe();
        Self { lanes: LabelledLanes::new(by_kind), shown: BTreeSet::new(), priorities: None }
    }

    /// Enables gauges of ready jobs by priority: `windlass_queue_priority_available` and related ones. The
    /// lanes must include [priorities](LaneStats::priorities).
    #[must_use]
    pub fn by_priority(mut self, by_priority: bool) -> Self {
        self.priorities = by_priority.then(PriorityGauges::new);
        self
    }

    /// Publishes these lanes; lanes that no longer exist become zero.
    pub fn show(&mut self, lanes: &[LaneStats], now: Timestamp) {
        let none = self.shown.iter().map(|lane| (lane.clone(), Numbers::default()));
        let mut sums: BTreeMap<LaneLabels, Numbers> = none.collect();
        for lane in lanes {
            let labels = self.lanes.of(&lane.queue, &lane.kind);
            sums.entry(labels).or_default().add(lane, now);
        }
        for (lane, numbers) in sums {
            set(&lane, numbers.named());
            self.shown.insert(lane);
        }
        if let Some(priorities) = &mut self.priorities {
            let labels = &self.lanes;
            let lanes = lanes.iter().map(|lane| (labels.of(&lane.queue, &lane.kind), lane));
            priorities.show(lanes, now);
        }
        gauge!("windlass_lanes").set(lanes.len() as f64);
    }

    /// Sets all gauges to zero: another process samples from now on.
    pub fn clear(&mut self) {
        self.show(&[], Timestamp::EPOCH);
    }

    /// Marks all values as unknown: the store does not answer, and old values would be misleading.
    pub fn unknown(&self) {
        for lane in &self.shown {
            set(lane, Numbers::default().named().map(|(name, _)| (name, f64::NAN)));
        }
        self.priorities.iter().for_each(PriorityGauges::unknown);
        gauge!("windlass_lanes").set(f64::NAN);
    }
}

fn set(lane: &LaneLabels, numbers: [(&'static str, f64); GAUGES]) {
    for (name, number) in numbers {
        gauge!(name, lane.labels()).set(number);
    }
}

fn describe() {
    describe_gauge!("windlass_queue_depth", "jobs waiting to start, for any reason");
    describe_gauge!("windlass_queue_scheduled", "jobs waiting for their due time");
    describe_gauge!("windlass_queue_blocked", "jobs waiting for anything but their time");
    describe_gauge!("windlass_queue_available", "jobs that are ready to start");
    describe_gauge!("windlass_queue_paused", "jobs that are paused individually");
    describe_gauge!("windlass_queue_running", "jobs that are leased to a worker");
    describe_gauge!("windlass_queue_completed", "completed jobs that are still retained");
    describe_gauge!("windlass_queue_dead", "dead letters");
    describe_gauge!("windlass_queue_cancelled", "cancelled jobs that are still retained");
    describe_gauge!("windlass_queue_expired", "expired jobs that are still retained");
    describe_gauge!(
        "windlass_queue_next_due_timestamp_seconds",
        "when the first scheduled job is due, in Unix time; 0 if none is scheduled"
    );
    describe_gauge!("windlass_queue_oldest_seconds", "how long the first ready job has been ready");
    describe_gauge!("windlass_lanes", "pairs of queue and kind that have jobs");
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
    use windlass_core::engine::PriorityStats;

    /// Records gauges by name and labels.
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
        let (shown, mut gauges) = (Shown::default(), LaneGauges::new(true));
        metrics::with_local_recorder(&shown, || gauges.show(&[lane("a"), lane("b")], now));
        assert_eq!(shown.value("windlass_queue_depth mail a"), 3.0);
        assert_eq!(shown.value("windlass_queue_dead mail b"), 7.0);
        assert_eq!(shown.value("windlass_queue_oldest_seconds mail b"), 2.5);
        metrics::with_local_recorder(&shown, || gauges.show(&[lane("a")], now));
        assert_eq!(shown.value("windlass_queue_depth mail a"), 3.0);
        assert_eq!(shown.value("windlass_queue_depth mail b"), 0.0);
        metrics::with_local_recorder(&shown, || gauges.unknown());
        assert!(shown.value("windlass_queue_depth mail a").is_nan());
        metrics::with_local_recorder(&shown, || gauges.clear());
        assert_eq!(shown.value("windlass_queue_depth mail a"), 0.0);
    }

    /// A lane with these priorities, and some jobs without a priority count.
    fn by_priority(kind: &str, priorities: &[(i32, u64)], others: u64) -> LaneStats {
        let mut lane = LaneStats::empty("mail".into(), kind.into());
        lane.available = others + priorities.iter().map(|(_, available)| available).sum::<u64>();
        let reported = |&(priority, available): &(i32, u64)| {
            let head_ready_at = Timestamp::from_millis(1_000 * available as i64);
            PriorityStats::new(priority, available, head_ready_at)
        };
        lane.priorities = priorities.iter().map(reported).collect();
        lane
    }

    #[test]
    fn priorities_show_ready_jobs_and_the_longest_wait_if_requested() {
        let now = Timestamp::from_millis(10_000);
        let lanes = [by_priority("a", &[(-5, 1), (0, 3)], 4), by_priority("b", &[(0, 2)], 0)];
        let (shown, mut gauges) = (Shown::default(), LaneGauges::new(false).by_priority(true));
        let (available, oldest) =
            ("windlass_queue_priority_available", "windlass_queue_priority_oldest_seconds");
        metrics::with_local_recorder(&shown, || gauges.show(&lanes, now));
        let value = |name: &str, priority: &str| shown.value(&format!("{name} mail {priority}"));
        assert_eq!((value(available, "-5"), value(oldest, "-5")), (1.0, 9.0));
        assert_eq!((value(available, "0"), value(oldest, "0")), (5.0, 8.0), "of both kinds");
        assert_eq!(value(available, "other"), 4.0, "they add up to all that are ready");
        assert!(!shown.0.lock().unwrap().contains_key(&format!("{oldest} mail other")));
        metrics::with_local_recorder(&shown, || gauges.show(&lanes[1..], now));
        assert_eq!((value(available, "-5"), value(oldest, "-5")), (0.0, 0.0), "they are gone");
        assert_eq!((value(available, "0"), value(available, "other")), (2.0, 0.0));
        metrics::with_local_recorder(&shown, || gauges.unknown());
        assert!(value(available, "0").is_nan() && value(oldest, "0").is_nan());
        let (silent, mut gauges) = (Shown::default(), LaneGauges::new(false));
        metrics::with_local_recorder(&silent, || gauges.show(&lanes, now));
        assert!(!silent.0.lock().unwrap().keys().any(|name| name.contains("priority")));
    }

    #[test]
    fn priorities_that_a_lane_makes_up_share_one_label() {
        use windlass_core::limits::PRIORITIES_MAX;
        let (shown, mut gauges) = (Shown::default(), LaneGauges::new(true).by_priority(true));
        metrics::with_local_recorder(&shown, || {
            for first in (0..1_000).step_by(PRIORITIES_MAX) {
                let priorities: Vec<_> =
                    (first..first + PRIORITIES_MAX as i32).map(|priority| (priority, 1)).collect();
                let lane = |n: usize| by_priority(&format!("k{n}"), &priorities, 0);
                gauges.show(&(0..100).map(lane).collect::<Vec<_>>(), Timestamp::EPOCH);
            }
        });
        let name = "windlass_queue_priority_available mail";
        let series = |kind: &str| {
            let begin = format!("{name} {kind} ");
            shown.0.lock().unwrap().keys().filter(|name| name.starts_with(&begin)).count()
        };
        assert_eq!(series("k0"), PRIORITIES_MAX + 1, "the first that were seen, and all others");
        assert_eq!(series("k99"), 1, "there are labels for a thousand");
        assert_eq!(shown.value(&format!("{name} k99 other")), PRIORITIES_MAX as f64);
        let all = shown.0.lock().unwrap().keys().filter(|key| key.starts_with(name)).count();
        assert_eq!(all, 1_000 + 100);
    }

    #[test]
    fn lanes_beyond_the_bound_add_up_under_one_name() {
        use crate::sample::lanes::LANES_LABELLED_MAX;
        let lanes: Vec<LaneStats> = (0..LANES_LABELLED_MAX + 50)
            .map(|n| {
                let mut lane = LaneStats::empty(format!("q{n}").into(), "k".into());
                lane.available = 2;
                lane
            })
            .collect();
        let (shown, mut gauges) = (Shown::default(), LaneGauges::new(false));
        metrics::with_local_recorder(&shown, || gauges.show(&lanes, Timestamp::EPOCH));
        assert_eq!(shown.value("windlass_queue_depth other"), 100.0);
        let named = |name: &String| name.starts_with("windlass_queue_depth ");
        let count = shown.0.lock().unwrap().keys().filter(|name| named(name)).count();
        assert_eq!(count, LANES_LABELLED_MAX + 1);
    }
}
