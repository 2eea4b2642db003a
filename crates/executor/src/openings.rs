//! The times at which lines of groups open, in memory, for stores with a single writer.

use crate::rows::{LaneKey, Opening};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::Timestamp;
use windlass_core::model::Name;

/// The lines that open at a time.
#[derive(Debug, Default, PartialEq)]
pub struct Openings {
    by_queue: BTreeMap<Name, BTreeSet<Opening>>,
    /// The time of each line, by lane and group.
    at: BTreeMap<(LaneKey, String), Timestamp>,
}

impl Openings {
    /// When a line opens.
    pub fn at(&self, lane: &LaneKey, group: &str) -> Option<Timestamp> {
        if self.at.is_empty() {
            return None;
        }
        self.at.get(&(lane.clone(), group.to_owned())).copied()
    }

    /// Sets or removes the time at which a line opens.
    pub fn set(&mut self, lane: &LaneKey, group: &str, at: Option<Timestamp>) {
        let key = (lane.clone(), group.to_owned());
        let opening = |at| Opening { at, kind: lane.1.clone(), group: group.to_owned() };
        let openings = self.by_queue.entry(lane.0.clone()).or_default();
        if let Some(before) = self.at.remove(&key) {
            openings.remove(&opening(before));
        }
        if let Some(at) = at {
            openings.insert(opening(at));
            self.at.insert(key, at);
        }
        if openings.is_empty() {
            self.by_queue.remove(&lane.0);
        }
    }

    /// The first lines of a queue, by time.
    pub fn of_queue(&self, queue: &Name, limit: usize) -> Vec<Opening> {
        let openings = self.by_queue.get(queue).into_iter().flatten();
        openings.take(limit).cloned().collect()
    }

    /// The first lines of all queues, by time.
    pub fn first(&self, limit: usize) -> Vec<(Name, Opening)> {
        let first = |(queue, openings): (&Name, &BTreeSet<Opening>)| {
            let queue = queue.clone();
            let openings: Vec<_> = openings.iter().take(limit).cloned().collect();
            openings.into_iter().map(move |opening| (queue.clone(), opening))
        };
        let mut all: Vec<_> = self.by_queue.iter().flat_map(first).collect();
        all.sort_by(|(_, one), (_, two)| one.cmp(two));
        all.truncate(limit);
        all
    }
}
