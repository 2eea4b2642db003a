//! The worker's metrics, through the `metrics` facade. Labels are the worker's own queues and kinds, which
//! bounds their cardinality.

use crate::shared::Shared;
use crate::stats::End;
use metrics::{Counter, Gauge, Histogram, counter, describe_counter, describe_gauge};
use metrics::{describe_histogram, gauge, histogram};
use std::time::Duration;

/// Metric handles, registered once: looking them up for each job would cost more than most jobs.
pub(crate) struct Meters {
    lanes: Vec<Lane>,
    kinds: usize,
    pub(crate) buffered: Level,
    pub(crate) leaked: Level,
    pub(crate) store_errors: Counter,
}

struct Lane {
    ends: Vec<Counter>,
    seconds: Histogram,
    in_flight: Gauge,
}

/// This worker's contribution to a gauge that all workers of the process share.
pub(crate) struct Level {
    gauge: Gauge,
    own: f64,
}

impl Level {
    const fn new(gauge: Gauge) -> Self {
        Self { gauge, own: 0.0 }
    }

    pub(crate) fn set(&mut self, own: f64) {
        if own != self.own {
            self.gauge.increment(own - self.own);
            self.own = own;
        }
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        self.set(0.0);
    }
}

impl Meters {
    pub(crate) fn new(shared: &Shared) -> Self {
        describe();
        let lanes = shared.queues.iter().flat_map(|queue| {
            shared.routes.iter().map(|route| Lane::new(&queue.name, &route.kind))
        });
        Self {
            lanes: lanes.collect(),
            kinds: shared.routes.len(),
            buffered: Level::new(gauge!("windlass_worker_buffered")),
            leaked: Level::new(gauge!("windlass_worker_leaked_threads")),
            store_errors: counter!("windlass_worker_store_errors_total"),
        }
    }

    fn lane(&self, queue: usize, kind: usize) -> &Lane {
        &self.lanes[queue * self.kinds + kind]
    }

    pub(crate) fn started(&self, queue: usize, kind: usize) {
        self.lane(queue, kind).in_flight.increment(1);
    }

    pub(crate) fn ended(&self, queue: usize, kind: usize, took: Duration) {
        let lane = self.lane(queue, kind);
        lane.in_flight.decrement(1);
        lane.seconds.record(took);
    }

    pub(crate) fn settled(&self, queue: usize, kind: usize, end: End) {
        self.lane(queue, kind).ends[end as usize].increment(1);
    }
}

impl Lane {
    fn new(queue: &str, kind: &str) -> Self {
        let labels = [("queue", queue.to_owned()), ("kind", kind.to_owned())];
        let end = |end: End| {
            let [queue, kind] = labels.clone();
            let outcome = ("outcome", end.as_str().to_owned());
            counter!("windlass_jobs_finished_total", &[queue, kind, outcome])
        };
        Self {
            ends: End::ALL.map(end).into(),
            seconds: histogram!("windlass_job_run_seconds", &labels),
            in_flight: gauge!("windlass_jobs_in_flight", &labels),
        }
    }
}

fn describe() {
    describe_counter!(
        "windlass_jobs_finished_total",
        "finished attempts by outcome; `lost`: the lease was lost"
    );
    describe_histogram!("windlass_job_run_seconds", metrics::Unit::Seconds, "run time of handlers");
    describe_gauge!("windlass_jobs_in_flight", "running handlers");
    describe_gauge!("windlass_worker_buffered", "results that wait for the store");
    describe_gauge!(
        "windlass_worker_leaked_threads",
        "threads of blocking handlers that ignored the stop signal"
    );
    describe_counter!("windlass_worker_store_errors_total", "calls the store did not answer");
}
