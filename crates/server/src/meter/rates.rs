//! Recent event rates: counts in buckets of 5 seconds over the last 5 minutes, on the store's
//! clock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use windlass_core::Timestamp;
use windlass_core::model::Name;
use windlass_core::sync::lock;
use windlass_core::time::SECOND_MS;

/// Length of a bucket.
const BUCKET_MS: u64 = 5 * SECOND_MS;
/// Number of buckets: five minutes.
const BUCKETS: usize = 60;
/// Number of latest buckets in a rate, including the current one: a minute.
const RATE_BUCKETS: usize = 12;
/// Maximum number of queues with separate counts; others are counted in the totals only.
const QUEUES_MAX: usize = 1_024;

/// Counts per bucket.
#[derive(Clone, Copy, Debug)]
struct Series {
    /// Number of the newest bucket.
    newest: i64,
    /// Ring buffer: bucket `n` is at index `n mod BUCKETS`.
    counts: [u32; BUCKETS],
}

impl Series {
    const EMPTY: Self = Self { newest: 0, counts: [0; BUCKETS] };

    /// Clears the buckets between the newest and this one. If the clock goes backwards, events
    /// count into the newest bucket until the clock has caught up.
    fn advance(&mut self, bucket: i64) {
        let steps = bucket.saturating_sub(self.newest).clamp(0, BUCKETS as i64);
        for step in 0..steps {
            *self.slot(bucket - step) = 0;
        }
        self.newest = self.newest.max(bucket);
    }

    fn add(&mut self, bucket: i64, count: u32) {
        self.advance(bucket);
        let slot = self.slot(self.newest);
        *slot = slot.saturating_add(count);
    }

    fn slot(&mut self, bucket: i64) -> &mut u32 {
        &mut self.counts[bucket.rem_euclid(BUCKETS as i64) as usize]
    }

    /// The trend at `now`, for counts that started at `since`.
    fn trend(mut self, now: Timestamp, since: Timestamp) -> Trend {
        self.advance(bucket(now));
        let newest = self.newest;
        let mut count = |back: usize| *self.slot(newest - back as i64);
        // Exclude the current bucket: it is incomplete and would look like a drop in the chart.
        let points: Vec<u32> = (1..BUCKETS).rev().map(&mut count).collect();
        let recent: u64 = (0..RATE_BUCKETS).map(|back| u64::from(count(back))).sum();
        let begun = (bucket(now) - RATE_BUCKETS as i64 + 1).saturating_mul(BUCKET_MS.cast_signed());
        let spanned_ms = now.since(Timestamp::from_millis(begun).max(since)).max(BUCKET_MS);
        Trend { per_second: recent as f64 * SECOND_MS as f64 / spanned_ms as f64, points }
    }
}

fn bucket(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(BUCKET_MS.cast_signed())
}

/// The recent values of one counter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trend {
    /// Events per second over the last minute.
    pub(crate) per_second: f64,
    /// Counts of the complete buckets, oldest first.
    pub(crate) points: Vec<u32>,
}

#[derive(Debug)]
struct Book {
    /// Time of the first event: a rate must not include the time before it.
    since: Option<Timestamp>,
    enqueued: Series,
    started: Series,
    completed: Series,
    failed: Series,
    /// Enqueued and started jobs, by queue.
    queues: HashMap<Name, [Series; 2]>,
}

impl Book {
    fn queue(&mut self, queue: &Name) -> Option<&mut [Series; 2]> {
        if !self.queues.contains_key(queue) && self.queues.len() < QUEUES_MAX {
            self.queues.insert(queue.clone(), [Series::EMPTY; 2]);
        }
        self.queues.get_mut(queue)
    }
}

/// Event counts of one server. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Rates(Arc<Mutex<Book>>);

/// Trends over all queues.
#[derive(Clone, Debug)]
pub(crate) struct Totals {
    pub(crate) enqueued: Trend,
    pub(crate) started: Trend,
    pub(crate) completed: Trend,
    pub(crate) failed: Trend,
}

impl Rates {
    pub(crate) fn new() -> Self {
        let book = Book {
            since: None,
            enqueued: Series::EMPTY,
            started: Series::EMPTY,
            completed: Series::EMPTY,
            failed: Series::EMPTY,
            queues: HashMap::new(),
        };
        Self(Arc::new(Mutex::new(book)))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.0)
    }

    /// Counts stored jobs by queue.
    pub(super) fn enqueued<'a>(&self, now: Timestamp, queues: impl Iterator<Item = &'a Name>) {
        self.count(now, queues, |book| &mut book.enqueued, 0);
    }

    /// Counts claimed jobs by queue.
    pub(super) fn started<'a>(&self, now: Timestamp, queues: impl Iterator<Item = &'a Name>) {
        self.count(now, queues, |book| &mut book.started, 1);
    }

    /// Counts completed and failed attempts.
    pub(super) fn ended(&self, now: Timestamp, completed: u32, failed: u32) {
        let mut book = self.book();
        book.since.get_or_insert(now);
        book.completed.add(bucket(now), completed);
        book.failed.add(bucket(now), failed);
    }

    fn count<'a>(
        &self,
        now: Timestamp,
        queues: impl Iterator<Item = &'a Name>,
        total: fn(&mut Book) -> &mut Series,
        place: usize,
    ) {
        let mut queues = queues.peekable();
        if queues.peek().is_none() {
            return;
        }
        let mut book = self.book();
        book.since.get_or_insert(now);
        // Adjacent jobs usually have the same queue; count each run at once.
        while let Some(queue) = queues.next() {
            let mut count = 1;
            while queues.next_if(|next| *next == queue).is_some() {
                count += 1;
            }
            total(&mut book).add(bucket(now), count);
            if let Some(series) = book.queue(queue) {
                series[place].add(bucket(now), count);
            }
        }
    }

    /// Trends over all queues at `now`.
    pub(crate) fn totals(&self, now: Timestamp) -> Totals {
        let book = self.book();
        let since = book.since.unwrap_or(now);
        Totals {
            enqueued: book.enqueued.trend(now, since),
            started: book.started.trend(now, since),
            completed: book.completed.trend(now, since),
            failed: book.failed.trend(now, since),
        }
    }

    /// Trends of enqueued and started jobs of one queue.
    pub(crate) fn queue(&self, queue: &str, now: Timestamp) -> [Trend; 2] {
        let book = self.book();
        let since = book.since.unwrap_or(now);
        let series = book.queues.get(queue).copied().unwrap_or([Series::EMPTY; 2]);
        series.map(|series| series.trend(now, since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + seconds * 1_000)
    }

    #[test]
    fn a_steady_stream_shows_its_rate_and_fades_when_it_ends() {
        let (rates, queue) = (Rates::new(), Name::from("mail"));
        for second in 0..120 {
            rates.enqueued(at(second), [&queue, &queue].into_iter());
        }
        let rate = rates.queue("mail", at(120))[0].per_second;
        assert!((1.8..=2.2).contains(&rate), "{rate}");
        assert_eq!(rates.queue("mail", at(200))[0].per_second, 0.0);
        assert!(rates.totals(at(200)).enqueued.points.contains(&10));
        assert!(rates.totals(at(1_000)).enqueued.points.iter().all(|count| *count == 0));
    }

    #[test]
    fn a_server_that_just_began_does_not_divide_by_a_minute_it_has_not_seen() {
        let (rates, queue) = (Rates::new(), Name::from("mail"));
        rates.started(at(0), std::iter::repeat_n(&queue, 100));
        let rate = rates.totals(at(10)).started.per_second;
        assert_eq!(rate, 10.0);
    }

    #[test]
    fn a_clock_that_goes_back_and_queues_beyond_the_bound_lose_no_total() {
        let rates = Rates::new();
        let names: Vec<Name> = (0..QUEUES_MAX + 10).map(|n| format!("q{n}").into()).collect();
        rates.enqueued(at(60), names.iter());
        rates.enqueued(at(0), names.iter());
        let total: u32 = rates.totals(at(65)).enqueued.points.iter().sum();
        assert_eq!(total as usize, 2 * (QUEUES_MAX + 10));
        assert_eq!(rates.book().queues.len(), QUEUES_MAX);
    }
}
