//! Ready jobs by priority: the ranks of a lane, each counted up to a bound. Knows nothing of how rows are stored.

use crate::entry::Entry;
use crate::executor::Executor;
use crate::rows::Rows;
use windlass_core::engine::{LaneStats, PriorityStats};
use windlass_core::limits::{PRIORITIES_MAX, READY_COUNTED_MAX};
use windlass_core::model::Order;
use windlass_core::{Result, Timestamp};

/// Ranks of a lane to read: one more than are reported, to learn whether there are others.
pub const RANKS_MAX: usize = PRIORITIES_MAX + 1;

/// A position behind all jobs of a rank. Signed, because stores keep signed numbers.
const LAST: u64 = i64::MAX.cast_unsigned();

/// Rounds of counting: ranks with few jobs leave a larger share of the bound to the others.
pub const ROUNDS: u64 = 2;

/// The ready jobs of one rank of a lane.
#[derive(Clone, Copy, Debug)]
pub struct Rank {
    /// The rank.
    pub rank: i64,
    /// The priority of the first job. Under strict order it equals the rank.
    priority: i32,
    /// The time at which the first job became ready.
    head_ready_at: Timestamp,
    counted: u64,
    /// Whether there may be more jobs than counted.
    more: bool,
}

impl Rank {
    /// A rank of which only the first job was read.
    pub const fn new(rank: i64, priority: i32, head_ready_at: Timestamp) -> Self {
        Self { rank, priority, head_ready_at, counted: 1, more: true }
    }

    /// Records a count that stopped at `most`.
    pub const fn count(&mut self, counted: u64, most: u64) {
        (self.counted, self.more) = (counted, counted >= most);
    }

    fn is_priority(&self) -> bool {
        self.rank == i64::from(self.priority)
    }
}

/// Whether these are all ranks of a lane, and each equals a priority.
fn is_all(ranks: &[Rank]) -> bool {
    ranks.len() < RANKS_MAX && ranks.iter().all(Rank::is_priority)
}

/// The ranks of a lane whose jobs must be counted; none if the lane's own counter is enough.
pub fn to_count(ranks: &mut [Rank]) -> Vec<&mut Rank> {
    let is_all = is_all(ranks);
    let reported = ranks.iter_mut().take(PRIORITIES_MAX);
    let open: Vec<_> = reported.filter(|rank| rank.more && rank.is_priority()).collect();
    if is_all && open.len() == 1 { Vec::new() } else { open }
}

/// The bound of each count in a round over this number of ranks.
pub fn share(ranks: usize) -> u64 {
    (READY_COUNTED_MAX / ROUNDS / (ranks as u64).max(1)).max(1)
}

/// Sets the ready jobs of a lane by priority, from its first ranks.
pub fn report(lane: &mut LaneStats, ranks: &[Rank]) {
    let reported = || ranks.iter().take(PRIORITIES_MAX).filter(|rank| rank.is_priority());
    let priority =
        |rank: &Rank| PriorityStats::new(rank.priority, rank.counted, rank.head_ready_at);
    lane.priorities = reported().map(priority).collect();
    let rest = lane.unlisted();
    let mut open = lane.priorities.iter_mut().zip(reported()).filter(|(_, rank)| rank.more);
    // If only one rank has more jobs than counted, all uncounted jobs belong to it.
    if is_all(ranks)
        && let (Some((only, _)), None) = (open.next(), open.next())
    {
        only.available += rest;
    }
}

impl<R: Rows> Executor<R> {
    /// Whether a lane has ready jobs, and keeps those of one priority together.
    pub fn is_by_priority(&self, lane: &LaneStats) -> bool {
        let order = self.queues.get(&lane.queue).map(|settings| settings.order);
        lane.available > 0 && order.unwrap_or_default() == Order::Strict
    }

    /// Sets the ready jobs of these lanes by priority.
    pub(crate) fn report_priorities(&self, lanes: &mut [LaneStats]) -> Result<()> {
        let mut found: Vec<(&mut LaneStats, Vec<Rank>)> = Vec::new();
        for lane in lanes.iter_mut().filter(|lane| self.is_by_priority(lane)) {
            let ranks = self.ranks(lane)?;
            found.push((lane, ranks));
        }
        for _ in 0..ROUNDS {
            let mut open: Vec<(&LaneStats, &mut Rank)> = Vec::new();
            for (lane, ranks) in &mut found {
                let lane = &**lane;
                open.extend(to_count(ranks).into_iter().map(|rank| (lane, rank)));
            }
            let most = share(open.len());
            for (lane, rank) in open {
                rank.count(self.count_rank(lane, rank.rank, most)?, most);
            }
        }
        found.into_iter().for_each(|(lane, ranks)| report(lane, &ranks));
        Ok(())
    }

    /// The first ranks of a lane.
    fn ranks(&self, lane: &LaneStats) -> Result<Vec<Rank>> {
        let key = (lane.queue.clone(), lane.kind.clone());
        let (mut ranks, mut after) = (Vec::new(), None);
        while ranks.len() < RANKS_MAX
            && let Some(head) = self.rows.ready(&key, after, 1)?.first()
        {
            let first = |job: &Entry| Rank::new(head.rank, job.job.header.priority, job.ready_at);
            ranks.push(self.read(head.id, first)?);
            after = Some((head.rank, LAST));
        }
        Ok(ranks)
    }

    fn count_rank(&self, lane: &LaneStats, rank: i64, most: u64) -> Result<u64> {
        let key = (lane.queue.clone(), lane.kind.clone());
        let heads = self.rows.ready(&key, Some((rank.saturating_sub(1), LAST)), most as usize)?;
        Ok(heads.iter().take_while(|head| head.rank == rank).count() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The report on a lane with `available` ready jobs and these ranks `(rank, priority, jobs)`, each counted up to
    /// `most`.
    fn reported(available: u64, ranks: &[(i64, i32, u64)], most: u64) -> Vec<(i32, u64)> {
        let rank =
            |(rank, priority, _): &(i64, i32, u64)| Rank::new(*rank, *priority, Timestamp::EPOCH);
        let mut found: Vec<_> = ranks.iter().map(rank).collect();
        for rank in to_count(&mut found) {
            let (.., count) = ranks.iter().find(|(of, ..)| *of == rank.rank).unwrap();
            rank.count(*count.min(&most), most);
        }
        let mut lane = LaneStats::empty("q".into(), "k".into());
        lane.available = available;
        report(&mut lane, &found);
        lane.priorities.iter().map(|stats| (stats.priority, stats.available)).collect()
    }

    #[test]
    fn uncounted_jobs_belong_to_the_only_priority_that_has_more() {
        let two = |first, second| [(-1, -1, first), (0, 0, second)];
        assert_eq!(reported(7, &two(3, 4), 10), [(-1, 3), (0, 4)]);
        assert_eq!(reported(50, &two(3, 47), 10), [(-1, 3), (0, 47)]);
        assert_eq!(reported(50, &two(47, 3), 10), [(-1, 47), (0, 3)]);
        assert_eq!(reported(50, &two(30, 20), 10), [(-1, 10), (0, 10)], "whose are the others?");
        assert_eq!(reported(50, &[(5, 5, 50)], 10), [(5, 50)], "they all have it");
    }

    #[test]
    fn known_counts_are_not_repeated() {
        let mut ranks = [0, 1, 2].map(|rank| Rank::new(rank.into(), rank, Timestamp::EPOCH));
        let open =
            |ranks: &mut [Rank]| to_count(ranks).iter().map(|it| it.rank).collect::<Vec<_>>();
        assert_eq!(open(&mut ranks[..1]), [0; 0], "its lane knows");
        assert_eq!(open(&mut ranks), [0, 1, 2]);
        ranks[1].count(4, 5);
        assert_eq!(open(&mut ranks), [0, 2]);
        ranks[0].count(4, 5);
        assert_eq!(open(&mut ranks), [0; 0], "the rest of the lane is of rank 2");
    }

    #[test]
    fn ranks_of_another_order_are_not_priorities() {
        let mixed = [(-99, 3, 4), (0, 0, 46)];
        assert_eq!(reported(50, &mixed, 10), [(0, 10)], "the others may be of rank -99");
        assert_eq!(reported(5, &[(-99, 3, 4), (0, 0, 1)], 10), [(0, 1)]);
        assert_eq!(reported(50, &[(1_800_000_000_000, 3, 50)], 10), []);
    }

    #[test]
    fn priorities_beyond_the_bound_are_not_listed() {
        let ranks: Vec<_> = (0..RANKS_MAX).map(|n| (n as i64, n as i32, 1)).collect();
        let listed = reported(1_000, &ranks, 10);
        assert_eq!(listed.len(), PRIORITIES_MAX);
        assert!(listed.iter().all(|(_, available)| *available == 1), "{listed:?}");
    }

    #[test]
    fn one_answer_counts_a_bounded_number_of_jobs() {
        for ranks in [1, 4, 1_000] {
            assert!(share(ranks) * ranks as u64 * ROUNDS <= READY_COUNTED_MAX, "{ranks}");
        }
        assert_eq!(share(usize::MAX), 1, "each was found already");
    }
}
