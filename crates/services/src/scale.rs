//! Computes how many workers a queue needs, for autoscalers. Does not start or stop workers.

use crate::sample::{Flow, Flows, Resolution, SampleQuery, Samples};
use std::sync::Arc;
use windlass_core::engine::{Engine, StatsRequest};
use windlass_core::model::Name;
use windlass_core::time::{DAY_MS, MINUTE_MS, SECOND_MS};
use windlass_core::{Error, Result, Timestamp, check_name, within_range};

/// The period over which rates are computed: whole minutes before the current one.
const WINDOW_MS: u64 = 5 * MINUTE_MS;
/// Maximum number of slots per worker.
const PER_WORKER_MAX: u64 = 10_000;
/// Maximum number of workers.
const WORKERS_MAX: u64 = 100_000;

/// The parameters of the computation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScaleQuery {
    /// The queue.
    pub queue: Name,
    /// The time within which ready jobs should start.
    pub target_latency_ms: u64,
    /// Jobs that one worker runs at a time.
    pub per_worker: u64,
    /// Minimum number of workers.
    pub min: u64,
    /// Maximum number of workers.
    pub max: u64,
}

impl ScaleQuery {
    /// Defaults: one job per worker, up to 100 workers, ready jobs start within 30 s.
    pub fn new(queue: impl Into<Name>) -> Self {
        let target_latency_ms = 30 * SECOND_MS;
        Self { queue: queue.into(), target_latency_ms, per_worker: 1, min: 0, max: 100 }
    }

    /// Validates the parameters.
    pub fn check(&self) -> Result<()> {
        check_name("queue", &self.queue)?;
        within_range("target_latency_ms", self.target_latency_ms, 1..=DAY_MS)?;
        within_range("per_worker", self.per_worker, 1..=PER_WORKER_MAX)?;
        within_range("max", self.max, 0..=WORKERS_MAX)?;
        if self.min > self.max {
            return Err(Error::invalid("min", self.min, format!("max is {}", self.max)));
        }
        Ok(())
    }
}

/// The number of workers that a queue needs, and the values it was computed from.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Scale {
    /// Number of workers needed.
    pub desired: u64,
    /// Ready jobs in open lanes: more workers do not help a paused queue.
    pub available: u64,
    /// Running jobs.
    pub running: u64,
    /// Enqueued jobs per second over the last minutes, as far as servers counted them.
    pub arrivals_per_second: f64,
    /// Average run time of an attempt; `None` if none was reported in the last minutes.
    pub run_ms: Option<u64>,
}

impl Scale {
    /// Reads the queue's statistics and computes its scale; `own` has counts that this process has not
    /// written yet.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use windlass_core::engine::{Enqueue, Jobs};
    /// # use windlass_core::model::NewJob;
    /// use windlass_memory::MemoryEngine;
    /// use windlass_services::{Scale, ScaleQuery};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let engine = Arc::new(MemoryEngine::new());
    /// engine.enqueue(Enqueue::each((0..25).map(|_| NewJob::new("hello")))).await?;
    /// let mut query = ScaleQuery::new("default");
    /// query.per_worker = 10;
    /// let scale = Scale::read(engine, &query, None).await?;
    /// // How long a job takes is not known: as if each took all of the time it may wait.
    /// assert_eq!(scale.desired, 3);
    /// # Ok::<(), windlass_core::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn read(
        engine: Arc<dyn Engine>,
        query: &ScaleQuery,
        own: Option<&Flows>,
    ) -> Result<Self> {
        query.check()?;
        let stats = engine.stats(StatsRequest::queue(query.queue.clone())).await?;
        let (now, lanes) = (stats.now, stats.value);
        let open = lanes.iter().filter(|lane| lane.gate.is_none());
        let available = open.map(|lane| lane.available).sum();
        let running = lanes.iter().map(|lane| lane.running).sum();
        let since = Resolution::Minute.start(now).minus(WINDOW_MS);
        let flow = flow(engine, &query.queue, since, own).await?;
        let mut scale = Self {
            desired: 0,
            available,
            running,
            arrivals_per_second: per_second(flow.enqueued, now.since(since)),
            run_ms: flow.run_average_ms(),
        };
        scale.desired = scale.desired(query);
        Ok(scale)
    }

    /// Workers for the slots needed: those that keep up with arrivals (by Little's law, arrivals per second
    /// times seconds per job), plus those that start the ready jobs within the target. Never fewer than for
    /// the running jobs, because stopped jobs would have to run again.
    fn desired(&self, query: &ScaleQuery) -> u64 {
        let target_s = seconds(query.target_latency_ms);
        let run_s = self.run_ms.map_or(target_s, seconds);
        let keep_up = self.arrivals_per_second * run_s;
        let catch_up = self.available as f64 * run_s / target_s;
        let slots = (keep_up + catch_up).max(self.running as f64);
        let workers = (slots / query.per_worker as f64).ceil() as u64;
        // Jobs with a run time of zero need at least one worker.
        workers.max(u64::from(self.available > 0)).clamp(query.min, query.max)
    }
}

async fn flow(
    engine: Arc<dyn Engine>,
    queue: &str,
    since: Timestamp,
    own: Option<&Flows>,
) -> Result<Flow> {
    let query = SampleQuery::new(Resolution::Minute, since, Timestamp::MAX.min(since.plus(DAY_MS)));
    let samples = Samples::new(engine).read(&query.queue(queue)).await?;
    let mut sum = own.map(|own| own.unwritten(queue, since)).unwrap_or_default();
    samples.iter().filter_map(|it| it.queue(queue)).for_each(|it| sum.merge(it.flow));
    Ok(sum)
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / SECOND_MS as f64
}

fn per_second(count: u64, over_ms: u64) -> f64 {
    count as f64 / seconds(over_ms.max(SECOND_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desired(available: u64, running: u64, arrivals: f64, run_ms: Option<u64>) -> u64 {
        let mut query = ScaleQuery::new("q");
        (query.per_worker, query.max) = (10, 50);
        let arrivals_per_second = arrivals;
        Scale { desired: 0, available, running, arrivals_per_second, run_ms }.desired(&query)
    }

    #[test]
    fn workers_follow_arrivals_and_backlog_within_their_bounds() {
        assert_eq!(desired(0, 0, 0.0, None), 0, "nothing to do");
        assert_eq!(desired(0, 0, 100.0, Some(500)), 5, "50 slots keep up");
        assert_eq!(
            desired(3_000, 0, 0.0, Some(1_000)),
            10,
            "100 slots start 3,000 s of work in 30 s"
        );
        assert_eq!(desired(3_000, 0, 100.0, Some(500)), 10, "both");
        assert_eq!(desired(0, 75, 0.0, Some(10)), 8, "what runs is not stopped");
        assert_eq!(desired(1, 0, 0.0, Some(0)), 1, "one worker must take it");
        assert_eq!(
            desired(20, 0, 0.0, None),
            2,
            "as long as they may wait, while nothing is known"
        );
        assert_eq!(desired(1_000_000, 0, 0.0, None), 50);
    }

    #[test]
    fn a_question_out_of_bounds_is_refused_by_name() {
        let refused = |change: fn(&mut ScaleQuery)| {
            let mut query = ScaleQuery::new("q");
            query.check().unwrap();
            change(&mut query);
            query.check().unwrap_err().field().unwrap().to_owned()
        };
        assert_eq!(refused(|q| q.target_latency_ms = 0), "target_latency_ms");
        assert_eq!(refused(|q| q.per_worker = 0), "per_worker");
        assert_eq!(refused(|q| q.min = 101), "min");
        assert_eq!(refused(|q| q.max = u64::MAX), "max");
        assert_eq!(refused(|q| q.queue = "".into()), "queue");
    }
}
