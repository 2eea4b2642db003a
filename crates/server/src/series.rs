//! Aggregates stored samples into points of a time series. It must not know how they are displayed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use windlass_core::Timestamp;
use windlass_core::engine::Engine;
use windlass_core::time::HOUR_MS;
use windlass_services::{Flow, Resolution, Sample, SampleQuery, Samples};
use windlass_wire::Point;

/// How long the last hour is cached. Samples change once a minute.
const REREAD_AFTER: Duration = Duration::from_secs(5);

/// Aggregate of the samples of one point, over all their queues.
#[derive(Default)]
struct Sum {
    /// Number of samples with measurements.
    measured: u64,
    averages: [f64; 4],
    depth_max: u64,
    oldest_ms: u64,
    flow: Flow,
}

impl Sum {
    fn add(&mut self, sample: &Sample) {
        let mut depth_max = 0_u64;
        let mut measured = false;
        for queue in &sample.queues {
            let gauges = [queue.depth, queue.available, queue.running, queue.dead];
            for (sum, gauge) in self.averages.iter_mut().zip(gauges) {
                *sum += queue.average(gauge);
            }
            measured |= queue.samples > 0;
            depth_max = depth_max.saturating_add(queue.depth.max());
            self.oldest_ms = self.oldest_ms.max(queue.oldest_ms.max());
            self.flow = self.flow.plus(queue.flow);
        }
        self.measured += u64::from(measured);
        self.depth_max = self.depth_max.max(depth_max);
    }

    fn point(self, at: Timestamp) -> Point {
        let [depth, available, running, dead] =
            self.averages.map(|sum| sum / self.measured.max(1) as f64);
        Point {
            at,
            depth,
            depth_max: self.depth_max,
            available,
            running,
            dead,
            oldest_ms: self.oldest_ms,
            enqueued: self.flow.enqueued,
            started: self.flow.started,
            completed: self.flow.completed,
            failed: self.flow.failed,
            run_ms: self.flow.run_average_ms(),
        }
    }
}

/// Aggregates samples into points of `step_ms`, starting at `from`.
pub(crate) fn points(samples: &[Sample], from: Timestamp, step_ms: u64) -> Vec<Point> {
    let mut sums: BTreeMap<u64, Sum> = BTreeMap::new();
    for sample in samples {
        sums.entry(sample.start.since(from) / step_ms).or_default().add(sample);
    }
    sums.into_iter().map(|(place, sum)| sum.point(from.plus(place * step_ms))).collect()
}

/// The minutes of the last hour, over all servers. Concurrent readers share one read.
pub(crate) struct LastHour {
    engine: Arc<dyn Engine>,
    read: Mutex<Option<(Instant, Arc<Vec<Sample>>)>>,
}

impl LastHour {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine, read: Mutex::default() }
    }

    /// Its samples, oldest first; empty if the store cannot be read.
    pub(crate) async fn samples(&self, now: Timestamp) -> Arc<Vec<Sample>> {
        let mut read = self.read.lock().await;
        if let Some((at, samples)) = &*read
            && at.elapsed() < REREAD_AFTER
        {
            return samples.clone();
        }
        let query = SampleQuery::new(Resolution::Minute, now.minus(HOUR_MS), now);
        // A chart must not fail a whole page.
        let samples = Samples::new(self.engine.clone()).read(&query).await.unwrap_or_default();
        let samples = Arc::new(samples);
        *read = Some((Instant::now(), samples.clone()));
        samples
    }
}
