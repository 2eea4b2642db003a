//! Where ready jobs begin, as far as this process knows. Below that, a claim would pass by rows that are dead and
//! cannot be cleared away while an old snapshot might see them.
//!
//! Only hints: what enters below one, because it was numbered long before it was committed, is told (by the verb
//! that did it, or by a wake-up from elsewhere), and found by a claim without hints now and then at the latest.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Ranks of a lane that are remembered. Where there are more, as with ranks that are times, none are.
const RANKS_MAX: usize = 16;
/// News that are remembered for claims that are under way.
const NEWS_MAX: usize = 1_024;
/// How often a queue is looked at without hints, at least;
const SWEEP_EVERY: Duration = Duration::from_secs(2);
/// and so much less often as that took longer,
const SWEEP_SHARE: u32 = 20;
/// even less often in a crowd, as the others do it, too.
const SWEEP_SHARE_CROWD: u32 = 200;

/// What this process knows of where ready jobs begin.
#[derive(Default)]
pub(crate) struct Hints {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// By queue, lane and rank.
    floors: HashMap<String, HashMap<i32, BTreeMap<i64, Floor>>>,
    /// How often news came, and the last of them: from which number on something may be alive.
    news: u64,
    latest: VecDeque<i64>,
    /// By queue: when to look without hints next.
    sweeps: HashMap<String, Instant>,
}

/// Where ready jobs of a lane and a rank begin.
#[derive(Clone, Copy)]
struct Floor {
    /// Nothing alive is numbered below that.
    seq: i64,
    /// Others who have come further are believed up to there: what is numbered from there on may have entered behind
    /// them.
    believed: i64,
}

/// How far others have come, by lane and rank.
pub(crate) type Come = HashMap<(i32, i64), i64>;

/// What a claim was told, to tell in turn what came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    news: u64,
    swept_from: Option<Instant>,
    sweep_share: u32,
}

impl Told {
    /// Whether the claim is to look everywhere, also in lanes that are idle.
    pub(crate) const fn is_everywhere(&self) -> bool {
        self.swept_from.is_some()
    }
}

/// Ranges of ready jobs to look at, in order; a lane without any is looked at as a whole.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    pub(crate) lanes: Vec<i32>,
    pub(crate) from_ranks: Vec<i64>,
    pub(crate) from_seqs: Vec<i64>,
    /// Up to and with this rank. Not to a number within one: an index scan does not know to end there.
    pub(crate) upto_ranks: Vec<i64>,
    /// Up to which number others are believed who have come further.
    pub(crate) believed: Vec<i64>,
}

impl Ranges {
    fn push(&mut self, lane: i32, (from_rank, floor): (i64, Floor), upto_rank: i64) {
        self.lanes.push(lane);
        self.from_ranks.push(from_rank);
        self.from_seqs.push(floor.seq);
        self.upto_ranks.push(upto_rank);
        self.believed.push(floor.believed);
    }
}

impl Hints {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something numbered from here on may have become ready.
    pub(crate) fn news(&self, seq: i64) {
        let mut inner = self.lock();
        inner.news += 1;
        inner.latest.push_back(seq);
        if inner.latest.len() > NEWS_MAX {
            inner.latest.pop_front();
        }
        let lanes = inner.floors.values_mut().flat_map(HashMap::values_mut);
        for floor in lanes.flat_map(BTreeMap::values_mut) {
            *floor = floor.below(seq);
        }
    }

    /// Nothing is known any more.
    pub(crate) fn forget(&self) {
        self.news(i64::MIN);
    }

    /// The next claim from each queue is to look everywhere.
    pub(crate) fn look_everywhere(&self) {
        self.lock().sweeps.clear();
    }

    /// Where a claim from this queue should look, which is everywhere now and then.
    pub(crate) fn for_claim(&self, queue: &str, is_crowd: bool) -> (Ranges, Told) {
        self.for_claim_at(queue, is_crowd, Instant::now())
    }

    fn for_claim_at(&self, queue: &str, is_crowd: bool, now: Instant) -> (Ranges, Told) {
        let mut inner = self.lock();
        let due = inner.sweeps.get(queue).is_none_or(|at| *at <= now);
        let sweep_share = if is_crowd { SWEEP_SHARE_CROWD } else { SWEEP_SHARE };
        let told = Told { news: inner.news, swept_from: due.then_some(now), sweep_share };
        if due {
            inner.sweeps.insert(queue.to_owned(), now + SWEEP_EVERY);
            return (Ranges::default(), told);
        }
        (inner.ranges([queue]), told)
    }

    /// Where else than in a claim to look for something in these queues.
    pub(crate) fn ranges<'a>(&self, queues: impl IntoIterator<Item = &'a str>) -> Ranges {
        self.lock().ranges(queues)
    }

    /// A claim took these, as lane, rank and number, and committed; others had come so far when it began.
    pub(crate) fn taken(
        &self,
        told: Told,
        queue: &str,
        jobs: impl Iterator<Item = (i32, i64, i64)>,
        come: &Come,
    ) {
        let mut inner = self.lock();
        if let Some(from) = told.swept_from {
            let rest = SWEEP_EVERY.max(from.elapsed() * told.sweep_share);
            inner.sweeps.insert(queue.to_owned(), Instant::now() + rest);
        }
        let missed = usize::try_from(inner.news - told.news).unwrap_or(usize::MAX);
        if missed > inner.latest.len() {
            return;
        }
        let since = inner.latest.iter().rev().take(missed).min().copied().unwrap_or(i64::MAX);
        let mut floors: HashMap<(i32, i64), i64> = HashMap::new();
        for (lane, rank, seq) in jobs {
            let floor = floors.entry((lane, rank)).or_insert(i64::MIN);
            *floor = (*floor).max(seq.saturating_add(1));
        }
        if floors.is_empty() {
            return;
        }
        let lanes = inner.floors.entry(queue.to_owned()).or_default();
        for ((lane, rank), floor) in floors {
            let ranks = lanes.entry(lane).or_default();
            // Who is not as far as the others has found something that they passed by, and there may be more.
            let is_as_far = come.get(&(lane, rank)).is_some_and(|come| floor >= *come);
            let believed = if is_as_far { i64::MAX } else { floor };
            ranks.insert(rank, Floor { seq: floor, believed }.below(since));
            if ranks.len() > RANKS_MAX {
                ranks.clear();
            }
        }
    }
}

impl Floor {
    const NONE: Self = Self { seq: i64::MIN, believed: i64::MIN };

    /// The same, now that something may be alive from this number on.
    fn below(self, seq: i64) -> Self {
        Self { seq: self.seq.min(seq), believed: self.believed.min(seq) }
    }
}

impl Inner {
    fn ranges<'a>(&self, queues: impl IntoIterator<Item = &'a str>) -> Ranges {
        let mut ranges = Ranges::default();
        let lanes = queues.into_iter().filter_map(|queue| self.floors.get(queue)).flatten();
        for (lane, ranks) in lanes.filter(|(_, ranks)| !ranks.is_empty()) {
            let mut from = (i64::MIN, Floor::NONE);
            for (&rank, &floor) in ranks {
                if let Some(before) = rank.checked_sub(1) {
                    ranges.push(*lane, from, before);
                }
                from = (rank, floor);
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

    fn learned() -> Hints {
        let hints = Hints::default();
        let (all, told) = hints.for_claim("q", false);
        assert_eq!(all, Ranges::default(), "the first looks everywhere");
        hints.taken(told, "q", [(1, 0, 7), (1, 0, 9), (1, 5, 3)].into_iter(), &Come::new());
        hints
    }

    #[test]
    fn a_claim_begins_behind_what_others_took() {
        let (ranges, _) = learned().for_claim("q", false);
        let expected = [((MIN, MIN), -1), ((0, 10), 4), ((5, 4), MAX)];
        assert_eq!(bounds(&ranges), expected);
        assert_eq!(ranges.lanes, [1, 1, 1]);
    }

    #[test]
    fn what_entered_below_a_hint_lowers_it_also_for_a_claim_under_way() {
        let hints = learned();
        let (_, told) = hints.for_claim("q", false);
        hints.news(8);
        hints.taken(told, "q", [(1, 0, 20)].into_iter(), &Come::new());
        let expected = [((MIN, MIN), -1), ((0, 8), 4), ((5, 4), MAX)];
        assert_eq!(bounds(&hints.ranges(["q"])), expected);
        let (_, told) = hints.for_claim("q", false);
        (0..2 * NEWS_MAX).for_each(|_| hints.news(MAX));
        hints.taken(told, "q", [(1, 0, 30)].into_iter(), &Come::new());
        assert_eq!(
            bounds(&hints.ranges(["q"])),
            expected,
            "too much happened meanwhile to learn from it"
        );
    }

    #[test]
    fn a_queue_is_looked_at_without_hints_now_and_then() {
        let hints = learned();
        let now = Instant::now();
        let later = now + 2 * SWEEP_EVERY;
        assert_ne!(hints.for_claim_at("q", false, now).0, Ranges::default());
        assert_eq!(hints.for_claim_at("q", false, later).0, Ranges::default());
        assert_ne!(hints.for_claim_at("q", false, later).0, Ranges::default());
    }

    #[tokio::test(start_paused = true)]
    async fn who_took_long_to_look_without_hints_rests_and_longer_in_a_crowd() {
        for (is_crowd, rest) in [(false, SWEEP_SHARE), (true, SWEEP_SHARE_CROWD)] {
            let (hints, took) = (Hints::default(), Duration::from_secs(1));
            let (_, told) = hints.for_claim("q", is_crowd);
            tokio::time::advance(took).await;
            hints.taken(told, "q", [(1, 0, 7)].into_iter(), &Come::new());
            tokio::time::advance(took * rest - Duration::from_millis(1)).await;
            assert_ne!(hints.for_claim("q", is_crowd).0, Ranges::default());
            tokio::time::advance(Duration::from_millis(1)).await;
            assert_eq!(hints.for_claim("q", is_crowd).0, Ranges::default());
        }
    }

    #[test]
    fn ranks_that_are_times_are_not_remembered() {
        let hints = learned();
        let (_, told) = hints.for_claim("q", false);
        hints.taken(told, "q", (0..40).map(|rank| (2, rank, 1)), &Come::new());
        assert!(hints.ranges(["q"]).lanes.iter().filter(|lane| **lane == 2).count() <= RANKS_MAX);
    }

    /// Up to where others are believed in the lane and rank of these tests.
    fn believed(hints: &Hints) -> i64 {
        hints.ranges(["q"]).believed[1]
    }

    #[test]
    fn others_are_believed_by_who_has_come_as_far_and_heard_of_nothing_since() {
        let hints = learned();
        assert_eq!(believed(&hints), 10, "it does not know how far others have come");
        let take = |last, come| {
            let (_, told) = hints.for_claim("q", true);
            hints.taken(told, "q", [(1, 0, last)].into_iter(), &Come::from([((1, 0), come)]));
            believed(&hints)
        };
        assert_eq!(take(20, 40), 21, "what it took was behind them");
        assert_eq!(take(50, 40), MAX);
        hints.news(30);
        assert_eq!(believed(&hints), 30);
        assert_eq!(take(31, 80), 32);
        assert_eq!(take(90, 80), MAX);
        let (_, told) = hints.for_claim("q", true);
        hints.news(60);
        let come = Come::from([((1, 0), 91)]);
        hints.taken(told, "q", [(1, 0, 95)].into_iter(), &come);
        assert_eq!(believed(&hints), 60, "while it claimed");
    }
}
