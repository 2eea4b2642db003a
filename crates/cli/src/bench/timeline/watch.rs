//! Records the time series of a run in a separate task.

use super::super::clock;
use super::super::histogram::{Histogram, Latencies};
use super::{Database, Event, Point, Timeline};
use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

/// Capacity of the queue of events; there are only a few in a run.
const EVENTS_MAX: usize = 16;

/// Live counters of a run.
#[derive(Debug)]
pub(in crate::bench) struct Counter {
    completed: AtomicU64,
    /// Latencies from the call of enqueue to the start of the handler.
    pub(in crate::bench) latencies: Histogram,
}

impl Counter {
    pub(in crate::bench) fn new() -> Arc<Self> {
        Arc::new(Self { completed: AtomicU64::new(0), latencies: Histogram::new() })
    }

    /// Counts completed jobs.
    pub(in crate::bench) fn add(&self, jobs: u64) {
        self.completed.fetch_add(jobs, Ordering::SeqCst);
    }

    /// The number of jobs completed so far.
    pub(in crate::bench) fn completed(&self) -> u64 {
        self.completed.load(Ordering::SeqCst)
    }
}

/// The task that records a time series.
pub(in crate::bench) struct Watch {
    events: mpsc::Sender<(Instant, String)>,
    task: JoinHandle<Timeline>,
}

impl Watch {
    /// Starts recording.
    pub(in crate::bench) fn start(
        counter: Arc<Counter>,
        database: Option<Database>,
        every: Duration,
    ) -> Self {
        let (events, heard) = mpsc::channel(EVENTS_MAX);
        let sampler = Sampler::open(counter, database);
        Self { events, task: tokio::spawn(sampler.watch(heard, every)) }
    }

    /// Records an event.
    pub(in crate::bench) async fn mark(&self, what: impl Into<String>) {
        // If the task has failed, `stop` returns its error.
        let _ = self.events.send((clock::now(), what.into())).await;
    }

    /// Ends the recording and returns the time series.
    pub(in crate::bench) async fn stop(self) -> Result<Timeline> {
        drop(self.events);
        Ok(self.task.await?)
    }
}

/// The last readings, to compute differences.
struct Sampler {
    counter: Arc<Counter>,
    database: Option<Database>,
    began: Instant,
    read_at: Instant,
    completed: u64,
    latencies: Latencies,
}

impl Sampler {
    fn open(counter: Arc<Counter>, database: Option<Database>) -> Self {
        let (completed, latencies) = (counter.completed(), counter.latencies.read());
        let began = clock::now();
        Self { counter, database, began, read_at: began, completed, latencies }
    }

    async fn watch(
        mut self,
        mut events: mpsc::Receiver<(Instant, String)>,
        every: Duration,
    ) -> Timeline {
        let mut timeline = Timeline::default();
        let mut ticks = ticks(every);
        let mut every = every;
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    if timeline.push(self.sample().await) {
                        every *= 2;
                        ticks = self::ticks(every);
                    }
                }
                event = events.recv() => {
                    let Some((at, what)) = event else { break };
                    let at_s = at.duration_since(self.began).as_secs_f64();
                    timeline.events.push(Event { at_s, what });
                }
            }
        }
        // A rate over less than half an interval is meaningless.
        if self.read_at.elapsed() * 2 >= every || timeline.points.is_empty() {
            timeline.push(self.sample().await);
        }
        timeline
    }

    async fn sample(&mut self) -> Point {
        let (now, completed) = (clock::now(), self.counter.completed());
        let latencies = self.counter.latencies.read();
        let passed_s = now.duration_since(self.read_at).as_secs_f64().max(1e-9);
        let point = Point {
            at_s: now.duration_since(self.began).as_secs_f64(),
            jobs_per_s: (completed - self.completed) as f64 / passed_s,
            p99_ms: latencies.since(&self.latencies).percentile_ms(99.0),
            sizes: match &self.database {
                Some(database) => database.read().await.ok(),
                None => None,
            },
        };
        (self.read_at, self.completed, self.latencies) = (now, completed, latencies);
        point
    }
}

/// Ticks, the first after one interval. Missed ticks are not made up for.
fn ticks(every: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rates_are_measured_between_two_samples_and_events_have_their_time() {
        let counter = Counter::new();
        let watch = Watch::start(Arc::clone(&counter), None, Duration::from_millis(10));
        counter.add(500);
        counter.latencies.count(2_000);
        tokio::time::sleep(Duration::from_millis(35)).await;
        watch.mark("released").await;
        let timeline = watch.stop().await.unwrap();
        let first = &timeline.points[0];
        assert!((first.jobs_per_s * first.at_s - 500.0).abs() < 1.0, "{first:?}");
        assert!((first.p99_ms.unwrap() - 2.0).abs() < 0.01, "{first:?}");
        assert!(timeline.points[1..].iter().all(|it| it.jobs_per_s == 0.0), "{timeline:?}");
        assert!(timeline.events[0].at_s >= 0.03, "{timeline:?}");
    }
}
