//! Whether one more job may start under a limit, and if not, when. The one definition for every engine.

use crate::model::{Rate, Rule};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Parts of a token in which debts are counted, so that a bucket of any rate drains in integers.
const PARTS: u128 = 1_000_000;

/// Whether one more job may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It may start now.
    Now,
    /// It may start at this time, unless other jobs start before.
    At(Timestamp),
    /// It may start after a job that runs ends, or after a job that is ready starts or leaves.
    Later,
}

impl Room {
    /// The verdict of two limits together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Now, room) | (room, Self::Now) => room,
            (Self::Later, _) | (_, Self::Later) => Self::Later,
            (Self::At(one), Self::At(two)) => Self::At(one.max(two)),
        }
    }

    /// Whether it may start now.
    pub const fn is_now(self) -> bool {
        matches!(self, Self::Now)
    }
}

/// Jobs of a group that are ready and have not started: they will take their slots and tokens first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Number of jobs.
    pub jobs: u32,
    /// Their total cost.
    pub cost: u64,
}

/// What a limit remembers about the starts in one group, or about all starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meter {
    /// The time of the latest start.
    at: Timestamp,
    /// Tokens that a bucket lacks at `at`, in millionths.
    debt: u64,
    /// Starts within the window, oldest first: time and cost.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    starts: VecDeque<(Timestamp, u32)>,
    /// No job starts before this time.
    held_until: Timestamp,
    /// The time from which on the meter equals a new one.
    idle_at: Timestamp,
}

impl Meter {
    /// Whether it equals a new meter from `now` on, so that a store may forget it.
    pub fn is_idle(&self, now: Timestamp) -> bool {
        self.idle_at() <= now
    }

    /// The time from which on it equals a new meter.
    pub fn idle_at(&self) -> Timestamp {
        self.idle_at.max(self.held_until)
    }

    /// The time before which no job starts, if it is not over.
    pub fn held_until(&self, now: Timestamp) -> Option<Timestamp> {
        Some(self.held_until).filter(|until| *until > now)
    }

    /// Stops all starts until this time. An earlier hold ends.
    pub const fn hold(&mut self, until: Timestamp) {
        self.held_until = until;
    }

    /// The lack of tokens at `now`, in millionths.
    fn debt(&self, amount: u32, per_ms: u64, now: Timestamp) -> u128 {
        let gained = u128::from(now.since(self.at)) * u128::from(amount) * PARTS;
        u128::from(self.debt).saturating_sub(gained / u128::from(per_ms.max(1)))
    }

    /// The time at which the debt is `most` or less.
    fn paid_at(&self, amount: u32, per_ms: u64, most: u128) -> Timestamp {
        let missing = u128::from(self.debt).saturating_sub(most);
        let ms = (missing * u128::from(per_ms)).div_ceil(u128::from(amount.max(1)) * PARTS);
        self.at.plus(u64::try_from(ms).unwrap_or(u64::MAX))
    }

    /// The total cost of the starts within the window at `now`.
    fn in_window(&self, per_ms: u64, now: Timestamp) -> u64 {
        let within = self.starts.iter().filter(|(at, _)| at.plus(per_ms) > now);
        within.map(|(_, cost)| u64::from(*cost)).sum()
    }
}

impl Rule {
    /// Whether a job of this cost may start after those `ahead` of it, while `running` jobs run.
    ///
    /// A cost above the capacity counts as the capacity: a job that was enqueued before the limit was lowered starts
    /// when all tokens are there.
    pub fn room(
        &self,
        running: u64,
        meter: &Meter,
        ahead: Ahead,
        cost: u32,
        now: Timestamp,
    ) -> Room {
        let slots = match self.max_running {
            Some(max) if running + u64::from(ahead.jobs) >= u64::from(max) => Room::Later,
            _ => Room::Now,
        };
        let held = meter.held_until(now).map_or(Room::Now, Room::At);
        slots.and(held).and(self.tokens(meter, ahead.cost, cost, now))
    }

    /// Whether the rate allows a cost after the cost ahead.
    fn tokens(&self, meter: &Meter, ahead: u64, cost: u32, now: Timestamp) -> Room {
        let Some(rate) = self.rate else { return Room::Now };
        let capacity = u64::from(rate.capacity());
        let needed = ahead.saturating_add(u64::from(cost).min(capacity));
        if needed > capacity {
            return Room::Later;
        }
        let spare = capacity - needed;
        match rate {
            Rate::Bucket { amount, per_ms, .. } => {
                let most = u128::from(spare) * PARTS;
                match meter.debt(amount, per_ms, now) <= most {
                    true => Room::Now,
                    false => Room::At(meter.paid_at(amount, per_ms, most)),
                }
            }
            Rate::Window { per_ms, .. } => {
                let mut left = meter.in_window(per_ms, now);
                let within = meter.starts.iter().filter(|(at, _)| at.plus(per_ms) > now);
                let mut room = Room::Now;
                for (at, cost) in within {
                    if left <= spare {
                        break;
                    }
                    left -= u64::from(*cost);
                    room = Room::At(at.plus(per_ms));
                }
                room
            }
        }
    }

    /// The tokens that a start could take now; `None` without a rate.
    pub fn tokens_left(&self, meter: &Meter, now: Timestamp) -> Option<u64> {
        let rate = self.rate?;
        let capacity = u64::from(rate.capacity());
        let spent = match rate {
            Rate::Bucket { amount, per_ms, .. } => {
                let tokens = meter.debt(amount, per_ms, now).div_ceil(PARTS);
                u64::try_from(tokens).unwrap_or(u64::MAX)
            }
            Rate::Window { per_ms, .. } => meter.in_window(per_ms, now),
        };
        Some(capacity.saturating_sub(spent))
    }

    /// Takes the tokens of a start.
    pub fn take(&self, meter: &mut Meter, cost: u32, now: Timestamp) {
        let Some(rate) = self.rate else { return };
        let cost = cost.min(rate.capacity());
        match rate {
            Rate::Bucket { amount, per_ms, .. } => {
                let debt = meter.debt(amount, per_ms, now) + u128::from(cost) * PARTS;
                meter.debt = u64::try_from(debt).unwrap_or(u64::MAX);
                // A clock that was set back must not forgive the debt of the time in between.
                meter.at = meter.at.max(now);
                meter.idle_at = meter.paid_at(amount, per_ms, 0);
            }
            Rate::Window { per_ms, .. } => {
                while meter.starts.front().is_some_and(|(at, _)| at.plus(per_ms) <= now) {
                    meter.starts.pop_front();
                }
                let now = meter.starts.back().map_or(now, |(at, _)| now.max(*at));
                match meter.starts.back_mut() {
                    Some((at, sum)) if *at == now => *sum = sum.saturating_add(cost),
                    _ => meter.starts.push_back((now, cost)),
                }
                meter.idle_at = now.plus(per_ms);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
    const NONE: Ahead = Ahead { jobs: 0, cost: 0 };

    fn bucket(amount: u32, per_ms: u64, burst: u32) -> Rule {
        Rule::rate(Rate::Bucket { amount, per_ms, burst })
    }

    /// Starts jobs of these costs, each as soon as the rule allows; returns the times and costs.
    fn backlog(rule: Rule, costs: &[u32]) -> Vec<(u64, u32)> {
        let (mut meter, mut now, mut starts) = (Meter::default(), NOW, Vec::new());
        for cost in costs {
            loop {
                match rule.room(0, &meter, NONE, *cost, now) {
                    Room::Now => break,
                    Room::At(at) => {
                        assert!(at > now, "{at} is not after {now}");
                        let before = rule.room(0, &meter, NONE, *cost, at.minus(1));
                        assert!(!before.is_now(), "1 ms earlier would do");
                        now = at;
                    }
                    Room::Later => panic!("nothing runs"),
                }
            }
            rule.take(&mut meter, *cost, now);
            starts.push((now.since(NOW), (*cost).min(rule.rate.unwrap().capacity())));
        }
        assert!(!meter.is_idle(now), "it has just been used");
        assert!(meter.is_idle(now.plus(365 * 86_400_000)));
        starts
    }

    fn times(rule: Rule, count: usize) -> Vec<u64> {
        backlog(rule, &vec![1; count]).into_iter().map(|(at, _)| at).collect()
    }

    #[test]
    fn a_bucket_starts_a_burst_and_then_at_its_rate() {
        assert_eq!(times(bucket(10, 1_000, 1), 4), [0, 100, 200, 300]);
        assert_eq!(times(bucket(10, 1_000, 3), 5), [0, 0, 0, 100, 200]);
        assert_eq!(times(bucket(7, 1_000, 2), 9)[8], 1_000, "142.857 ms each");
        assert_eq!(
            times(bucket(3_000, 1_000, 1), 7),
            [0, 1, 2, 3, 4, 5, 6],
            "1 ms is the resolution"
        );
    }

    #[test]
    fn a_window_never_exceeds_its_maximum() {
        assert_eq!(times(Rule::rate(Rate::window(2, 100)), 6), [0, 0, 100, 100, 200, 200]);
        let costs = backlog(Rule::rate(Rate::window(3, 100)), &[2, 2, 1, 1, 3, 9]);
        assert_eq!(costs, [(0, 2), (100, 2), (100, 1), (200, 1), (300, 3), (400, 3)]);
    }

    #[test]
    fn slots_and_holds_are_counted_too() {
        let (two, meter) = (Rule::running(2), Meter::default());
        assert_eq!(two.room(1, &meter, NONE, 9, NOW), Room::Now);
        assert_eq!(two.room(2, &meter, NONE, 1, NOW), Room::Later);
        assert_eq!(two.room(1, &meter, Ahead { jobs: 1, cost: 1 }, 1, NOW), Room::Later);
        let mut held = Meter::default();
        held.hold(NOW.plus(5));
        assert_eq!(Rule::default().room(0, &held, NONE, 1, NOW), Room::At(NOW.plus(5)));
        assert_eq!(two.room(2, &held, NONE, 1, NOW), Room::Later);
        assert!(!held.is_idle(NOW) && held.is_idle(NOW.plus(5)));
    }

    #[test]
    fn ready_jobs_keep_their_tokens() {
        let rule = bucket(1, 1_000, 3);
        let mut meter = Meter::default();
        rule.take(&mut meter, 2, NOW);
        let room = |jobs, cost| rule.room(0, &meter, Ahead { jobs, cost }, 1, NOW);
        assert_eq!(room(0, 0), Room::Now);
        assert_eq!(room(1, 1), Room::At(NOW.plus(1_000)));
        assert_eq!(room(2, 2), Room::At(NOW.plus(2_000)));
        assert_eq!(room(3, 3), Room::Later, "one of them must start first");
    }

    #[test]
    fn the_tokens_that_are_left_are_those_that_can_be_taken_now() {
        for rule in [bucket(10, 1_000, 5), Rule::rate(Rate::window(5, 1_000))] {
            let mut meter = Meter::default();
            for ms in [0, 1, 99, 100, 350, 700, 1_000, 1_001, 5_000] {
                let now = NOW.plus(ms);
                let left = rule.tokens_left(&meter, now).unwrap();
                let may = |cost| rule.room(0, &meter, NONE, cost, now).is_now();
                let most = (1..=5).filter(|cost| may(*cost)).max().unwrap_or(0);
                assert_eq!(left, u64::from(most), "{rule:?} after {ms} ms");
                if left > 1 {
                    rule.take(&mut meter, 2, now);
                }
            }
        }
        assert_eq!(Rule::running(1).tokens_left(&Meter::default(), NOW), None);
    }

    #[test]
    fn a_clock_set_back_gives_no_tokens() {
        for rule in [bucket(1, 1_000, 1), Rule::rate(Rate::window(1, 1_000))] {
            let mut meter = Meter::default();
            rule.take(&mut meter, 1, NOW);
            let back = NOW.minus(10_000);
            assert_eq!(rule.room(0, &meter, NONE, 1, back), Room::At(NOW.plus(1_000)));
        }
    }

    #[test]
    fn a_cost_above_the_capacity_starts_when_all_tokens_are_there() {
        let starts = backlog(bucket(1, 1_000, 2), &[1, 50]);
        assert_eq!(starts, [(0, 1), (1_000, 2)]);
    }

    proptest! {
        #[test]
        fn no_interval_has_more_than_a_rate_allows(
            amount in 1..50_u32,
            per_ms in 1..5_000_u64,
            burst in 1..20_u32,
            window in any::<bool>(),
            costs in proptest::collection::vec(1..25_u32, 1..60),
        ) {
            let rate = match window {
                true => Rate::window(burst, per_ms),
                false => Rate::Bucket { amount, per_ms, burst },
            };
            let starts = backlog(Rule::rate(rate), &costs);
            for (first, (from, _)) in starts.iter().enumerate() {
                let mut sum = 0;
                for (at, cost) in &starts[first..] {
                    sum += u64::from(*cost);
                    let ms = at - from;
                    let allowed = match rate {
                        Rate::Window { max, per_ms } if ms < per_ms => u64::from(max),
                        Rate::Window { .. } => break,
                        Rate::Bucket { .. } => u64::from(burst) + ms * u64::from(amount) / per_ms,
                    };
                    prop_assert!(sum <= allowed, "{sum} > {allowed} within {ms} ms");
                }
            }
        }
    }
}
