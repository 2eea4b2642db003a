//! Enforces depth limits: the number of waiting jobs per queue, read from the store periodically
//! and shared by all requests. Between reads, jobs admitted by this server are added. Of a job, it
//! knows only the queues that it will wait in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::engine::{Engine, LaneStats, Settings, StatsRequest};
use windlass_core::model::{Name, NewJob, Subscription};
use windlass_core::sync::lock;
use windlass_core::{Error, Result};

/// Minimum interval between reads, which happen only while jobs are enqueued. Within it, jobs
/// admitted by other servers can exceed the limit.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Minimum retry time for a refused producer.
const RETRY_MIN_MS: u64 = 1_000;
/// Maximum retry time for a refused producer.
const RETRY_MAX_MS: u64 = 60_000;

/// Limits of waiting jobs per queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DepthLimits {
    /// For queues without their own limit.
    pub(crate) soft: u64,
    /// For every queue, even with a higher limit of its own.
    pub(crate) hard: u64,
}

/// Tracks the depths of queues.
pub(crate) struct Depth {
    engine: Arc<dyn Engine>,
    limits: DepthLimits,
    seen: Mutex<Seen>,
    /// Held during a read; other requests use the cached depths.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Seen {
    at: Option<Instant>,
    queues: HashMap<Name, Queue>,
    /// Subscriptions of topics: their jobs wait in the queues of these.
    topics: HashMap<Name, Vec<Subscription>>,
}

#[derive(Clone, Copy, Default)]
struct Queue {
    /// Waiting jobs at the last read.
    depth: u64,
    /// Jobs admitted since.
    taken: u64,
    /// Whether it has its own limit, which the store enforces exactly.
    limited: bool,
    /// Recent drain rate in jobs per second; `None` before the second read.
    drain_per_s: Option<f64>,
}

impl Depth {
    pub(crate) fn new(engine: Arc<dyn Engine>, limits: DepthLimits) -> Self {
        let reading = tokio::sync::Mutex::new(());
        Self { engine, limits, seen: Mutex::default(), reading }
    }

    /// Reads depths from the store if they are outdated. Concurrent requests proceed with the
    /// cached depths.
    pub(crate) async fn refresh(&self) -> Result<()> {
        let Some(_reading) = self.turn().await else { return Ok(()) };
        let before: HashMap<Name, u64> =
            self.seen().queues.iter().map(|(name, queue)| (name.clone(), queue.taken)).collect();
        let read = async {
            let lanes = self.engine.stats(StatsRequest::default()).await?.value;
            Ok((lanes, self.engine.settings().await?.value))
        };
        match read.await {
            Ok((lanes, settings)) => self.note(&before, &lanes, &settings),
            // Keep the cached depths: the request's own store call will report the outage.
            Err(_) if self.seen().at.is_some() => self.seen().at = Some(Instant::now()),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The lock for reading, if a read is due and no other task is reading.
    async fn turn(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        let is_fresh = || self.seen().at.is_some_and(|at| at.elapsed() < LOOK_EVERY);
        if is_fresh() {
            return None;
        }
        let known = self.seen().at.is_some();
        let turn = match self.reading.try_lock() {
            Ok(turn) => turn,
            Err(_) if known => return None,
            Err(_) => self.reading.lock().await,
        };
        (!is_fresh()).then_some(turn)
    }

    /// Admits one more job, or fails if its queue is full; for a topic, if the queue of a subscription that wants it is.
    pub(crate) fn admit(&self, job: &NewJob) -> Result<()> {
        let wanted = |of: &Vec<Subscription>| -> Vec<Name> {
            of.iter().filter(|it| it.wants(job)).map(|it| it.queue.clone()).collect()
        };
        let copied = self.seen().topics.get(&job.queue).map(wanted);
        let Some(queues) = copied else { return self.take(&job.queue) };
        for (at, queue) in queues.iter().enumerate() {
            if let Err(full) = self.take(queue) {
                queues[..at].iter().for_each(|taken| self.give_back(taken));
                return Err(full);
            }
        }
        Ok(())
    }

    fn give_back(&self, name: &Name) {
        if let Some(queue) = self.seen().queues.get_mut(name) {
            queue.taken = queue.taken.saturating_sub(1);
        }
    }

    /// Admits one more job to a queue, or fails if it is full.
    pub(crate) fn take(&self, name: &Name) -> Result<()> {
        let mut seen = self.seen();
        let queue = seen.queues.entry(name.clone()).or_default();
        let DepthLimits { soft, hard } = self.limits;
        let limit = if queue.limited { hard } else { soft.min(hard) };
        let depth = queue.depth.saturating_add(queue.taken);
        if depth < limit {
            queue.taken += 1;
            return Ok(());
        }
        let retry_after_ms = Some(queue.retry_after_ms(depth, limit));
        metrics::counter!("windlass_server_refused_total", "why" => "depth").increment(1);
        Err(Error::QueueFull { queue: name.to_string(), depth, limit, retry_after_ms })
    }

    /// Adds a retry time to the store's own error for a full queue.
    pub(crate) fn advise(&self, error: &mut Error) {
        if let Error::QueueFull { queue, depth, limit, retry_after_ms: advice @ None } = error {
            let known = self.seen().queues.get(&**queue).copied().unwrap_or_default();
            *advice = Some(known.retry_after_ms(*depth, *limit));
        }
    }

    fn note(&self, before: &HashMap<Name, u64>, lanes: &[LaneStats], settings: &Settings) {
        let (mut seen, now) = (self.seen(), Instant::now());
        let elapsed = seen.at.map(|at| now.duration_since(at).as_secs_f64());
        let mut queues: HashMap<Name, Queue> = HashMap::new();
        for lane in lanes {
            queues.entry(lane.queue.clone()).or_default().depth += lane.depth();
        }
        for (name, settings) in &settings.queues {
            queues.entry(name.clone()).or_default().limited = settings.max_depth.is_some();
        }
        for (name, queue) in &mut queues {
            let old = seen.queues.get(name).copied().unwrap_or_default();
            let counted = before.get(name).copied().unwrap_or(0);
            // Jobs admitted during the read may or may not be included in it; count them.
            queue.taken = old.taken.saturating_sub(counted);
            queue.drain_per_s = elapsed.filter(|seconds| *seconds > 0.0).map(|seconds| {
                let left = old.depth.saturating_add(counted).saturating_sub(queue.depth);
                let now = left as f64 / seconds;
                old.drain_per_s.map_or(now, |before| before.midpoint(now))
            });
        }
        let topics = settings.queues.iter().filter(|(_, of)| !of.subscriptions.is_empty());
        let topics = topics.map(|(name, of)| (name.clone(), of.subscriptions.clone())).collect();
        *seen = Seen { at: Some(now), queues, topics };
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }
}

impl Queue {
    /// Estimated time until the queue has capacity, from its recent drain rate.
    fn retry_after_ms(&self, depth: u64, limit: u64) -> u64 {
        let excess = depth.saturating_sub(limit) + 1;
        match self.drain_per_s {
            None => RETRY_MIN_MS,
            Some(rate) if rate <= 0.0 => RETRY_MAX_MS,
            Some(rate) => {
                ((excess as f64 / rate * 1_000.0) as u64).clamp(RETRY_MIN_MS, RETRY_MAX_MS)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_producer_gets_a_retry_time() {
        let advice = |drain_per_s, depth| {
            Queue { drain_per_s, ..Queue::default() }.retry_after_ms(depth, 100)
        };
        assert_eq!(advice(None, 100), RETRY_MIN_MS);
        assert_eq!(advice(Some(50.0), 100), RETRY_MIN_MS, "a moment");
        assert_eq!(advice(Some(50.0), 349), 5_000, "250 too many at 50 per second");
        assert_eq!(advice(Some(0.001), 200), RETRY_MAX_MS);
        assert_eq!(advice(Some(0.0), 100), RETRY_MAX_MS);
    }
}
