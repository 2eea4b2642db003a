//! Event rates of the last minute: counts in buckets of 5 seconds, on the store's clock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use windlass_core::Timestamp;
use windlass_core::model::Name;
use windlass_core::sync::lock;
use windlass_core::time::SECOND_MS;

/// Length of a bucket.
const BUCKET_MS: u64 = 5 * SECOND_MS;
/// Number of buckets, including the current one: a minute.
const BUCKETS: usize = 12;
/// Maximum number of queues with separate counts; others are counted together.
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

    /// Events per second at `now`, for counts that started at `since`.
    fn per_second(mut self, now: Timestamp, since: Timestamp) -> f64 {
        self.advance(bucket(now));
        let recent: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        let begun = (bucket(now) - BUCKETS as i64 + 1).saturating_mul(BUCKET_MS.cast_signed());
        let spanned_ms = now.since(Timestamp::from_millis(begun).max(since)).max(BUCKET_MS);
        recent as f64 * SECOND_MS as f64 / spanned_ms as f64
    }
}

fn bucket(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(BUCKET_MS.cast_signed())
}

#[derive(Debug)]
struct Book {
    /// Time of the first event: a rate must not include the time before it.
    since: Option<Timestamp>,
    completed: Series,
    failed: Series,
    /// Enqueued and started jobs, by queue.
    queues: HashMap<Name, [Series; 2]>,
    /// The same of all queues beyond [`QUEUES_MAX`].
    others: [Series; 2],
}

impl Book {
    fn queue(&mut self, queue: &Name) -> &mut [Series; 2] {
        if !self.queues.contains_key(queue) && self.queues.len() == QUEUES_MAX {
            return &mut self.others;
        }
        self.queues.entry(queue.clone()).or_insert([Series::EMPTY; 2])
    }
}

/// Event counts of one server. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Rates(Arc<Mutex<Book>>);

/// Rates of one queue through this server, per second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueRates {
    pub(crate) enqueued: f64,
    pub(crate) started: f64,
}

/// All rates through this server, per second.
#[derive(Clone, Debug, Default)]
pub(crate) struct RatesNow {
    pub(crate) queues: HashMap<Name, QueueRates>,
    /// Queues beyond [`QUEUES_MAX`] together.
    pub(crate) others: QueueRates,
    pub(crate) completed: f64,
    pub(crate) failed: f64,
}

impl Rates {
    pub(crate) fn new() -> Self {
        let book = Book {
            since: None,
            completed: Series::EMPTY,
            failed: Series::EMPTY,
            queues: HashMap::new(),
            others: [Series::EMPTY; 2],
        };
        Self(Arc::new(Mutex::new(book)))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.0)
    }

    /// Counts stored jobs by queue.
    pub(super) fn enqueued<'a>(&self, now: Timestamp, queues: impl Iterator<Item = &'a Name>) {
        self.count(now, queues, 0);
    }

    /// Counts claimed jobs by queue.
    pub(super) fn started<'a>(&self, now: Timestamp, queues: impl Iterator<Item = &'a Name>) {
        self.count(now, queues, 1);
    }

    /// Counts completed and failed attempts.
    pub(super) fn ended(&self, now: Timestamp, completed: u32, failed: u32) {
        let mut book = self.book();
        book.since.get_or_insert(now);
        book.completed.add(bucket(now), completed);
        book.failed.add(bucket(now), failed);
    }

    fn count<'a>(&self, now: Timestamp, queues: impl Iterator<Item = &'a Name>, place: usize) {
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
            book.queue(queue)[place].add(bucket(now), count);
        }
    }

    /// The rates at `now`.
    pub(crate) fn now(&self, now: Timestamp) -> RatesNow {
        let book = self.book();
        let rate = |series: Series| series.per_second(now, book.since.unwrap_or(now));
        let rates = |[enqueued, started]: [Series; 2]| QueueRates {
            enqueued: rate(enqueued),
            started: rate(started),
        };
        RatesNow {
            queues: book.queues.iter().map(|(name, it)| (name.clone(), rates(*it))).collect(),
            others: rates(book.others),
            completed: rate(book.completed),
            failed: rate(book.failed),
        }
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
        let rate = rates.now(at(120)).queues["mail"].enqueued;
        assert!((1.8..=2.2).contains(&rate), "{rate}");
        assert_eq!(rates.now(at(200)).queues["mail"].enqueued, 0.0);
    }

    #[test]
    fn a_server_that_just_began_does_not_divide_by_a_minute_it_has_not_seen() {
        let (rates, queue) = (Rates::new(), Name::from("mail"));
        rates.started(at(0), std::iter::repeat_n(&queue, 100));
        assert_eq!(rates.now(at(10)).queues["mail"].started, 10.0);
    }

    #[test]
    fn a_clock_that_goes_back_and_queues_beyond_the_bound_lose_no_event() {
        let rates = Rates::new();
        let names: Vec<Name> = (0..QUEUES_MAX + 10).map(|n| format!("q{n}").into()).collect();
        rates.enqueued(at(60), names.iter());
        rates.enqueued(at(50), names.iter());
        let now = rates.now(at(65));
        assert_eq!(now.queues.len(), QUEUES_MAX);
        assert_eq!(now.queues["q0"].enqueued, 0.4, "two within 5 s");
        assert_eq!(now.others.enqueued, 4.0, "twenty within 5 s");
    }
}
