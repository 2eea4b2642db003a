//! Tables of queues: sums over their lanes, and rates.

use super::format::{Clock, Count, Rate, Time};
use super::links;
use super::spark::Spark;
use super::throughput::Throughput;
use std::collections::BTreeMap;
use windlass_core::engine::{LaneStats, LaneSums, Settings};
use windlass_core::model::Name;

/// A queue: sums over its lanes, and its settings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    pub(super) sums: LaneSums,
    pub(super) paused: bool,
}

/// All queues with lanes or settings, sorted by name.
pub(super) fn queues(lanes: &[LaneStats], settings: &Settings) -> BTreeMap<Name, Queue> {
    let mut queues: BTreeMap<Name, Queue> = BTreeMap::new();
    for lane in lanes {
        queues.entry(lane.queue.clone()).or_default().sums.add(lane);
    }
    for (name, settings) in &settings.queues {
        queues.entry(name.clone()).or_default().paused = settings.paused;
    }
    queues
}

/// A queue, as a table row.
#[derive(Debug)]
pub(super) struct QueueRow {
    pub(super) name: Name,
    pub(super) href: String,
    pub(super) available: Count,
    pub(super) running: Count,
    pub(super) scheduled: Count,
    pub(super) next_due: Option<Time>,
    pub(super) blocked: Count,
    /// Jobs paused individually.
    pub(super) paused_jobs: Count,
    pub(super) completed: Count,
    pub(super) dead: Count,
    pub(super) dead_href: String,
    pub(super) rate_in: Rate,
    pub(super) rate_out: Rate,
    pub(super) spark: Spark,
    pub(super) spark_out: Spark,
    pub(super) oldest: Option<Time>,
    /// Whether the queue itself is paused.
    pub(super) paused: bool,
}

impl QueueRow {
    pub(super) fn new(name: &Name, queue: Queue, flow: &Throughput, clock: Clock) -> Self {
        let Queue { sums, paused } = queue;
        Self {
            name: name.clone(),
            href: links::queue(name),
            available: Count(sums.available),
            running: Count(sums.running),
            scheduled: Count(sums.scheduled),
            next_due: sums.next_due.map(|at| clock.ago(at)),
            blocked: Count(sums.blocked),
            paused_jobs: Count(sums.paused),
            completed: Count(sums.completed),
            dead: Count(sums.dead),
            dead_href: links::with("/dead", &[("queue", Some(name))]),
            rate_in: flow.enqueued(name),
            rate_out: flow.started(name),
            spark: flow.curve(Some(name), |flow| flow.enqueued),
            spark_out: flow.curve(Some(name), |flow| flow.started),
            oldest: sums.oldest.map(|at| clock.age(at)),
            paused,
        }
    }
}
