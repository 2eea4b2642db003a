//! Where claims begin to scan `ready`. Rows below that point are deleted, but cannot be vacuumed while an old snapshot
//! might see them, so that a scan from the beginning would skip more and more of them.
//!
//! The low watermarks are hints of this process. A job that becomes visible below one, because it was numbered long
//! before its commit, lowers it: the verb that stored the job, or the notification of another process, reports the
//! number. In case a notification is lost, a claim scans everything from time to time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::sync::lock;

/// Maximum ranks of a lane with a watermark. A lane with more, as with ranks that are times, has none.
const RANKS_MAX: usize = 16;
/// Reported numbers that are kept for claims in flight.
const REPORTS_MAX: usize = 1_024;
/// Minimum time between two full scans of a queue.
const FULL_SCAN_EVERY: Duration = Duration::from_secs(2);
/// Full scans take at most one part in this number of the time.
const FULL_SCAN_SHARE: u32 = 20;

/// The scan positions of this process.
#[derive(Default)]
pub(crate) struct ScanCursor {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Low watermarks by queue, lane and rank: no ready job has a lower number.
    watermarks: HashMap<String, HashMap<i32, BTreeMap<i64, i64>>>,
    /// Count of reports so far.
    reports: u64,
    /// The numbers of the last reports: a job from this number on may have become ready.
    latest: VecDeque<i64>,
    /// When to scan each queue fully again.
    full_scans: HashMap<String, Instant>,
}

/// The state at the begin of a claim, compared when it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanStart {
    reports: u64,
    full_scan_from: Option<Instant>,
}

impl ScanStart {
    /// Whether the claim scans everything, idle lanes included.
    pub(crate) const fn is_full_scan(&self) -> bool {
        self.full_scan_from.is_some()
    }
}

/// Ranges of `ready` to scan, in order and by column; a lane without any is scanned as a whole.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    pub(crate) lanes: Vec<i32>,
    pub(crate) from_ranks: Vec<i64>,
    pub(crate) from_seqs: Vec<i64>,
    /// The last rank, included. Not a number within a rank: an index scan would not stop there.
    pub(crate) upto_ranks: Vec<i64>,
}

impl Ranges {
    fn push(&mut self, lane: i32, (from_rank, from_seq): (i64, i64), upto_rank: i64) {
        self.lanes.push(lane);
        self.from_ranks.push(from_rank);
        self.from_seqs.push(from_seq);
        self.upto_ranks.push(upto_rank);
    }
}

impl ScanCursor {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Reports that a job with this number or a higher one may have become ready.
    pub(crate) fn report(&self, seq: i64) {
        let mut inner = self.lock();
        inner.reports += 1;
        inner.latest.push_back(seq);
        if inner.latest.len() > REPORTS_MAX {
            inner.latest.pop_front();
        }
        let lanes = inner.watermarks.values_mut().flat_map(HashMap::values_mut);
        for watermark in lanes.flat_map(BTreeMap::values_mut) {
            *watermark = seq.min(*watermark);
        }
    }

    /// Voids all watermarks.
    pub(crate) fn forget(&self) {
        self.report(i64::MIN);
    }

    /// Makes the next claim from each queue a full scan.
    pub(crate) fn scan_fully(&self) {
        self.lock().full_scans.clear();
    }

    /// The ranges that a claim from this queue scans; everything if a full scan is due.
    pub(crate) fn for_claim(&self, queue: &str) -> (Ranges, ScanStart) {
        self.for_claim_at(queue, Instant::now())
    }

    fn for_claim_at(&self, queue: &str, now: Instant) -> (Ranges, ScanStart) {
        let mut inner = self.lock();
        let due = inner.full_scans.get(queue).is_none_or(|at| *at <= now);
        let start = ScanStart { reports: inner.reports, full_scan_from: due.then_some(now) };
        if due {
            inner.full_scans.insert(queue.to_owned(), now + FULL_SCAN_EVERY);
            return (Ranges::default(), start);
        }
        (inner.ranges([queue]), start)
    }

    /// The ranges to scan in these queues, outside of claims.
    pub(crate) fn ranges<'a>(&self, queues: impl IntoIterator<Item = &'a str>) -> Ranges {
        self.lock().ranges(queues)
    }

    /// Raises the watermarks after a committed claim took these jobs, given as lane, rank and number.
    pub(crate) fn taken(
        &self,
        start: ScanStart,
        queue: &str,
        jobs: impl Iterator<Item = (i32, i64, i64)>,
    ) {
        let mut inner = self.lock();
        if let Some(from) = start.full_scan_from {
            let rest = FULL_SCAN_EVERY.max(from.elapsed() * FULL_SCAN_SHARE);
            inner.full_scans.insert(queue.to_owned(), Instant::now() + rest);
        }
        let missed = usize::try_from(inner.reports - start.reports).unwrap_or(usize::MAX);
        if missed > inner.latest.len() {
            return;
        }
        let reported = inner.latest.iter().rev().take(missed).min().copied().unwrap_or(i64::MAX);
        let mut raised: HashMap<(i32, i64), i64> = HashMap::new();
        for (lane, rank, seq) in jobs {
            let watermark = raised.entry((lane, rank)).or_insert(i64::MIN);
            *watermark = (*watermark).max(seq.saturating_add(1));
        }
        if raised.is_empty() {
            return;
        }
        let lanes = inner.watermarks.entry(queue.to_owned()).or_default();
        for ((lane, rank), watermark) in raised {
            let ranks = lanes.entry(lane).or_default();
            ranks.insert(rank, watermark.min(reported));
            if ranks.len() > RANKS_MAX {
                ranks.clear();
            }
        }
    }
}

impl Inner {
    fn ranges<'a>(&self, queues: impl IntoIterator<Item = &'a str>) -> Ranges {
        let mut ranges = Ranges::default();
        let lanes = queues.into_iter().filter_map(|queue| self.watermarks.get(queue)).flatten();
        for (lane, ranks) in lanes.filter(|(_, ranks)| !ranks.is_empty()) {
            let mut from = (i64::MIN, i64::MIN);
            for (&rank, &watermark) in ranks {
                if let Some(before) = rank.checked_sub(1) {
                    ranges.push(*lane, from, before);
                }
                from = (rank, watermark);
            }
            ranges.push(*lane, from, i64::MAX);
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: i64 = i64::MIN;
    const MAX: i64 = i64::MAX;

    fn bounds(ranges: &Ranges) -> Vec<((i64, i64), i64)> {
        let from = ranges.from_ranks.iter().copied().zip(ranges.from_seqs.iter().copied());
        from.zip(ranges.upto_ranks.iter().copied()).collect()
    }

    /// A cursor after one claim.
    fn advanced() -> ScanCursor {
        let cursor = ScanCursor::default();
        let (all, start) = cursor.for_claim("q");
        assert_eq!(all, Ranges::default(), "the first claim scans everything");
        cursor.taken(start, "q", [(1, 0, 7), (1, 0, 9), (1, 5, 3)].into_iter());
        cursor
    }

    #[test]
    fn a_claim_begins_after_the_jobs_taken_before() {
        let (ranges, _) = advanced().for_claim("q");
        let expected = [((MIN, MIN), -1), ((0, 10), 4), ((5, 4), MAX)];
        assert_eq!(bounds(&ranges), expected);
        assert_eq!(ranges.lanes, [1, 1, 1]);
    }

    #[test]
    fn a_reported_number_lowers_watermarks_also_those_of_claims_in_flight() {
        let cursor = advanced();
        let (_, start) = cursor.for_claim("q");
        cursor.report(8);
        cursor.taken(start, "q", [(1, 0, 20)].into_iter());
        let expected = [((MIN, MIN), -1), ((0, 8), 4), ((5, 4), MAX)];
        assert_eq!(bounds(&cursor.ranges(["q"])), expected);
        let (_, start) = cursor.for_claim("q");
        (0..2 * REPORTS_MAX).for_each(|_| cursor.report(MAX));
        cursor.taken(start, "q", [(1, 0, 30)].into_iter());
        assert_eq!(bounds(&cursor.ranges(["q"])), expected, "too many reports were missed");
    }

    #[test]
    fn a_queue_is_scanned_fully_every_two_seconds() {
        let cursor = advanced();
        let now = Instant::now();
        let later = now + 2 * FULL_SCAN_EVERY;
        assert_ne!(cursor.for_claim_at("q", now).0, Ranges::default());
        assert_eq!(cursor.for_claim_at("q", later).0, Ranges::default());
        assert_ne!(cursor.for_claim_at("q", later).0, Ranges::default());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_full_scan_is_repeated_less_often() {
        let (cursor, took) = (ScanCursor::default(), Duration::from_secs(1));
        let (_, start) = cursor.for_claim("q");
        tokio::time::advance(took).await;
        cursor.taken(start, "q", [(1, 0, 7)].into_iter());
        tokio::time::advance(took * FULL_SCAN_SHARE - Duration::from_millis(1)).await;
        assert_ne!(cursor.for_claim("q").0, Ranges::default());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(cursor.for_claim("q").0, Ranges::default());
    }

    #[test]
    fn lanes_with_many_ranks_have_no_watermarks() {
        let cursor = advanced();
        let (_, start) = cursor.for_claim("q");
        cursor.taken(start, "q", (0..40).map(|rank| (2, rank, 1)));
        let ranges = cursor.ranges(["q"]);
        assert!(ranges.lanes.iter().filter(|lane| **lane == 2).count() <= RANKS_MAX);
    }
}
