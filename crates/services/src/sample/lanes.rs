//! Metric labels of lanes, bounded in number. Independent of what is measured.

use metrics::Label;
use std::collections::BTreeSet;
use std::sync::Mutex;
use windlass_core::sync::lock;

/// Maximum number of lanes with their own labels: exporters keep every label forever, and names come from
/// callers.
pub const LANES_LABELLED_MAX: usize = 1_000;

/// The label of all lanes beyond [`LANES_LABELLED_MAX`].
pub(super) const OTHER: &str = "other";

/// The labels of a queue, or of a kind in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneLabels {
    queue: String,
    kind: Option<String>,
}

impl LaneLabels {
    /// The labels for the `metrics` facade.
    pub fn labels(&self) -> Vec<Label> {
        let mut labels = vec![Label::new("queue", self.queue.clone())];
        labels.extend(self.kind.iter().map(|kind| Label::new("kind", kind.clone())));
        labels
    }
}

/// Assigns labels to lanes: each gets its own up to the limit.
///
/// ```
/// use windlass_services::LabelledLanes;
///
/// let lanes = LabelledLanes::new(false);
/// assert_eq!(lanes.of("mail", "welcome"), lanes.of("mail", "invoice"), "by queue alone");
/// let lanes = LabelledLanes::new(true);
/// assert_ne!(lanes.of("mail", "welcome"), lanes.of("mail", "invoice"));
/// ```
#[derive(Debug)]
pub struct LabelledLanes {
    by_kind: bool,
    known: Mutex<BTreeSet<LaneLabels>>,
}

impl LabelledLanes {
    /// Labels by queue and, with `by_kind`, by kind.
    pub const fn new(by_kind: bool) -> Self {
        Self { by_kind, known: Mutex::new(BTreeSet::new()) }
    }

    /// The labels of a lane.
    pub fn of(&self, queue: &str, kind: &str) -> LaneLabels {
        let lane = self.labels(queue, kind);
        // The set is consistent after every step, so a panic elsewhere does not invalidate it.
        let mut known = lock(&self.known);
        if known.contains(&lane) {
            return lane;
        }
        if known.len() < LANES_LABELLED_MAX {
            known.insert(lane.clone());
            return lane;
        }
        self.other()
    }

    /// The labels for a lane that is not known.
    pub fn other(&self) -> LaneLabels {
        self.labels(OTHER, OTHER)
    }

    fn labels(&self, queue: &str, kind: &str) -> LaneLabels {
        let kind = self.by_kind.then(|| kind.to_owned());
        LaneLabels { queue: queue.to_owned(), kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_beyond_the_bound_are_one() {
        let lanes = LabelledLanes::new(true);
        for n in 0..LANES_LABELLED_MAX {
            assert_ne!(lanes.of(&format!("q{n}"), "k"), lanes.other());
        }
        for n in 0..LANES_LABELLED_MAX {
            assert_eq!(lanes.of("more", &n.to_string()), lanes.other());
        }
        assert_ne!(lanes.of("q7", "k"), lanes.other(), "those that were there stay");
    }
}
