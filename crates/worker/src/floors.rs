//! Guaranteed shares of low priorities: how many of the next jobs must be claimed from a priority on. Pure bookkeeping,
//! independent of engines.

use crate::options::FLOOR_PAUSE;
use tokio::time::Instant;

/// One job, in the unit of [`Floor::owed`].
const JOB: u64 = 100;

/// A share of the jobs that a worker starts, for jobs with this priority or a higher number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) from_priority: i32,
    pub(crate) percent: u32,
}

/// What a floor is owed by the jobs that were started.
struct Floor {
    share: Share,
    /// Hundredths of jobs.
    owed: u64,
    /// There were no such jobs: nothing is owed until this time, so that a worker without them makes few claims in vain.
    paused: Option<Instant>,
}

#[derive(Default)]
pub(crate) struct Floors {
    /// The least urgent first.
    floors: Vec<Floor>,
}

impl Floors {
    pub(crate) fn new(shares: &[Share]) -> Self {
        let floor = |share: &Share| Floor { share: *share, owed: 0, paused: None };
        let mut floors: Vec<Floor> = shares.iter().map(floor).collect();
        floors.sort_by_key(|floor| std::cmp::Reverse(floor.share.from_priority));
        Self { floors }
    }

    /// The priority from which on the next claim is to be made and its number of jobs, if a whole job is owed. Counts
    /// them as claimed.
    pub(crate) fn next(&mut self, most: u32) -> Option<(i32, u32)> {
        let floor = self.floors.iter_mut().find(|floor| floor.owed >= JOB)?;
        let jobs = u32::try_from(floor.owed / JOB).unwrap_or(u32::MAX).min(most);
        floor.owed -= JOB * u64::from(jobs);
        Some((floor.share.from_priority, jobs))
    }

    /// Counts a job that starts; `claimed_from`: the floor of its claim.
    pub(crate) fn start(&mut self, priority: i32, claimed_from: Option<i32>, now: Instant) {
        for floor in &mut self.floors {
            let Share { from_priority, percent } = floor.share;
            if floor.paused.is_some_and(|until| until > now) {
                continue;
            }
            floor.owed += u64::from(percent);
            if priority >= from_priority && claimed_from != Some(from_priority) {
                floor.owed = floor.owed.saturating_sub(JOB);
            }
        }
    }

    /// There were fewer jobs than claimed from this priority on: shares are not saved up.
    pub(crate) fn fell_short(&mut self, from_priority: i32, now: Instant) {
        let floor = self.floors.iter_mut().find(|floor| floor.share.from_priority == from_priority);
        if let Some(floor) = floor {
            (floor.owed, floor.paused) = (0, Some(now + FLOOR_PAUSE));
        }
    }

    /// Drops all shares.
    pub(crate) fn clear(&mut self) {
        self.floors.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floors(shares: &[(i32, u32)]) -> Floors {
        let share = |&(from_priority, percent): &(i32, u32)| Share { from_priority, percent };
        Floors::new(&shares.iter().map(share).collect::<Vec<_>>())
    }

    /// Claims jobs, as many at a time, from endless backlogs of these priorities; returns the started jobs of each.
    fn run(floors: &mut Floors, priorities: &[i32], claim: u32, jobs: usize) -> Vec<usize> {
        let (mut started, now) = (vec![0; priorities.len()], Instant::now());
        while started.iter().sum::<usize>() < jobs {
            let (from, most) = floors.next(claim).map_or((None, claim), |(f, n)| (Some(f), n));
            let first = priorities.iter().position(|it| from.is_none_or(|from| *it >= from));
            let Some(first) = first else {
                floors.fell_short(from.unwrap(), now);
                continue;
            };
            for _ in 0..most {
                started[first] += 1;
                floors.start(priorities[first], from, now);
            }
        }
        started
    }

    #[test]
    fn a_floor_gets_its_share_whatever_the_size_of_claims() {
        for claim in [1, 7, 100] {
            let started = run(&mut floors(&[(10, 20)]), &[0, 10], claim, 10_000);
            let share = started[1] * 100 / 10_000;
            assert!((19..=21).contains(&share), "{started:?}");
        }
    }

    #[test]
    fn floors_of_several_priorities_get_their_shares() {
        let started = run(&mut floors(&[(10, 20), (50, 5)]), &[0, 10, 50], 1, 10_000);
        let shares: Vec<usize> = started.iter().map(|jobs| (jobs + 50) / 100).collect();
        assert_eq!(shares, [80, 15, 5], "a job of the lower class counts for the higher one, too");
    }

    #[test]
    fn without_such_jobs_all_others_run_and_nothing_is_saved_up() {
        let mut floors = floors(&[(10, 20)]);
        assert_eq!(run(&mut floors, &[0], 5, 1_000)[0], 1_000);
        assert_eq!(floors.next(100), None);
    }

    #[test]
    fn jobs_that_start_anyway_count() {
        let mut floors = floors(&[(10, 50)]);
        let now = Instant::now();
        for priority in [0, 10, 0, 10, 10, 10] {
            floors.start(priority, None, now);
        }
        assert_eq!(floors.next(9), None);
        floors.start(0, None, now);
        floors.start(0, None, now);
        assert_eq!(floors.next(9), Some((10, 1)));
    }
}
