//! Ready jobs by priority as gauges, with a bounded number of labels. Independent of how they were counted.

use super::lanes::{LaneLabels, OTHER};
use metrics::{Label, describe_gauge, gauge};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::Timestamp;
use windlass_core::engine::LaneStats;
use windlass_core::limits::PRIORITIES_MAX;

/// Maximum number of priorities with their own labels, over all lanes; per lane, at most those that the
/// engine reports. Exporters keep every label forever, and priorities come from callers.
const PRIORITIES_LABELLED_MAX: usize = 1_000;

const AVAILABLE: &str = "windlass_queue_priority_available";
const OLDEST: &str = "windlass_queue_priority_oldest_seconds";

/// Sums over the jobs of one label.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    available: u64,
    /// The longest wait among them.
    oldest_ms: u64,
}

/// A priority of some lanes; `None` means all priorities without their own label.
type Series = (LaneLabels, Option<i32>);

/// The labelled priorities, and the series published before.
#[derive(Debug, Default)]
pub(super) struct PriorityGauges {
    /// The labelled priorities of each lane.
    known: BTreeMap<LaneLabels, BTreeSet<i32>>,
    /// Total number of labelled priorities.
    labelled: usize,
    shown: BTreeSet<Series>,
}

impl PriorityGauges {
    pub(super) fn new() -> Self {
        describe_gauge!(AVAILABLE, "ready jobs by priority");
        describe_gauge!(OLDEST, "how long the first ready job of a priority has been ready");
        Self::default()
    }

    /// Publishes these lanes under their labels; series that no longer exist become zero.
    pub(super) fn show<'a>(
        &mut self,
        lanes: impl Iterator<Item = (LaneLabels, &'a LaneStats)>,
        now: Timestamp,
    ) {
        let none = self.shown.iter().map(|series| (series.clone(), Numbers::default()));
        let mut sums: BTreeMap<Series, Numbers> = none.collect();
        for (labels, lane) in lanes {
            for reported in &lane.priorities {
                let label = self.label(&labels, reported.priority);
                let sum = sums.entry((labels.clone(), label)).or_default();
                sum.available += reported.available;
                sum.oldest_ms = sum.oldest_ms.max(now.since(reported.head_ready_at));
            }
            let rest = lane.unlisted();
            if rest > 0 {
                sums.entry((labels, None)).or_default().available += rest;
            }
        }
        for (series, Numbers { available, oldest_ms }) in sums {
            set(&series, available as f64, oldest_ms as f64 / 1_000.0);
            self.shown.insert(series);
        }
    }

    /// Marks all values as unknown.
    pub(super) fn unknown(&self) {
        self.shown.iter().for_each(|series| set(series, f64::NAN, f64::NAN));
    }

    /// The priority under which a job is published; `None` means the shared series.
    fn label(&mut self, lane: &LaneLabels, priority: i32) -> Option<i32> {
        let known = self.known.entry(lane.clone()).or_default();
        let has_room = known.len() < PRIORITIES_MAX && self.labelled < PRIORITIES_LABELLED_MAX;
        if has_room && known.insert(priority) {
            self.labelled += 1;
        }
        known.contains(&priority).then_some(priority)
    }
}

/// The shared series has no oldest wait, because its jobs are not distinguished.
fn set((lane, priority): &Series, available: f64, oldest_seconds: f64) {
    let name = priority.map_or_else(|| OTHER.to_owned(), |priority| priority.to_string());
    let labels = [lane.labels(), vec![Label::new("priority", name)]].concat();
    if priority.is_some() {
        gauge!(OLDEST, labels.clone()).set(oldest_seconds);
    }
    gauge!(AVAILABLE, labels).set(available);
}
