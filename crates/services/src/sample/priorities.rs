//! Ready jobs by priority as gauges, with a bounded number of labels. It must not know how they were counted.

use super::lanes::{LaneLabels, OTHER};
use metrics::{Label, describe_gauge, gauge};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::Timestamp;
use windlass_core::engine::LaneStats;
use windlass_core::limits::PRIORITIES_MAX;

/// Priorities with labels of their own, of all lanes together; of each lane no more than are told of it. As with
/// lanes, exporters keep every label they ever saw, and priorities come from callers.
const PRIORITIES_LABELLED_MAX: usize = 1_000;

const AVAILABLE: &str = "windlass_queue_priority_available";
const OLDEST: &str = "windlass_queue_priority_oldest_seconds";

/// What the jobs of one label add up to.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    available: u64,
    /// The longest wait among them.
    oldest_ms: u64,
}

/// A priority of some lanes; `None` is all that have no label of their own.
type Series = (LaneLabels, Option<i32>);

/// What there is to show, and what was shown before.
#[derive(Debug, Default)]
pub(super) struct PriorityGauges {
    /// The priorities of each lane that have labels.
    known: BTreeMap<LaneLabels, BTreeSet<i32>>,
    /// How many these are.
    labelled: usize,
    shown: BTreeSet<Series>,
}

impl PriorityGauges {
    pub(super) fn new() -> Self {
        describe_gauge!(AVAILABLE, "jobs of a priority that are ready to start");
        describe_gauge!(OLDEST, "how long the first of a priority has been ready");
        Self::default()
    }

    /// Shows these lanes under their labels; what is gone shows zero.
    pub(super) fn show<'a>(
        &mut self,
        lanes: impl Iterator<Item = (LaneLabels, &'a LaneStats)>,
        now: Timestamp,
    ) {
        let none = self.shown.iter().map(|series| (series.clone(), Numbers::default()));
        let mut sums: BTreeMap<Series, Numbers> = none.collect();
        for (labels, lane) in lanes {
            for told in &lane.priorities {
                let label = self.label(&labels, told.priority);
                let sum = sums.entry((labels.clone(), label)).or_default();
                sum.available += told.available;
                sum.oldest_ms = sum.oldest_ms.max(now.since(told.head_ready_at));
            }
            let rest = lane.not_told_apart();
            if rest > 0 {
                sums.entry((labels, None)).or_default().available += rest;
            }
        }
        for (series, Numbers { available, oldest_ms }) in sums {
            set(&series, available as f64, oldest_ms as f64 / 1_000.0);
            self.shown.insert(series);
        }
    }

    /// Shows that nothing is known.
    pub(super) fn unknown(&self) {
        self.shown.iter().for_each(|series| set(series, f64::NAN, f64::NAN));
    }

    /// The priority that a job is shown under, if not under that of all others.
    fn label(&mut self, lane: &LaneLabels, priority: i32) -> Option<i32> {
        let known = self.known.entry(lane.clone()).or_default();
        let has_room = known.len() < PRIORITIES_MAX && self.labelled < PRIORITIES_LABELLED_MAX;
        if has_room && known.insert(priority) {
            self.labelled += 1;
        }
        known.contains(&priority).then_some(priority)
    }
}

/// Of jobs that are not told apart nobody knows which was first.
fn set((lane, priority): &Series, available: f64, oldest_seconds: f64) {
    let name = priority.map_or_else(|| OTHER.to_owned(), |priority| priority.to_string());
    let labels = [lane.labels(), vec![Label::new("priority", name)]].concat();
    if priority.is_some() {
        gauge!(OLDEST, labels.clone()).set(oldest_seconds);
    }
    gauge!(AVAILABLE, labels).set(available);
}
